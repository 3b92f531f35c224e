//! What common programs write and whom they talk to, as data.
//!
//! This is for questions in good time, not for proof: what is missing here the sandbox refuses.

use std::{collections::BTreeMap, sync::LazyLock};

/// Which operands of a program it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// None.
    Nothing,
    /// All of them.
    All,
    /// All but so many at the start.
    After(usize),
    /// The last one, if there are at least two and no option names the target.
    Last,
}

/// A program that writes what it is told to.
pub(super) struct Writer {
    pub(super) names: &'static [&'static str],
    pub(super) operands: Written,
    /// Letters of options with a value.
    pub(super) valued: &'static str,
    /// Long options with a value in the next word.
    pub(super) long_valued: &'static [&'static str],
    /// Options whose value is written.
    pub(super) outputs: &'static [&'static str],
}

const WRITER: Writer = Writer {
    names: &[],
    operands: Written::Nothing,
    valued: "",
    long_valued: &[],
    outputs: &[],
};

pub(super) const WRITERS: &[Writer] = &[
    Writer {
        names: &[
            "rm",
            "rmdir",
            "unlink",
            "shred",
            "mkfifo",
            "tee",
            "fallocate",
        ],
        operands: Written::All,
        valued: "nsl",
        ..WRITER
    },
    Writer {
        names: &["mkdir"],
        operands: Written::All,
        valued: "m",
        long_valued: &["--mode"],
        ..WRITER
    },
    Writer {
        names: &["touch"],
        operands: Written::All,
        valued: "dtr",
        long_valued: &["--date", "--reference", "--time"],
        ..WRITER
    },
    Writer {
        names: &["truncate"],
        operands: Written::All,
        valued: "sr",
        long_valued: &["--size", "--reference"],
        ..WRITER
    },
    Writer {
        names: &["chmod", "chown", "chgrp", "chattr"],
        operands: Written::After(1),
        ..WRITER
    },
    Writer {
        names: &["cp", "ln", "install", "link"],
        operands: Written::Last,
        valued: "Smog",
        long_valued: &["--suffix", "--mode", "--owner", "--group"],
        outputs: &["-t", "--target-directory"],
    },
    Writer {
        names: &["mv"],
        operands: Written::All,
        valued: "S",
        long_valued: &["--suffix"],
        outputs: &["-t", "--target-directory"],
    },
    Writer {
        names: &["scp"],
        operands: Written::Last,
        valued: "cDFiJloPSX",
        ..WRITER
    },
    Writer {
        names: &["rsync"],
        operands: Written::Last,
        valued: "efMBT",
        long_valued: &[
            "--rsh",
            "--exclude",
            "--include",
            "--exclude-from",
            "--files-from",
        ],
        outputs: &["--log-file", "--backup-dir", "--partial-dir"],
    },
    Writer {
        names: &["sort"],
        valued: "kStT",
        outputs: &["-o", "--output"],
        ..WRITER
    },
    Writer {
        names: &["unzip"],
        valued: "x",
        outputs: &["-d"],
        ..WRITER
    },
    Writer {
        names: &[
            "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "lz4",
        ],
        operands: Written::All,
        valued: "STM",
        outputs: &["-o"],
        ..WRITER
    },
    Writer {
        names: &["curl"],
        valued: "dHXuAeFbKTxmwrCEyYzQtU",
        outputs: &[
            "-o",
            "-D",
            "-c",
            "--output",
            "--output-dir",
            "--dump-header",
            "--cookie-jar",
            "--trace",
            "--trace-ascii",
            "--stderr",
        ],
        ..WRITER
    },
    Writer {
        names: &["wget"],
        valued: "eitwTQUlADIXR",
        outputs: &[
            "-O",
            "-o",
            "-a",
            "-P",
            "--output-document",
            "--output-file",
            "--directory-prefix",
        ],
        ..WRITER
    },
    Writer {
        names: &[
            "gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "rustc", "pandoc", "protoc", "tsc",
        ],
        valued: "IDLl",
        outputs: &["-o", "--output", "--out-dir", "--outDir", "--outFile"],
        ..WRITER
    },
    Writer {
        names: &["openssl"],
        outputs: &["-out", "-keyout"],
        ..WRITER
    },
    Writer {
        names: &["ssh-keygen"],
        valued: "btCNPmOIrVnZ",
        outputs: &["-f"],
        ..WRITER
    },
    Writer {
        names: &["mktemp"],
        valued: "",
        outputs: &["-p", "--tmpdir"],
        ..WRITER
    },
    Writer {
        names: &["patch"],
        valued: "piFzBVxY",
        outputs: &["-o", "-d", "-r", "--output", "--directory"],
        ..WRITER
    },
    Writer {
        names: &["cmake"],
        valued: "SDGUCT",
        outputs: &["-B", "--prefix"],
        ..WRITER
    },
    Writer {
        names: &["split", "csplit"],
        operands: Written::After(1),
        valued: "abClnt",
        ..WRITER
    },
    Writer {
        names: &["python", "python3"],
        ..WRITER
    },
    Writer {
        names: &["cargo"],
        valued: "pFjZ",
        outputs: &["--target-dir", "--root", "--out-dir", "--artifact-dir"],
        ..WRITER
    },
    Writer {
        names: &["npm", "pnpm", "yarn"],
        outputs: &["--prefix", "--cwd", "--dir", "-C"],
        ..WRITER
    },
    Writer {
        names: &["uniq", "xxd"],
        operands: Written::After(1),
        valued: "fswclnop",
        long_valued: &["--skip-fields", "--skip-chars", "--check-chars"],
        ..WRITER
    },
    Writer {
        names: &["shuf", "iconv", "gpg", "tree", "strip", "less", "objcopy"],
        valued: "niftreLPI",
        outputs: &["-o", "-O", "--output", "--log-file", "--LOG-FILE"],
        ..WRITER
    },
    Writer {
        names: &["tcpdump"],
        valued: "cirsF",
        outputs: &["-w"],
        ..WRITER
    },
    Writer {
        names: &["go"],
        outputs: &["-o"],
        ..WRITER
    },
    Writer {
        names: &["pip", "pip3"],
        outputs: &["--target", "-t", "--prefix", "--root", "-d", "--dest"],
        ..WRITER
    },
];

/// Programs that talk to what their operands name by a web address, and obey a proxy.
pub(super) struct Web {
    pub(super) names: &'static [&'static str],
    /// Whether an operand without a scheme is an address too.
    pub(super) bare: bool,
    /// Letters of options with a value.
    pub(super) valued: &'static str,
    /// Long options with a value in the next word.
    pub(super) long_valued: &'static [&'static str],
}

pub(super) const WEB: &[Web] = &[
    Web {
        names: &["curl"],
        bare: true,
        valued: "dHXuAeFbcDKToxmwrCEyYzQtUP",
        long_valued: &[
            "--data",
            "--data-raw",
            "--data-binary",
            "--data-urlencode",
            "--json",
            "--header",
            "--request",
            "--user",
            "--user-agent",
            "--referer",
            "--form",
            "--cookie",
            "--cookie-jar",
            "--dump-header",
            "--config",
            "--upload-file",
            "--output",
            "--output-dir",
            "--proxy",
            "--max-time",
            "--connect-timeout",
            "--write-out",
            "--range",
            "--cert",
            "--key",
            "--cacert",
            "--retry",
            "--retry-delay",
            "--limit-rate",
            "--resolve",
            "--unix-socket",
            "--interface",
        ],
    },
    Web {
        names: &["wget"],
        bare: true,
        valued: "oOaPeitwTQUlADIXRB",
        long_valued: &[
            "--output-document",
            "--output-file",
            "--directory-prefix",
            "--header",
            "--user-agent",
            "--post-data",
            "--post-file",
            "--tries",
            "--timeout",
            "--wait",
            "--user",
            "--password",
        ],
    },
    Web {
        names: &[
            "http", "https", "xh", "xhs", "aria2c", "lynx", "w3m", "elinks", "yt-dlp",
        ],
        bare: false,
        valued: "odsjAa",
        long_valued: &[],
    },
];

/// Programs that talk to other machines in a way of their own, which no proxy carries.
pub(super) const RAW: &[&str] = &[
    "ssh",
    "sftp",
    "mosh",
    "telnet",
    "nc",
    "ncat",
    "netcat",
    "ping",
    "ping6",
    "traceroute",
    "tracepath",
    "mtr",
    "dig",
    "nslookup",
    "host",
    "whois",
    "ftp",
    "lftp",
    "nmap",
    "ssh-copy-id",
    "ntpdate",
    "arp-scan",
];

/// A program some of whose subcommands need the network.
pub(super) struct Remote {
    pub(super) names: &'static [&'static str],
    /// The first words that do, where `a b` are two; none means that all do.
    pub(super) subcommands: &'static [&'static str],
    /// Options with which they do not.
    pub(super) unless: &'static [&'static str],
    /// Whether they need it only if they are told what to fetch: otherwise they put in place what
    /// is written down already, which may lie here.
    pub(super) only_with_operands: &'static [&'static str],
}

const REMOTE: Remote = Remote {
    names: &[],
    subcommands: &[],
    unless: &[],
    only_with_operands: &[],
};

pub(super) const REMOTES: &[Remote] = &[
    Remote {
        names: &["npm", "pnpm", "yarn", "bun"],
        subcommands: &[
            "install", "i", "add", "update", "up", "upgrade", "outdated", "view", "info", "search",
            "publish", "audit", "login", "whoami", "create", "init", "dlx",
        ],
        unless: &["--offline", "--prefer-offline", "--no-install"],
        only_with_operands: &["install", "i", "init", "create"],
    },
    Remote {
        names: &["pip", "pip3"],
        subcommands: &["install", "download", "wheel", "search", "index"],
        unless: &["--no-index"],
        ..REMOTE
    },
    Remote {
        names: &["uv"],
        subcommands: &[
            "pip install",
            "pip sync",
            "add",
            "tool install",
            "tool run",
            "python install",
            "self",
        ],
        unless: &["--offline", "--no-index"],
        ..REMOTE
    },
    Remote {
        names: &["uvx", "pipx", "bunx"],
        subcommands: &[],
        unless: &["--offline", "list"],
        ..REMOTE
    },
    Remote {
        names: &["cargo"],
        subcommands: &[
            "fetch",
            "install",
            "publish",
            "search",
            "add",
            "update",
            "login",
            "owner",
            "yank",
            "info",
            "generate-lockfile",
            "binstall",
        ],
        unless: &["--offline", "--frozen", "--path"],
        ..REMOTE
    },
    Remote {
        names: &["rustup"],
        subcommands: &[
            "update",
            "install",
            "self",
            "toolchain install",
            "target add",
            "component add",
        ],
        ..REMOTE
    },
    Remote {
        names: &["go"],
        subcommands: &["get", "mod download", "install"],
        only_with_operands: &["install"],
        ..REMOTE
    },
    Remote {
        names: &[
            "gem", "composer", "poetry", "pipenv", "bundle", "conda", "mamba", "mix", "dotnet",
            "nuget", "dart", "flutter", "cabal", "stack", "opam", "cpan",
        ],
        subcommands: &[
            "install", "update", "require", "add", "upgrade", "push", "publish", "search",
            "create", "deps.get", "get", "pub get",
        ],
        unless: &["--local", "--offline"],
        only_with_operands: &["install", "create", "get"],
    },
    Remote {
        names: &[
            "gh", "glab", "hub", "aws", "gcloud", "az", "heroku", "vercel", "netlify", "flyctl",
            "kubectl", "helm", "twine", "rclone", "s3cmd", "gsutil",
        ],
        unless: &["--help", "--version", "help", "version"],
        ..REMOTE
    },
    Remote {
        names: &["terraform", "tofu", "pulumi"],
        subcommands: &[
            "init", "plan", "apply", "destroy", "up", "refresh", "import", "get",
        ],
        ..REMOTE
    },
    Remote {
        names: &["svn", "hg"],
        subcommands: &[
            "checkout", "co", "update", "up", "commit", "ci", "pull", "push", "clone", "incoming",
            "outgoing", "incoming",
        ],
        unless: &[],
        only_with_operands: &["commit", "ci", "update", "up"],
    },
    Remote {
        names: &["freshclam", "ansible", "ansible-playbook", "speedtest"],
        ..REMOTE
    },
];

/// Subcommands of git that talk to a remote, and those of their words that do.
pub(super) const GIT_REMOTE: &[(&str, &[&str])] = &[
    ("fetch", &[]),
    ("pull", &[]),
    ("push", &[]),
    ("clone", &[]),
    ("ls-remote", &[]),
    ("fetch-pack", &[]),
    ("send-pack", &[]),
    ("submodule", &["update", "add"]),
    ("remote", &["update", "show", "prune"]),
    ("lfs", &["pull", "push", "fetch", "clone"]),
    ("archive", &["--remote"]),
    ("svn", &["fetch", "clone", "rebase", "dcommit"]),
    ("request-pull", &[]),
    ("send-email", &[]),
];

/// Options of git's subcommands with a value in the next word, as far as operands are looked for.
pub(super) const GIT_VALUED: &[&str] = &[
    "-b",
    "--branch",
    "-o",
    "--origin",
    "--depth",
    "--reference",
    "-c",
    "--config",
    "-j",
    "--jobs",
    "--shallow-since",
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--push-option",
    "-s",
    "--strategy",
    "-X",
    "--template",
    "--separate-git-dir",
    "--filter",
];

/// Programs that cannot do their work inside of a sandbox: with the subcommands that cannot, or
/// none for all of them.
pub(super) const OUTSIDERS: &[(&[&str], &[&str])] = &[
    (&["sudo", "doas", "su", "pkexec", "runuser", "run0"], &[]),
    (
        &[
            "docker",
            "podman",
            "nerdctl",
            "docker-compose",
            "podman-compose",
            "buildah",
            "minikube",
            "kind",
            "vagrant",
            "lxc",
            "incus",
            "virsh",
        ],
        &[],
    ),
    (
        &[
            "systemctl",
            "service",
            "systemd-run",
            "loginctl",
            "timedatectl",
            "hostnamectl",
        ],
        &[],
    ),
    (
        &[
            "umount",
            "losetup",
            "modprobe",
            "insmod",
            "rmmod",
            "iptables",
            "ip6tables",
            "nft",
            "ufw",
            "reboot",
            "shutdown",
            "poweroff",
            "halt",
            "swapon",
            "swapoff",
            "mkswap",
            "fdisk",
            "parted",
            "visudo",
        ],
        &[],
    ),
    (
        &[
            "useradd", "userdel", "usermod", "groupadd", "groupdel", "adduser", "deluser",
            "passwd", "chpasswd",
        ],
        &[],
    ),
    (&["nsenter", "chroot", "debootstrap"], &[]),
    (
        &["apt", "apt-get", "aptitude"],
        &[
            "install",
            "remove",
            "purge",
            "update",
            "upgrade",
            "full-upgrade",
            "dist-upgrade",
            "autoremove",
            "reinstall",
            "build-dep",
            "download",
        ],
    ),
    (
        &["dnf", "yum", "zypper", "microdnf"],
        &[
            "install",
            "remove",
            "erase",
            "update",
            "upgrade",
            "reinstall",
            "in",
            "rm",
            "up",
            "groupinstall",
        ],
    ),
    (&["apk"], &["add", "del", "update", "upgrade", "fix"]),
    (
        &["brew"],
        &[
            "install",
            "uninstall",
            "update",
            "upgrade",
            "tap",
            "services",
            "link",
            "unlink",
            "cleanup",
        ],
    ),
    (
        &["snap", "flatpak"],
        &["install", "remove", "update", "refresh", "run"],
    ),
    (
        &["dpkg"],
        &[
            "-i",
            "--install",
            "-r",
            "--remove",
            "-P",
            "--purge",
            "--configure",
        ],
    ),
    (
        &["pacman"],
        &["-S", "-Sy", "-Syu", "-Syyu", "-R", "-Rs", "-Rns", "-U"],
    ),
    (
        &["rpm"],
        &["-i", "-ivh", "-U", "-Uvh", "-e", "--install", "--erase"],
    ),
    (&["nix-env", "nix-channel"], &[]),
    (&["crontab"], &["-e", "-r", "-i", "-"]),
];

/// Programs that are looked at by their names alone.
const OTHERS: &[&str] = &[
    "bsdtar", "dd", "find", "git", "perl", "python", "python3", "sed", "tar", "zip",
];

/// All that is known of the programs of one name.
#[derive(Default)]
pub(super) struct Known {
    pub(super) writers: Vec<&'static Writer>,
    pub(super) web: Option<&'static Web>,
    pub(super) is_raw: bool,
    pub(super) remotes: Vec<&'static Remote>,
    /// The subcommands that cannot work in a sandbox, in lists; an empty one means all.
    pub(super) outsiders: Vec<&'static [&'static str]>,
}

/// All programs of which something is known, so that one look finds all of it.
pub(super) static KNOWN: LazyLock<BTreeMap<&'static str, Known>> = LazyLock::new(|| {
    let mut all: BTreeMap<&'static str, Known> = BTreeMap::new();
    for writer in WRITERS {
        for name in writer.names {
            all.entry(name).or_default().writers.push(writer);
        }
    }
    for web in WEB {
        for name in web.names {
            all.entry(name).or_default().web.get_or_insert(web);
        }
    }
    for remote in REMOTES {
        for name in remote.names {
            all.entry(name).or_default().remotes.push(remote);
        }
    }
    for (names, subcommands) in OUTSIDERS {
        for name in *names {
            all.entry(name).or_default().outsiders.push(subcommands);
        }
    }
    for name in RAW {
        all.entry(name).or_default().is_raw = true;
    }
    for name in OTHERS {
        all.entry(name).or_default();
    }
    all
});

/// A program that reads what its operands name.
pub(super) struct Reader {
    pub(super) names: &'static [&'static str],
    /// How many operands at the start are texts, such as a pattern.
    pub(super) texts: usize,
    /// Letters of options whose value is a text and no path.
    pub(super) valued: &'static str,
    /// Long options whose value is a text and no path.
    pub(super) long_valued: &'static [&'static str],
    /// Options that stand for the texts, so that all operands are paths.
    pub(super) replacing: &'static [&'static str],
}

const READER: Reader = Reader {
    names: &[],
    texts: 0,
    valued: "",
    long_valued: &[],
    replacing: &[],
};

/// Programs some of whose words are texts; of other programs every word that is no option is a path.
pub(super) const READERS: &[Reader] = &[
    Reader {
        names: &["grep", "egrep", "fgrep"],
        texts: 1,
        valued: "eABCmdD",
        long_valued: &[
            "--after-context",
            "--before-context",
            "--binary-files",
            "--color",
            "--colour",
            "--context",
            "--devices",
            "--directories",
            "--exclude",
            "--exclude-dir",
            "--group-separator",
            "--include",
            "--label",
            "--max-count",
            "--regexp",
        ],
        replacing: &["-e", "-f", "--regexp", "--file"],
    },
    Reader {
        names: &["rg"],
        texts: 1,
        valued: "eABCmdgjMrtTE",
        long_valued: &[
            "--after-context",
            "--before-context",
            "--color",
            "--colors",
            "--context",
            "--context-separator",
            "--encoding",
            "--engine",
            "--field-context-separator",
            "--field-match-separator",
            "--glob",
            "--iglob",
            "--max-columns",
            "--max-count",
            "--max-depth",
            "--max-filesize",
            "--path-separator",
            "--regexp",
            "--replace",
            "--sort",
            "--sortr",
            "--threads",
            "--type",
            "--type-add",
            "--type-not",
        ],
        replacing: &["-e", "-f", "--regexp", "--file", "--files", "--type-list"],
    },
    Reader {
        names: &["fd", "fdfind"],
        texts: 1,
        valued: "eEtdSocjg",
        long_valued: &[
            "--and",
            "--changed-before",
            "--changed-within",
            "--color",
            "--exclude",
            "--extension",
            "--max-depth",
            "--max-results",
            "--min-depth",
            "--owner",
            "--path-separator",
            "--size",
            "--threads",
            "--type",
        ],
        replacing: &[],
    },
    Reader {
        names: &["sed"],
        texts: 1,
        valued: "el",
        long_valued: &["--expression", "--line-length"],
        replacing: &["-e", "-f", "--expression", "--file"],
    },
    Reader {
        names: &["awk", "gawk", "mawk", "nawk"],
        texts: 1,
        valued: "Fv",
        long_valued: &["--assign", "--field-separator"],
        replacing: &["-f", "--file"],
    },
    Reader {
        names: &["jq"],
        texts: 1,
        valued: "",
        long_valued: &["--indent"],
        replacing: &["-f", "--from-file"],
    },
    Reader {
        names: &["cut"],
        valued: "bcdf",
        long_valued: &[
            "--bytes",
            "--characters",
            "--delimiter",
            "--fields",
            "--output-delimiter",
        ],
        ..READER
    },
    Reader {
        names: &["sort"],
        valued: "kSt",
        long_valued: &["--buffer-size", "--field-separator", "--key", "--sort"],
        ..READER
    },
    Reader {
        names: &["column"],
        valued: "EHNORTWcdenorst",
        long_valued: &["--output-separator", "--separator", "--table-columns"],
        ..READER
    },
    Reader {
        names: &["paste"],
        valued: "d",
        long_valued: &["--delimiters"],
        ..READER
    },
    Reader {
        names: &["join"],
        valued: "12aeotv",
        ..READER
    },
    Reader {
        names: &["head", "tail"],
        valued: "cns",
        long_valued: &["--bytes", "--lines", "--pid", "--sleep-interval"],
        ..READER
    },
    Reader {
        names: &["nl"],
        valued: "bdfhilnsvw",
        ..READER
    },
    Reader {
        names: &["od", "hexdump", "xxd", "strings"],
        valued: "ANSTceglnotjw",
        ..READER
    },
    Reader {
        names: &["stat"],
        valued: "c",
        long_valued: &["--format", "--printf"],
        ..READER
    },
    Reader {
        names: &["du", "tree", "ls"],
        valued: "BIPTdw",
        long_valued: &[
            "--block-size",
            "--color",
            "--exclude",
            "--hide",
            "--ignore",
            "--max-depth",
            "--sort",
            "--time-style",
        ],
        ..READER
    },
    Reader {
        names: &["diff"],
        valued: "CFILUWx",
        long_valued: &[
            "--exclude",
            "--ignore-matching-lines",
            "--label",
            "--show-function-line",
        ],
        ..READER
    },
    Reader {
        names: &["fold", "fmt", "base64", "uniq"],
        valued: "fpsw",
        ..READER
    },
    Reader {
        names: &["sqlite3"],
        long_valued: &[],
        ..READER
    },
];

/// Programs none of whose words is a path that they read.
pub(super) const NO_PATHS: &[&str] = &[
    ":", "[", "basename", "break", "command", "continue", "dirname", "echo", "env", "exit", "expr",
    "export", "factor", "false", "free", "groups", "id", "kill", "local", "lscpu", "nproc",
    "numfmt", "pathchk", "pgrep", "printenv", "printf", "ps", "pwd", "read", "return", "seq",
    "set", "shift", "sleep", "ss", "test", "tr", "true", "tty", "type", "uname", "unset", "uptime",
    "wait", "which", "whoami",
];
