//! What is known of programs, as data.
//!
//! A program that is not here is taken for one that changes things. An option that is not here is
//! taken for one that does harm.

use super::parts::Nature;

/// A program that runs another one, which stands among its words.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Options of one letter without a value.
    pub(super) flags: &'static str,
    /// Options of one letter with a value.
    pub(super) valued: &'static str,
    pub(super) long_flags: &'static [&'static str],
    pub(super) long_valued: &'static [&'static str],
    /// How many words stand between the options and the program.
    pub(super) operands: usize,
    /// Whether assignments may stand before the program.
    pub(super) assigns: bool,
    pub(super) nature: Nature,
}

const WRAPPER: Wrapper = Wrapper {
    name: "",
    flags: "",
    valued: "",
    long_flags: &[],
    long_valued: &[],
    operands: 0,
    assigns: false,
    nature: Nature::Transparent,
};

pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        name: "env",
        flags: "i0",
        valued: "uC",
        long_flags: &["ignore-environment", "null"],
        long_valued: &["unset", "chdir"],
        assigns: true,
        ..WRAPPER
    },
    Wrapper {
        name: "command",
        flags: "p",
        ..WRAPPER
    },
    Wrapper {
        name: "builtin",
        ..WRAPPER
    },
    Wrapper {
        name: "exec",
        flags: "cl",
        valued: "a",
        nature: Nature::Launcher,
        ..WRAPPER
    },
    Wrapper {
        name: "timeout",
        flags: "fpv",
        valued: "ks",
        long_flags: &["foreground", "preserve-status", "verbose"],
        long_valued: &["kill-after", "signal"],
        operands: 1,
        ..WRAPPER
    },
    Wrapper {
        name: "nice",
        flags: "0123456789",
        valued: "n",
        long_valued: &["adjustment"],
        ..WRAPPER
    },
    Wrapper {
        name: "nohup",
        nature: Nature::Launcher,
        ..WRAPPER
    },
    Wrapper {
        name: "stdbuf",
        valued: "ioe",
        long_valued: &["input", "output", "error"],
        ..WRAPPER
    },
    Wrapper {
        name: "time",
        flags: "pvq",
        valued: "f",
        long_flags: &["portability", "verbose", "quiet"],
        long_valued: &["format"],
        ..WRAPPER
    },
    Wrapper {
        name: "setsid",
        flags: "cfw",
        long_flags: &["ctty", "fork", "wait"],
        nature: Nature::Launcher,
        ..WRAPPER
    },
    Wrapper {
        name: "ionice",
        flags: "t",
        valued: "cn",
        long_flags: &["ignore"],
        long_valued: &["class", "classdata"],
        ..WRAPPER
    },
    Wrapper {
        name: "chrt",
        flags: "abfirovRm",
        operands: 1,
        ..WRAPPER
    },
    Wrapper {
        name: "taskset",
        flags: "ac",
        long_flags: &["all-tasks", "cpu-list"],
        operands: 1,
        ..WRAPPER
    },
    Wrapper {
        name: "flock",
        flags: "sexunoFv",
        valued: "wE",
        long_flags: &[
            "shared",
            "exclusive",
            "unlock",
            "nonblock",
            "nb",
            "close",
            "no-fork",
            "verbose",
        ],
        long_valued: &["timeout", "wait", "conflict-exit-code"],
        operands: 1,
        nature: Nature::Carrier,
        ..WRAPPER
    },
    Wrapper {
        name: "chroot",
        long_flags: &["skip-chdir"],
        long_valued: &["userspec", "groups"],
        operands: 1,
        nature: Nature::Carrier,
        ..WRAPPER
    },
    Wrapper {
        name: "sudo",
        flags: "ABbEHnPSk",
        valued: "ugCDRTthpU",
        long_flags: &[
            "askpass",
            "background",
            "bell",
            "preserve-env",
            "set-home",
            "non-interactive",
            "preserve-groups",
            "stdin",
            "reset-timestamp",
        ],
        long_valued: &[
            "user",
            "group",
            "close-from",
            "chdir",
            "chroot",
            "command-timeout",
            "host",
            "prompt",
        ],
        assigns: true,
        nature: Nature::Carrier,
        ..WRAPPER
    },
    Wrapper {
        name: "doas",
        flags: "nL",
        valued: "uC",
        nature: Nature::Carrier,
        ..WRAPPER
    },
    Wrapper {
        name: "busybox",
        nature: Nature::Carrier,
        ..WRAPPER
    },
    Wrapper {
        name: "toybox",
        nature: Nature::Carrier,
        ..WRAPPER
    },
];

/// The options of `xargs`; those with an optional value are left out.
pub(super) const XARGS: Wrapper = Wrapper {
    name: "xargs",
    flags: "0optrx",
    valued: "adEILnPs",
    long_flags: &[
        "null",
        "open-tty",
        "interactive",
        "no-run-if-empty",
        "show-limits",
        "verbose",
        "exit",
    ],
    long_valued: &[
        "arg-file",
        "delimiter",
        "max-args",
        "max-procs",
        "max-chars",
    ],
    ..WRAPPER
};

/// The options of `watch` that leave what it runs as it stands.
pub(super) const WATCH: Wrapper = Wrapper {
    name: "watch",
    flags: "bcCdegprtwx",
    valued: "nq",
    long_flags: &[
        "beep",
        "color",
        "no-color",
        "differences",
        "errexit",
        "chgexit",
        "precise",
        "no-rerun",
        "no-title",
        "no-wrap",
        "exec",
    ],
    long_valued: &["interval", "equexit"],
    nature: Nature::Carrier,
    ..WRAPPER
};

/// Shells, and whether they read a line as it is read here.
pub(super) const SHELLS: &[(&str, bool)] = &[
    ("sh", true),
    ("bash", true),
    ("dash", true),
    ("ash", true),
    ("zsh", false),
    ("ksh", false),
    ("mksh", false),
];

/// Programs that run what they are given in a way that is not looked into.
pub(super) const RUNNERS: &[&str] = &[
    "abduco",
    "arch",
    "at",
    "batch",
    "bwrap",
    "byobu",
    "capsh",
    "catchsegv",
    "cgexec",
    "chpst",
    "chronic",
    "concurrently",
    "cpulimit",
    "csh",
    "daemonize",
    "dbus-run-session",
    "dtach",
    "dumb-init",
    "eatmydata",
    "entr",
    "envdir",
    "expect",
    "fakeroot",
    "faketime",
    "firejail",
    "fish",
    "gdb",
    "gosu",
    "hyperfine",
    "lldb",
    "ltrace",
    "mpiexec",
    "mpirun",
    "multitime",
    "nodemon",
    "nsenter",
    "nu",
    "numactl",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "proxychains",
    "proxychains4",
    "pwsh",
    "rlwrap",
    "run-one",
    "run0",
    "runuser",
    "screen",
    "script",
    "sem",
    "setarch",
    "setlock",
    "setpriv",
    "sg",
    "socat",
    "softlimit",
    "srun",
    "ssh",
    "start-stop-daemon",
    "strace",
    "su",
    "su-exec",
    "systemd-inhibit",
    "systemd-run",
    "tcsh",
    "tini",
    "tmux",
    "torify",
    "torsocks",
    "unbuffer",
    "unshare",
    "valgrind",
    "watchexec",
    "xvfb-run",
];

/// Programs and their subcommands that run the command after them in some environment.
pub(super) const ENVIRONMENTS: &[(&str, &[&str])] = &[
    ("asdf", &["exec"]),
    ("aws-vault", &["exec"]),
    ("bundle", &["exec"]),
    ("cabal", &["exec"]),
    ("conda", &["run"]),
    ("direnv", &["exec"]),
    ("doppler", &["run"]),
    ("hatch", &["run"]),
    ("mamba", &["run"]),
    ("mise", &["exec", "x"]),
    ("nodenv", &["exec"]),
    ("npm", &["exec", "x"]),
    ("opam", &["exec"]),
    ("pdm", &["run"]),
    ("pipenv", &["run"]),
    ("pnpm", &["exec"]),
    ("poetry", &["run"]),
    ("pyenv", &["exec"]),
    ("rbenv", &["exec"]),
    ("rye", &["run"]),
    ("stack", &["exec"]),
    ("uv", &["run"]),
    ("volta", &["run"]),
    ("yarn", &["exec"]),
];

/// Options with which a program runs a command that it is given.
pub(super) const RUNNING_OPTIONS: &[(&str, &[&str])] = &[
    ("cc", &["-wrapper"]),
    ("clang", &["-wrapper"]),
    ("fzf", &["--preview", "--bind"]),
    ("g++", &["-wrapper"]),
    ("gcc", &["-wrapper"]),
    ("man", &["-P", "--pager", "-H", "--html"]),
    ("nc", &["-e", "-c"]),
    ("ncat", &["-e", "-c", "--exec", "--sh-exec", "--lua-exec"]),
    ("netcat", &["-e", "-c"]),
    ("npx", &["-c", "--call"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-S"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    (
        "tar",
        &[
            "-F",
            "-I",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rmt-command",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ],
    ),
    ("zip", &["-TT", "--unzip-command"]),
];

/// Programs that change nothing whatever they are given.
pub(super) const HARMLESS: &[&str] = &[
    ":",
    "b2sum",
    "basename",
    "break",
    "cat",
    "cksum",
    "cmp",
    "column",
    "comm",
    "continue",
    "cut",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "exit",
    "expand",
    "expr",
    "factor",
    "false",
    "fgrep",
    "fmt",
    "fold",
    "free",
    "grep",
    "groups",
    "head",
    "id",
    "join",
    "ls",
    "lscpu",
    "md5sum",
    "nl",
    "nproc",
    "numfmt",
    "od",
    "paste",
    "pathchk",
    "pgrep",
    "printenv",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "return",
    "rev",
    "seq",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "shift",
    "sleep",
    "stat",
    "strings",
    "sum",
    "tac",
    "tail",
    "tr",
    "true",
    "tty",
    "type",
    "uname",
    "unexpand",
    "uptime",
    "wc",
    "which",
    "whoami",
];

/// A program that changes nothing unless an option says so.
pub(super) struct Options {
    pub(super) name: &'static str,
    /// Letters of options that do harm.
    pub(super) short: &'static str,
    /// Long options that do harm, or would with a longer name.
    pub(super) long: &'static [&'static str],
}

pub(super) const OPTIONS: &[Options] = &[
    Options {
        name: "base64",
        short: "o",
        long: &["output"],
    },
    Options {
        name: "fd",
        short: "xX",
        long: &["exec", "exec-batch"],
    },
    Options {
        name: "fdfind",
        short: "xX",
        long: &["exec", "exec-batch"],
    },
    Options {
        name: "file",
        short: "C",
        long: &["compile"],
    },
    Options {
        name: "jq",
        short: "i",
        long: &["in-place"],
    },
    Options {
        name: "rg",
        short: "z",
        long: &["pre", "hostname-bin", "search-zip"],
    },
    Options {
        name: "sort",
        short: "oT",
        long: &["output", "compress-program", "temporary-directory"],
    },
    Options {
        name: "tree",
        short: "oR",
        long: &["output"],
    },
];

/// Options that take no value in the next word, whatever the program: a `--` after one of them ends
/// the options. After any other option `--` may be the value of that option.
pub(super) const FLAGS: &[&str] = &[
    "--",
    "--all",
    "--cached",
    "--files",
    "--full-index",
    "--graph",
    "--name-only",
    "--name-status",
    "--no-color",
    "--no-merges",
    "--numstat",
    "--oneline",
    "--patch",
    "--porcelain",
    "--quiet",
    "--raw",
    "--reverse",
    "--short",
    "--shortstat",
    "--staged",
    "--stat",
];

/// Subcommands of git that change nothing unless an option says so.
///
/// What the configuration of the repository makes them run is not seen.
pub(super) const GIT: &[Options] = &[
    git("annotate", "", &["output", "textconv"]),
    git("blame", "", &["output", "textconv"]),
    git("cat-file", "", &["textconv", "filters"]),
    git("check-attr", "", &[]),
    git("check-ignore", "", &[]),
    git("cherry", "", &[]),
    git("count-objects", "", &[]),
    git("describe", "", &[]),
    git("diff", "", GIT_DIFF),
    git("diff-files", "", GIT_DIFF),
    git("diff-index", "", GIT_DIFF),
    git("diff-tree", "", GIT_DIFF),
    git("for-each-ref", "", &[]),
    git(
        "grep",
        "O",
        &["open-files-in-pager", "ext-grep", "textconv"],
    ),
    git("log", "", GIT_DIFF),
    git("ls-files", "", &[]),
    git("ls-tree", "", &[]),
    git("merge-base", "", &[]),
    git("name-rev", "", &[]),
    git("rev-list", "", GIT_DIFF),
    git("rev-parse", "", &[]),
    git("shortlog", "", GIT_DIFF),
    git("show", "", GIT_DIFF),
    git("show-ref", "", &[]),
    git("status", "", &[]),
    git("whatchanged", "", GIT_DIFF),
];

const GIT_DIFF: &[&str] = &["output", "ext-diff", "textconv", "show-signature"];

const fn git(name: &'static str, short: &'static str, long: &'static [&'static str]) -> Options {
    Options { name, short, long }
}

/// Options of `git branch` with which it lists; those with `true` let it take operands.
///
/// `-l` is not among the latter: in old versions it goes with making a branch.
pub(super) const GIT_BRANCH: &[(&str, bool)] = &[
    ("--list", true),
    ("--contains", true),
    ("--no-contains", true),
    ("--merged", true),
    ("--no-merged", true),
    ("--points-at", true),
    ("-l", false),
    ("-a", false),
    ("--all", false),
    ("-r", false),
    ("--remotes", false),
    ("-v", false),
    ("-vv", false),
    ("-av", false),
    ("-avv", false),
    ("--verbose", false),
    ("--show-current", false),
    ("--sort", false),
    ("--format", false),
    ("--column", false),
    ("--no-column", false),
    ("--color", false),
    ("--no-color", false),
    ("--ignore-case", false),
    ("-i", false),
];

/// Options of `git tag` with which it lists; those with `true` let it take operands.
pub(super) const GIT_TAG: &[(&str, bool)] = &[
    ("--list", true),
    ("-l", true),
    ("--contains", true),
    ("--no-contains", true),
    ("--merged", true),
    ("--no-merged", true),
    ("--points-at", true),
    ("-n", false),
    ("--sort", false),
    ("--format", false),
    ("--column", false),
    ("--no-column", false),
    ("--color", false),
    ("--ignore-case", false),
    ("-i", false),
];

/// What `find` understands and does no harm: name and number of values.
pub(super) const FIND: &[(&str, usize)] = &[
    ("!", 0),
    ("(", 0),
    (")", 0),
    (",", 0),
    ("-H", 0),
    ("-L", 0),
    ("-P", 0),
    ("-a", 0),
    ("-amin", 1),
    ("-and", 0),
    ("-anewer", 1),
    ("-atime", 1),
    ("-cmin", 1),
    ("-cnewer", 1),
    ("-ctime", 1),
    ("-daystart", 0),
    ("-depth", 0),
    ("-empty", 0),
    ("-executable", 0),
    ("-false", 0),
    ("-follow", 0),
    ("-fstype", 1),
    ("-gid", 1),
    ("-group", 1),
    ("-ilname", 1),
    ("-iname", 1),
    ("-inum", 1),
    ("-ipath", 1),
    ("-iregex", 1),
    ("-iwholename", 1),
    ("-links", 1),
    ("-lname", 1),
    ("-ls", 0),
    ("-maxdepth", 1),
    ("-mindepth", 1),
    ("-mmin", 1),
    ("-mount", 0),
    ("-mtime", 1),
    ("-name", 1),
    ("-newer", 1),
    ("-newermt", 1),
    ("-nogroup", 0),
    ("-noleaf", 0),
    ("-not", 0),
    ("-nouser", 0),
    ("-o", 0),
    ("-or", 0),
    ("-path", 1),
    ("-perm", 1),
    ("-print", 0),
    ("-print0", 0),
    ("-printf", 1),
    ("-prune", 0),
    ("-quit", 0),
    ("-readable", 0),
    ("-regex", 1),
    ("-regextype", 1),
    ("-samefile", 1),
    ("-size", 1),
    ("-true", 0),
    ("-type", 1),
    ("-uid", 1),
    ("-user", 1),
    ("-wholename", 1),
    ("-writable", 0),
    ("-xdev", 0),
    ("-xtype", 1),
];

/// Operators of `test` with one operand; those that evaluate the operand are left out.
pub(super) const TEST_UNARY: &[&str] = &[
    "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-n", "-o", "-p", "-r", "-s", "-t", "-u",
    "-w", "-x", "-z", "-G", "-L", "-N", "-O", "-S",
];

/// Operators of `test` with two operands.
pub(super) const TEST_BINARY: &[&str] = &[
    "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-ef", "-nt", "-ot",
];

/// Variables that a line may set for a program without changing what the program does.
pub(super) const HARMLESS_ENVIRONMENT: &[&str] = &[
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "NO_COLOR",
    "TZ",
];

/// Variables that change what a shell or its programs do.
pub(super) const HARMFUL_VARIABLES: &[&str] = &[
    "CDPATH",
    "EDITOR",
    "ENV",
    "EXINIT",
    "FIGNORE",
    "FPATH",
    "GLOBIGNORE",
    "HISTFILE",
    "HOME",
    "IFS",
    "MAIL",
    "MAILPATH",
    "MANPAGER",
    "NLSPATH",
    "OPTARG",
    "OPTIND",
    "PAGER",
    "PATH",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "PWD",
    "OLDPWD",
    "SHELL",
    "SHELLOPTS",
    "TERM",
    "TERMINFO",
    "TMPDIR",
    "VISUAL",
];

/// Beginnings of names of variables that change what a shell or its programs do.
pub(super) const HARMFUL_PREFIXES: &[&str] = &[
    "AWK",
    "BASH",
    "BZIP",
    "CARGO",
    "DYLD_",
    "GAWK",
    "GCONV_",
    "GEM_",
    "GIT_",
    "GO",
    "GREP_",
    "GZIP",
    "JQ_",
    "LD_",
    "LESS",
    "LOCPATH",
    "LS_",
    "MALLOC_",
    "NODE_",
    "NPM_",
    "PERL",
    "PIP_",
    "POSIXLY_",
    "PYTHON",
    "RIPGREP_",
    "RUBY",
    "RUST",
    "SHELLCHECK_",
    "SSH_",
    "TAR_",
    "XDG_",
    "XZ_",
    "ZSTD_",
    "npm_",
];
