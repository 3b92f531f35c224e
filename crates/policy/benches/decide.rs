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

fn lines() -> [(&'static str, String); 4] {
    let typical = "cd crates/policy && RUST_BACKTRACE=1 cargo test --quiet 2>&1 | tail -n 40 && \
                   git add -A && git commit -m \"$(cat <<'EOF'\nPolicy: rules\n\nA body.\nEOF\n)\"";
    // Long, with quotes in quotes and much text, as models write it.
    let mut ugly = String::new();
    while ugly.len() < 4096 {
        let index = ugly.len();
        ugly.push_str(&format!(
            "if [ -f \"a{index}\" ]; then env A=1 sh -c 'git log --format=\"%h %s\" | xargs -n 1 touch'; fi\n\
             cat > \"notes {index}.md\" <<'EOF'\n{}EOF\n\
             echo \"$(sed -n '1,5p' x{index} | sort -u)\" >> out.log\n",
            "A line of text that stands in a file, with $(this) and `that` in it, \"quoted\".\n"
                .repeat(8)
        ));
    }
    // As many commands as there is room for.
    let mut dense = String::new();
    while dense.len() < 4096 {
        let index = dense.len();
        dense.push_str(&format!(
            "timeout 5 sh -c 'git log | xargs -n 1 touch'; find . -name '*.o' -exec rm -f {{}} \\; ; \
             echo \"$(cat x{index} | sort -u)\" >> out.log\n"
        ));
    }
    [
        ("simple", "git status".to_owned()),
        ("typical", typical.to_owned()),
        ("ugly, 4 KiB", ugly),
        ("dense, 4 KiB", dense),
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
        criterion.bench_function(&format!("analyse/{name}"), |bencher| {
            bencher.iter(|| Access::command(black_box(line.as_str())));
        });
        for (kind, policy) in [("rules", &plain), ("sandbox", &confined)] {
            let access = Access::command(line.as_str());
            criterion.bench_function(&format!("decide/{name}, {kind}"), |bencher| {
                bencher.iter(|| policy.decide("bash", black_box(&access)));
            });
        }
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
