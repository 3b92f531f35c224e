//! How long a decision about a shell line takes: it stands between the model and each command, and
//! is to stay under 100 microseconds.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tooloop_policy::{Access, Confinement, Policy, Rule};

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// As many rules as a careful project has.
fn policy(confinement: Option<Confinement>) -> Policy {
    Policy {
        allow: rules(&[
            "Bash(git log *)",
            "Bash(git diff *)",
            "Bash(git status *)",
            "Bash(cargo build *)",
            "Bash(cargo test *)",
            "Bash(cargo clippy *)",
            "Bash(npm run *)",
            "Bash(npm test *)",
            "Bash(make *)",
            "Bash(ls *)",
            "Edit(src/**)",
            "WebFetch(domain:docs.example)",
        ]),
        ask: rules(&["Bash(cargo publish *)", "Bash(npm publish *)"]),
        deny: rules(&[
            "Bash(git push --force *)",
            "Bash(rm -rf / *)",
            "Bash(shutdown *)",
            "Read(./secrets/**)",
            "Read(.env)",
            "Edit(vendor/**)",
        ]),
        roots: vec!["/w".into()],
        home: Some("/home/u".into()),
        confinement,
        ..Policy::default()
    }
    .anchored("/w".as_ref(), Some("/home/u".as_ref()))
}

fn lines() -> [(&'static str, String); 3] {
    let typical = "cd crates/policy && RUST_BACKTRACE=1 cargo test --quiet 2>&1 | tail -n 40 && \
                   git add -A && git commit -m \"$(cat <<'EOF'\nPolicy: rules\n\nA body.\nEOF\n)\"";
    let mut ugly = String::new();
    let mut index = 0;
    while ugly.len() < 4096 {
        index += 1;
        ugly.push_str(&format!(
            "if [ -f \"a{index}\" ]; then env A=1 timeout 5 sh -c 'git log | xargs -n 1 touch'; fi; \
             find . -name '*.o' -exec rm -f {{}} \\; ; echo \"$(cat x{index} | sort -u)\" >> out.log\n"
        ));
    }
    [
        ("simple", "git status".to_owned()),
        ("typical", typical.to_owned()),
        ("ugly, 4 KiB", ugly),
    ]
}

fn decide(criterion: &mut Criterion) {
    let confined = policy(Some(Confinement {
        writable: vec!["/w".into()],
        temp: vec!["/tmp".into()],
        ..Confinement::default()
    }));
    let plain = policy(None);
    for (name, line) in lines() {
        for (kind, policy) in [("rules", &plain), ("sandbox", &confined)] {
            criterion.bench_function(&format!("decide/{name}, {kind}"), |bencher| {
                bencher.iter(|| {
                    let access = Access::command(black_box(line.as_str()));
                    policy.decide("bash", &access)
                });
            });
        }
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
