# Few verbs; anything longer than three lines is in xtask.

# What must hold before a commit.
check:
    cargo fmt --all --check
    cargo fmt --check --manifest-path fuzz/Cargo.toml
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

test:
    cargo test --workspace

fix:
    cargo fmt --all
    cargo fmt --manifest-path fuzz/Cargo.toml
    cargo clippy --workspace --all-targets --fix --allow-dirty

run *ARGS:
    cargo run --release -- {{ARGS}}

bench:
    cargo bench --workspace --exclude tooloop-simulation

# Plays the worlds of so many seeds: the whole loop under a virtual clock, with faults.
simulate SEEDS:
    cargo xtask simulate --seeds {{SEEDS}}

# Feeds each fuzz target for so many seconds; what breaks one is in target/fuzz/found.
fuzz SECONDS *TARGETS:
    cargo xtask fuzz {{SECONDS}} {{TARGETS}}

# Kills the program so often, at random moments, and tells what became of its sessions.
torture KILLS="500":
    cargo xtask torture --kills {{KILLS}}

# Exchanges a directory and a link while file tools work, for so many minutes.
race MINUTES="10":
    cargo xtask race --minutes {{MINUTES}}

# Runs cargo-mutants on the kernel and on permission decisions: `just mutants --shard 1/8`. Takes hours.
mutants *ARGS:
    cargo xtask mutants {{ARGS}}
