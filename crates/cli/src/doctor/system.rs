//! This program, the system under it, its limits, the terminal and the way to the network.

use std::io::IsTerminal as _;

use rustix::process::{Resource, getrlimit};
use serde_json::json;

use super::report::Check;
use crate::setup::environment;

/// Fewer descriptors than this are soon used up by commands and connections.
const DESCRIPTORS: u64 = 256;

/// Less memory than this is not enough for a run and its commands.
const MEMORY: u64 = 1 << 30;

/// Nothing of this program is older.
const BUILT: i64 = 1_735_689_600;

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![version(), platform(), user(), clock()];
    checks.extend(limits());
    checks.push(terminal());
    checks.push(proxies());
    checks
}

fn version() -> Check {
    let version = env!("CARGO_PKG_VERSION");
    let place = std::env::current_exe();
    let place = place.map_or_else(
        |_| "a place that is not known".into(),
        |path| path.display().to_string(),
    );
    Check::ok("version", format!("tooloop {version} at {place}"))
        .with(json!({"version": version, "program": place}))
}

fn platform() -> Check {
    let told = |what: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{what}"));
        text.map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned())
    };
    let (name, release) = (told("ostype"), told("osrelease"));
    let machine = std::env::consts::ARCH;
    Check::ok("platform", format!("{name} {release} on {machine}")).with(json!({
        "system": name,
        "kernel": release,
        "machine": machine,
    }))
}

fn user() -> Check {
    let user = rustix::process::geteuid();
    if user.is_root() {
        Check::ok(
            "user",
            "root: what is allowed may change the whole system where no sandbox holds it",
        )
    } else {
        Check::ok("user", format!("number {}", user.as_raw()))
    }
}

fn clock() -> Check {
    let now = jiff::Timestamp::now();
    let text = format!("{now:.0}");
    if now.as_second() < BUILT {
        return Check::problem(
            "clock",
            format!("{text}, which is in the past: no certificate of a server is valid then"),
            "set the clock of this machine",
        );
    }
    Check::ok("clock", text)
}

fn limits() -> Vec<Check> {
    let mut checks = Vec::new();
    let descriptors = getrlimit(Resource::Nofile).current;
    let words = |limit: Option<u64>| limit.map_or_else(|| "no limit".into(), |n| n.to_string());
    let text = format!("{} (ulimit -n)", words(descriptors));
    checks.push(if descriptors.is_some_and(|limit| limit < DESCRIPTORS) {
        let advice = format!("raise it: ulimit -n {}", DESCRIPTORS * 4);
        Check::warning("open files", text, advice)
    } else {
        Check::ok("open files", text)
    });
    let memory = getrlimit(Resource::As).current;
    let text = match memory {
        None => "no limit (ulimit -v)".to_owned(),
        Some(bytes) => format!("{} MiB (ulimit -v)", bytes >> 20),
    };
    checks.push(if memory.is_some_and(|limit| limit < MEMORY) {
        Check::warning(
            "memory",
            text,
            "commands may fail for want of memory: raise it",
        )
    } else {
        Check::ok("memory", text)
    });
    checks
}

fn terminal() -> Check {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let name = environment("TERM").unwrap_or_default();
    let details = json!({"is_terminal": is_terminal, "TERM": name});
    if !is_terminal {
        return Check::ok("terminal", "none: runs here are headless").with(details);
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let size = size.map_or_else(
        |_| "its size is not known".into(),
        |size| format!("{} columns, {} lines", size.ws_col, size.ws_row),
    );
    let check = if name.is_empty() || name == "dumb" {
        Check::warning(
            "terminal",
            format!("TERM is {name:?}; {size}"),
            "set TERM to what the terminal is, such as xterm-256color: the interactive mode moves \
             the cursor",
        )
    } else {
        Check::ok("terminal", format!("{name}; {size}"))
    };
    check.with(details)
}

/// The variables that name proxies.
const PROXIES: [&str; 8] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
];

fn proxies() -> Check {
    let named = |name: &'static str| Some((name, environment(name)?));
    let found: Vec<_> = PROXIES.into_iter().filter_map(named).collect();
    if found.is_empty() {
        return Check::ok("proxies", "none is set");
    }
    let mut told = Vec::new();
    let mut wrong = Vec::new();
    for (name, value) in &found {
        if name.eq_ignore_ascii_case("no_proxy") {
            told.push(format!("{name}={value}"));
            continue;
        }
        match place(value) {
            Some(place) => told.push(format!("{name} is {place}")),
            None => wrong.push(*name),
        }
    }
    let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
    let details = json!({ "variables": names });
    if wrong.is_empty() {
        return Check::ok("proxies", told.join("; ")).with(details);
    }
    let text = format!("{} is no address of a proxy", wrong.join(" and "));
    Check::problem("proxies", text, "write it as http://host:port").with(details)
}

/// Host and port of a proxy, without the login that may be written there.
fn place(value: &str) -> Option<String> {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let place = authority
        .rsplit_once('@')
        .map_or(authority, |(_, place)| place);
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (place, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
    (is_host && is_port).then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_told_without_its_login() {
        for (value, expected) in [
            ("http://me:secret@proxy.corp:3128/", Some("proxy.corp:3128")),
            ("proxy.corp", Some("proxy.corp")),
            ("http://[::1]:3128", Some("[::1]:3128")),
            ("http://[::1]", Some("[::1]")),
            ("http://proxy:port", None),
            ("http://", None),
            ("a b:80", None),
        ] {
            assert_eq!(place(value).as_deref(), expected, "{value}");
        }
    }
}
