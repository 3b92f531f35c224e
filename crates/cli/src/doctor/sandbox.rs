//! The wall round commands, as a real attempt shows it.

use std::fs;

use serde_json::json;
use tooloop::exec::{Enforced, Mechanism, Sandbox, SandboxOptions, SandboxUnavailable};

use super::report::Check;

/// What is so, where a run needs a sandbox or not.
pub(super) fn checks(is_needed: bool) -> Vec<Check> {
    match Sandbox::probe(&SandboxOptions::default()) {
        Ok(sandbox) => found(sandbox.enforced()),
        Err(unavailable) => vec![missing(&unavailable, is_needed)],
    }
}

fn found(enforced: &Enforced) -> Vec<Check> {
    let yes_or_no = |is: bool| if is { "yes" } else { "no" };
    let text = format!(
        "{}, tried: Landlock {}; processes of their own: {}; network of their own: {}",
        enforced.mechanism,
        match enforced.landlock_abi {
            0 => "not used".to_owned(),
            abi => format!("version {abi}"),
        },
        yes_or_no(enforced.process_namespace),
        yes_or_no(enforced.network_namespace),
    );
    let gaps: Vec<String> = enforced.gaps.iter().map(ToString::to_string).collect();
    let details = json!({
        "mechanism": enforced.mechanism.to_string(),
        "landlock_abi": enforced.landlock_abi,
        "process_namespace": enforced.process_namespace,
        "network_namespace": enforced.network_namespace,
        "gaps": gaps,
    });
    let mut checks = vec![Check::ok("mechanism", text).with(details)];
    if enforced.mechanism == Mechanism::Landlock {
        let (why, advice) = no_bubblewrap();
        checks.push(Check::warning("bubblewrap", why, advice));
    }
    let open = gaps.into_iter().map(|gap| Check::ok("stays open", gap));
    checks.extend(open);
    checks
}

fn missing(unavailable: &SandboxUnavailable, is_needed: bool) -> Check {
    let missing: Vec<_> = unavailable
        .missing
        .iter()
        .map(ToString::to_string)
        .collect();
    let names: Vec<_> = unavailable
        .missing
        .iter()
        .map(|missing| &missing.feature)
        .collect();
    let text = format!("none can be set up here: {}", missing.join("; "));
    let how = "install bubblewrap, or use a kernel with Landlock (5.13 or later)";
    let check = if is_needed {
        let advice = format!("a run would end with status 44, as it is set; {how}");
        Check::problem("mechanism", text, advice)
    } else {
        let advice = format!("commands run as you, held by the rules alone; {how}");
        Check::warning("mechanism", text, advice)
    };
    check.with(json!({"mechanism": null, "missing": names}))
}

/// Why bubblewrap is not used, as far as the system tells.
fn no_bubblewrap() -> (String, String) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("bwrap"))
        .find(|program| program.is_file());
    let Some(program) = program else {
        return (
            "not installed: there is no bwrap in PATH".into(),
            "install the package bubblewrap: with it commands get processes and a network of \
             their own"
                .into(),
        );
    };
    let program = program.display();
    let number = |path: &str| {
        let text = fs::read_to_string(path).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let switches = [
        ("/proc/sys/user/max_user_namespaces", 0),
        ("/proc/sys/kernel/unprivileged_userns_clone", 0),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1),
    ];
    let off = switches
        .into_iter()
        .find(|(path, off)| number(path) == Some(*off));
    match off {
        Some((path, value)) => (
            format!("{program} is there, but user namespaces are off: {path} is {value}"),
            "whoever runs this machine can change that; the sandbox works without it, with the \
             gaps below"
                .into(),
        ),
        None => (
            format!("{program} is there, but the attempt to use it failed"),
            format!("see what it says: {program} --ro-bind / / --unshare-all true"),
        ),
    }
}
