//! Settings and all that is wrong with them, keys by name, and the model that they come to.

use std::path::Path;

use serde_json::json;
use tooloop::exec::Environment;
use tooloop::provider::{KEY_VARIABLES, ResolveError, Resolved, Secret, Wanted, compat, resolve};

use super::report::Check;
use crate::secrets;
use crate::settings::{self, Files, Loaded, Sandbox, Settings, SettingsError, Sources, Trust};
use crate::setup::environment;

/// Reads all sources.
pub(super) fn load(sources: &Sources) -> Result<Loaded, SettingsError> {
    settings::load(sources, &Files::default())
}

/// Whether no run begins without a sandbox.
pub(super) const fn needs_sandbox(settings: &Settings) -> bool {
    match settings.sandbox {
        Sandbox::Auto | Sandbox::Off => false,
        Sandbox::Workspace | Sandbox::ReadOnly | Sandbox::Required => true,
    }
}

/// What is set about the sandbox.
pub(super) fn sandbox(loaded: &Loaded) -> Check {
    let described = loaded.describe();
    let told = described.into_iter().find(|(key, ..)| *key == "sandbox");
    let (value, origin) =
        told.map_or_else(Default::default, |(_, value, origin, _)| (value, origin));
    let text = format!("the setting is {value} ({origin})");
    if loaded.settings.sandbox == Sandbox::Off {
        let advice = "what is allowed runs as you: the setting auto puts a wall round it";
        return Check::warning("setting", text, advice);
    }
    Check::ok("setting", text)
}

/// What is told of the sources.
pub(super) fn checks(sources: &Sources, loaded: &Result<Loaded, SettingsError>) -> Vec<Check> {
    let mut checks = files(sources);
    match loaded {
        Ok(loaded) => {
            checks.push(Check::ok("settings", "all are understood"));
            checks.extend(loaded.warnings.iter().map(|warning| {
                Check::warning(
                    "settings",
                    warning,
                    "see docs/settings.md, or `tooloop config`",
                )
            }));
            checks.push(trust(loaded.trust));
        }
        Err(error) => checks.extend(error.problems.iter().map(|problem| {
            let advice = "mend it: with it no run begins";
            Check::problem("settings", problem.to_string(), advice)
        })),
    }
    checks
}

/// Whether the person has said yes to what came with the folder.
fn trust(trust: Trust) -> Check {
    match trust {
        Trust::Trusted => Check::ok("trust", "this folder is trusted with what its files want"),
        Trust::NotNeeded => Check::ok("trust", "not needed: the folder's files widen nothing"),
        Trust::Untrusted => Check::warning(
            "trust",
            "this folder is not trusted: what its files would widen is not applied",
            "to see it, and to trust it: tooloop trust",
        ),
    }
}

/// The files, the weakest first.
fn files(sources: &Sources) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut tell = |whose: &str, path: &Path| {
        let there = match path.try_exists() {
            Ok(true) => "is there",
            Ok(false) => "is not there",
            Err(_) => "cannot be looked at",
        };
        let text = format!("{whose}: {} {there}", path.display());
        let details = json!({"path": path.display().to_string(), "exists": path.exists()});
        checks.push(Check::ok("source", text).with(details));
    };
    let mut all = Vec::new();
    all.extend(sources.json_user.clone().map(|path| ("user", path)));
    all.extend(sources.user.clone().map(|path| ("user", path)));
    if let Some(project) = &sources.project {
        all.push(("project", project.join(compat::PROJECT_SETTINGS)));
        all.push(("project", project.join(".tooloop/config.toml")));
        all.push(("local", project.join(compat::LOCAL_SETTINGS)));
        all.push(("local", project.join(".tooloop/local.toml")));
    }
    all.extend(sources.explicit.clone().map(|path| ("--settings", path)));
    all.extend(sources.json_managed.clone().map(|path| ("managed", path)));
    all.extend(sources.managed.clone().map(|path| ("managed", path)));
    for (whose, path) in &all {
        tell(whose, path);
    }
    if sources.user.is_none() {
        checks.push(Check::warning(
            "source",
            "there is no place for settings of your own",
            "set HOME or XDG_CONFIG_HOME to an absolute path",
        ));
    }
    checks
}

/// Which keys there are. Nothing of a value is told.
pub(super) fn keys(settings: &Settings) -> Vec<Check> {
    let own = settings.key_variable.as_deref();
    let names = KEY_VARIABLES
        .iter()
        .copied()
        .chain(own.filter(|own| !KEY_VARIABLES.contains(own)));
    let found: Vec<_> = names
        .filter_map(|name| Some((name, environment(name)?)))
        .collect();
    let listed: Vec<_> = found.iter().map(|(name, _)| *name).collect();
    let mut checks = Vec::new();
    checks.push(
        if listed.is_empty() {
            Check::ok("keys", "none is set")
        } else {
            Check::ok("keys", format!("set: {}", listed.join(", ")))
        }
        .with(json!({ "variables": listed })),
    );
    if let Some(own) = own.filter(|own| !listed.contains(own)) {
        let text = format!("{own} is empty, and the setting key_variable names it");
        checks.push(Check::problem("keys", text, format!("set {own}")));
    }
    for (name, value) in &found {
        if value.chars().any(|c| c.is_whitespace() || c.is_control()) {
            checks.push(Check::warning(
                "keys",
                format!("there are blanks or line ends in {name}"),
                "set it again without them: no key has any",
            ));
        }
    }
    let rules = secrets::rules(settings);
    let mut withheld: Vec<String> = Environment::secrets(std::env::vars_os(), &rules)
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .collect();
    withheld.sort();
    let text = if withheld.is_empty() {
        "no variable".to_owned()
    } else {
        withheld.join(", ")
    };
    let details = json!({ "variables": withheld });
    checks.push(Check::ok("withheld", format!("from commands: {text}")).with(details));
    checks
}

/// Which model a run would have.
pub(super) fn model(settings: &Settings, has_local_server: bool) -> Check {
    let key = settings.key_variable.as_deref().and_then(environment);
    let wanted = Wanted {
        model: settings.model.clone(),
        base_url: settings.base_url.clone(),
        format: settings.api,
        api_key: key.map(Secret::new),
    };
    match resolve(&wanted, &environment) {
        Ok(Resolved { config, model }) => {
            let model = model.unwrap_or_else(|| "the first that the server has".into());
            Check::ok(
                "model",
                format!("{model}, asked for at {}", place(&config.base_url)),
            )
        }
        Err(ResolveError::NothingConfigured) if has_local_server => {
            Check::ok("model", "none is named: that of the local server serves")
        }
        Err(error @ (ResolveError::NothingConfigured | ResolveError::NoKey { .. })) => {
            Check::problem("model", error.to_string(), "a run would end with status 41")
        }
        Err(error @ ResolveError::UnknownModel { .. }) => {
            Check::problem("model", error.to_string(), "a run would end with status 52")
        }
    }
}

/// An address without the login that may be written there, nor what follows the path.
fn place(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
        .trim_end_matches('/')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Level;

    #[test]
    fn an_address_is_told_without_its_login() {
        for (url, expected) in [
            ("https://me:pw@api.test/v1?key=x", "https://api.test/v1"),
            ("https://api.test", "https://api.test"),
            ("http://127.0.0.1:1234/", "http://127.0.0.1:1234"),
        ] {
            assert_eq!(place(url), expected);
        }
    }

    #[test]
    fn each_problem_of_the_settings_is_one_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".tooloop")).unwrap();
        let file = folder.path().join(".tooloop/config.toml");
        std::fs::write(&file, "modle = \"x\"\nmax_parallel_tools = \"many\"\n").unwrap();
        let sources = Sources {
            user: None,
            managed: None,
            json_managed: None,
            ..Sources::new(folder.path().to_owned(), Vec::new())
        };
        let loaded = load(&sources);
        let checks = checks(&sources, &loaded);
        let problems = checks.iter().filter(|check| check.level == Level::Problem);
        let places: Vec<_> = problems
            .map(|check| check.text.split(": ").next())
            .collect();
        let at = |place: &str| Some(format!("{}:{place}", file.display()));
        let expected = [at("1:1"), at("2:22")];
        assert_eq!(
            places,
            expected.iter().map(Option::as_deref).collect::<Vec<_>>()
        );
    }
}
