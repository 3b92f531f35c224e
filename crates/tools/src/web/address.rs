//! Which addresses belong to the public internet.
//!
//! What is not public is somebody's own network, this machine, or a service for machines in a data
//! centre that hands out keys to whoever asks from inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one of the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        // This network, private, carrier's, this machine, link-local.
        (0 | 10 | 127, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            // Protocol assignments, examples, 6to4 relays, benchmarks.
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            // Multicast, reserved, broadcast.
            | (224..=255, ..)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = address.segments();
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    // An interface named after an IPv4 address that it is reached at.
    if matches!(s4, 0 | 0x200) && s5 == 0x5efe {
        return false;
    }
    match (s0, s1) {
        // IPv4 in IPv6 dress, where nothing says otherwise.
        (0, 0) if (s2, s3, s4, s5) == (0, 0, 0, 0xffff) => inner(s6, s7),
        (0x64, 0xff9b) if (s2, s3, s4, s5) == (0, 0, 0, 0) => inner(s6, s7),
        (0x2002, _) => inner(s1, s2),
        // Protocol assignments (tunnels among them) and examples.
        (0x2001, 0..=0x1ff | 0xdb8) | (0x3fff, 0..=0xfff) => false,
        // What is handed out as global unicast.
        (0x2000..=0x3fff, _) => true,
        _ => false,
    }
}

/// Whether a name means this machine or its surroundings whatever a resolver says.
pub(crate) fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    matches!(
        last,
        "localhost" | "localdomain" | "local" | "internal" | "home" | "lan"
    ) || name.ends_with(".home.arpa")
        || matches!(
            name.as_str(),
            "localhost6" | "ip6-localhost" | "ip6-loopback" | "metadata"
        )
}

/// The address that a host is, if it is one and not a name.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    let host = host.trim_end_matches('.');
    match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(host) => host.parse().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

/// Hosts that may be private all the same: `host` or `host:port`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exceptions(Vec<(String, Option<u16>)>);

impl Exceptions {
    pub(crate) fn new(hosts: &[String]) -> Self {
        let hosts = hosts.iter().map(|text| {
            let text = text.trim().to_ascii_lowercase();
            match text.rsplit_once(':') {
                // Colons without brackets are an IPv6 address.
                Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                    match port.parse() {
                        Ok(port) => (plain(host), Some(port)),
                        Err(_) => (plain(&text), None),
                    }
                }
                Some(_) | None => (plain(&text), None),
            }
        });
        Self(hosts.collect())
    }

    pub(crate) fn contain(&self, host: &str, port: u16) -> bool {
        let host = plain(host);
        self.0
            .iter()
            .any(|(known, only)| *known == host && only.is_none_or(|only| only == port))
    }
}

/// A host in the one spelling in which hosts are compared.
fn plain(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    match literal(&host).or_else(|| host.parse().ok()) {
        Some(address) => address.to_string(),
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_public_or_not() {
        let table = [
            ("1.1.1.1", true),
            ("8.8.8.8", true),
            ("93.184.215.14", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("9.255.255.255", true),
            ("10.0.0.1", false),
            ("10.255.255.255", false),
            ("11.0.0.0", true),
            ("100.63.255.255", true),
            ("100.64.0.1", false),
            ("100.100.100.200", false),
            ("100.127.255.255", false),
            ("100.128.0.0", true),
            ("127.0.0.1", false),
            ("127.1.2.3", false),
            ("169.253.1.1", true),
            ("169.254.169.254", false),
            ("169.254.0.1", false),
            ("172.15.255.255", true),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("172.32.0.0", true),
            ("192.0.0.8", false),
            ("192.0.1.1", true),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.167.1.1", true),
            ("192.168.1.1", false),
            ("198.17.1.1", true),
            ("198.18.0.1", false),
            ("198.19.255.255", false),
            ("198.51.100.7", false),
            ("203.0.113.9", false),
            ("223.255.255.255", true),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::7f00:1", false),
            ("::8.8.8.8", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.1.2.3", false),
            ("::ffff:169.254.169.254", false),
            ("::ffff:8.8.8.8", true),
            ("::ffff:0:8.8.8.8", false),
            ("64:ff9b::a9fe:a9fe", false),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::8.8.8.8", true),
            ("64:ff9b:1::8.8.8.8", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:20::1", false),
            ("2001:db8::1", false),
            ("2001:4860:4860::8888", true),
            ("2002:7f00:1::1", false),
            ("2002:a9fe:a9fe::1", false),
            ("2002:808:808::1", true),
            ("2606:4700:4700::1111", true),
            ("2a00:1450::5efe:a00:1", false),
            ("3fff::1", false),
            ("5f00::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ];
        for (address, expected) in table {
            let parsed = address.parse().unwrap();
            assert_eq!(is_public(parsed), expected, "{address}");
        }
    }

    #[test]
    fn names_of_this_machine_are_known() {
        for name in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "ip6-localhost",
            "printer.local",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in [
            "metadata.google.internal",
            "localhost.localdomain",
            "nas.lan",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in [
            "example.com",
            "localhost.example.com",
            "local",
            "notlocalhost",
        ] {
            assert_eq!(is_local_name(name), name == "local", "{name}");
        }
    }

    #[test]
    fn exceptions_are_for_a_host_or_for_one_of_its_ports() {
        let hosts = ["Docs.Test", "127.0.0.1:8080", "[::1]:9", "::2", "a:b"].map(String::from);
        let exceptions = Exceptions::new(&hosts);
        for (host, port, expected) in [
            ("docs.test", 1, true),
            ("docs.test.", 443, true),
            ("sub.docs.test", 443, false),
            ("127.0.0.1", 8080, true),
            ("127.0.0.1", 80, false),
            ("[::1]", 9, true),
            ("[::1]", 10, false),
            ("[::2]", 10, true),
            ("[0:0:0::2]", 10, true),
            ("a", 80, false),
        ] {
            assert_eq!(exceptions.contain(host, port), expected, "{host} {port}");
        }
    }
}
