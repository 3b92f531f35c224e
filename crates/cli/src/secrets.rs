//! Which secrets this process has been given, and who must not see them.
//!
//! The one place that knows: what commands do not find in their environment is what no result, log,
//! trace, recording or export shows.
//!
//! Only known values go from results: a model that works with files must see what is in them. What
//! leaves beside the output goes through the same `Redactor` with its eye for what looks like a key.

use std::ffi::OsString;

use tooloop::exec::{Environment, EnvironmentRules};
use tooloop::provider::{KEY_VARIABLES, Redactor};

use crate::settings::{self, Files, Settings, Sources};
use crate::telemetry;

/// What commands may see of this process's environment.
pub(crate) fn rules(settings: &Settings) -> EnvironmentRules {
    rules_for(settings, std::env::vars_os())
}

fn rules_for(
    settings: &Settings,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> EnvironmentRules {
    // A value that looks like a key is one, whatever the name.
    let keys = variables.into_iter().filter_map(|(name, value)| {
        let is_key = Redactor::recognizes(value.to_str()?);
        name.into_string().ok().filter(|_| is_key)
    });
    let mut withhold: Vec<String> = KEY_VARIABLES.iter().map(ToString::to_string).collect();
    withhold.extend(telemetry::WITHHELD.iter().map(ToString::to_string));
    withhold.extend(keys.filter(|name| !is_plain(name)));
    withhold.extend(settings.withhold_environment.iter().cloned());
    EnvironmentRules {
        withhold,
        pass: settings.pass_environment.clone(),
    }
}

/// For what leaves this process beside its output: logs, traces, recordings, exports.
pub(crate) fn for_records(settings: &Settings) -> Redactor {
    let nothing_passes = EnvironmentRules {
        pass: Vec::new(),
        ..rules(settings)
    };
    redactor(settings, &nothing_passes, std::env::vars_os())
}

/// For the results of tools: the same, but for values that commands are to have. The providers'
/// keys are never shown.
pub(crate) fn for_results(settings: &Settings) -> Redactor {
    redactor(settings, &rules(settings), std::env::vars_os())
}

/// For what is told of sessions without running one. Settings that cannot be read name nothing.
pub(crate) fn for_exports() -> Redactor {
    let folder = std::env::current_dir().unwrap_or_default();
    let sources = Sources::new(folder, std::env::vars_os().collect());
    let loaded = settings::load(&sources, &Files::default());
    for_records(&loaded.map(|loaded| loaded.settings).unwrap_or_default())
}

fn redactor(
    settings: &Settings,
    rules: &EnvironmentRules,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Redactor {
    let variables: Vec<_> = variables.into_iter().collect();
    let is_key = |name: &OsString| {
        KEY_VARIABLES.iter().any(|key| name == key)
            || settings
                .key_variable
                .as_ref()
                .is_some_and(|key| name == key.as_str())
    };
    // A provider's key is hidden also where commands may see it.
    let keys: Vec<_> = variables
        .iter()
        .filter(|(name, _)| is_key(name))
        .cloned()
        .collect();
    let named = variables
        .into_iter()
        .filter(|(name, _)| !is_plain(&name.to_string_lossy()));
    Redactor::of_variables(Environment::secrets(named, rules).chain(keys))
}

/// Withheld, but no secrets: the names of a trace, and settings, such as the name of a variable.
fn is_plain(name: &str) -> bool {
    name == "TRACEPARENT" || name == "TRACESTATE" || name.starts_with(settings::PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_withheld_is_what_is_taken_out() {
        let settings = Settings {
            key_variable: Some("TEAM_LOGIN".into()),
            withhold_environment: vec!["MINE".into()],
            pass_environment: vec!["DEPLOY_TOKEN".into(), KEY_VARIABLES[0].into()],
            ..Settings::default()
        };
        let variables = [
            (KEY_VARIABLES[0], "provider-key-1"),
            (KEY_VARIABLES[1], "lm-studio"),
            ("API_KEY", "function"),
            ("STRIPE", "sk_live_4eC39HqLyjWDarjtT1"),
            ("TEAM_LOGIN", "team-login-1"),
            ("MINE", "mine-all-mine"),
            ("GITHUB_TOKEN", "git-token-1"),
            ("DB_PASSWORD", "localhost"),
            ("DEPLOY_TOKEN", "deploy-token"),
            ("DATABASE_URL", "db://app:inner-word-1@db.corp/"),
            (
                "TRACEPARENT",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ),
            ("FOO", "plain-value"),
            ("TOOLOOP_KEY_VARIABLE", "TEAM_LOGIN"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let rules = rules_for(&settings, variables.clone());
        let redactor = redactor(&settings, &rules, variables);
        for (text, expected) in [
            ("provider-key-1", "[masked******]"),
            ("team-login-1", "[masked****]"),
            ("mine-all-mine", "[masked*****]"),
            ("git-token-1", "[masked***]"),
            ("inner-word-1", "[masked****]"),
            ("sk_live_4eC39HqLyjWDarjtT1", "[masked******************]"),
            // A plain word stands in ordinary text.
            ("lm-studio", "lm-studio"),
            ("function", "function"),
            ("localhost", "localhost"),
            // Somebody wants it to be seen.
            ("deploy-token", "deploy-token"),
            (
                "0af7651916cd43dd8448eb211c80319c",
                "0af7651916cd43dd8448eb211c80319c",
            ),
            ("plain-value", "plain-value"),
            ("TEAM_LOGIN", "TEAM_LOGIN"),
        ] {
            assert_eq!(redactor.redact_known(text), expected);
        }
    }
}
