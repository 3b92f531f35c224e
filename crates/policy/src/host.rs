//! Names of hosts, compared.

/// Tells whether a specifier such as `domain:example.com` or `*.example.com` names this host.
pub(crate) fn matches(specifier: &str, host: &str) -> bool {
    let specifier = specifier.trim();
    let wanted = specifier.strip_prefix("domain:").unwrap_or(specifier);
    let wanted = wanted.trim().to_ascii_lowercase();
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.contains(':') => {
            name.trim_end_matches('.')
        }
        Some(_) | None => &host,
    };
    match wanted.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => {
            suffix.starts_with('.') && host.len() > suffix.len() && host.ends_with(suffix)
        }
        None => host == wanted,
    }
}
