# Few verbs; anything longer than three lines is in xtask.

# What must hold before a commit.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

test:
    cargo test --workspace

fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty

run *ARGS:
    cargo run --release -- {{ARGS}}

bench:
    cargo bench --workspace
