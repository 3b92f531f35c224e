//! What fills the window, as a table and as JSON.

use serde_json::{Value, json};
use tooloop::{ContextKind, ContextReport};

use super::grouped;
use crate::text;

/// Where the columns of the table end.
const NAME: usize = 44;
const TOKENS: usize = 12;
const PERCENT: usize = 8;

/// A table for a person, in at most 80 columns.
pub(crate) fn context_lines(report: &ContextReport) -> Vec<String> {
    let share = |tokens: u64| report.window.and_then(|window| percent(tokens, window));
    let row = |indent: usize, name: &str, tokens: u64| {
        let indented = format!("{}{}", " ".repeat(indent), text::one_line(name));
        let name = text::cut(&indented, NAME);
        let padding = " ".repeat(NAME.saturating_sub(text::width(&name)));
        let tokens_of = grouped(tokens);
        let share = share(tokens).unwrap_or_default();
        format!("  {name}{padding}{tokens_of:>TOKENS$}{share:>PERCENT$}")
            .trim_end()
            .to_owned()
    };
    let mut lines = vec![text::cut(&heading(report), 79)];
    if let Some(threshold) = report.threshold {
        lines.push(format!(
            "  summed up by itself beyond {} tokens",
            grouped(threshold)
        ));
    } else if report.window.is_some() {
        lines.push("  not summed up by itself".into());
    }
    lines.push(String::new());
    let mut rows = report.rows.as_slice();
    while let Some(first) = rows.first() {
        let many = rows.iter().take_while(|row| row.kind == first.kind).count();
        let (same, rest) = rows.split_at_checked(many).unwrap_or((rows, &[]));
        rows = rest;
        let sum = same.iter().map(|row| row.tokens);
        lines.push(row(0, words(first.kind), sum.fold(0, u64::saturating_add)));
        for part in same.iter().filter(|part| !part.name.is_empty()) {
            lines.push(row(2, &part.name, part.tokens));
        }
    }
    if let Some(free) = report.free() {
        lines.push(row(0, "set aside for the reply", report.output_reserve));
        lines.push(row(0, "free", free));
    }
    lines.push(String::new());
    lines.extend(truth(report));
    lines
}

fn heading(report: &ContextReport) -> String {
    let used = grouped(report.used);
    match report.window {
        None => format!(
            "  about {used} tokens; the window of {} is not known",
            report.model
        ),
        Some(window) => format!(
            "  about {used} of {} tokens{}, {}",
            grouped(window),
            percent(report.used, window).map_or_else(String::new, |share| format!(" ({share})")),
            report.model,
        ),
    }
}

/// How far the table can be trusted.
fn truth(report: &ContextReport) -> Vec<String> {
    let counted = match report.counted {
        Some(counted) if counted >= report.used => "all of it counted by the provider".into(),
        Some(counted) => format!(
            "{} of it counted by the provider, the rest estimated",
            grouped(counted)
        ),
        None => "all of it estimated".to_owned(),
    };
    let mut lines = vec![format!("  {counted}; the shares are estimates")];
    if let Some(error) = report.estimate_error_percent {
        lines.push(format!(
            "  estimates were {error} % out so far; an estimated token is {:.2} counted ones",
            report.estimate_factor
        ));
    }
    match report.compactions {
        0 => {}
        1 => lines.push("  summed up once".into()),
        times => lines.push(format!("  summed up {times} times")),
    }
    lines
}

const fn words(kind: ContextKind) -> &'static str {
    match kind {
        ContextKind::System => "system prompt",
        ContextKind::Tool => "tools",
        ContextKind::Summary => "summary of what was before",
        ContextKind::User => "what you have said",
        ContextKind::Reminder => "reminders",
        ContextKind::Model => "what the model has said",
        ContextKind::Calls => "its calls",
        ContextKind::Results => "results of calls",
    }
}

/// A share in words.
fn percent(part: u64, whole: u64) -> Option<String> {
    let per_mille = part.saturating_mul(1_000).checked_div(whole)?;
    Some(format!("{}.{} %", per_mille / 10, per_mille % 10))
}

/// The same for programs.
pub(crate) fn context_json(report: &ContextReport) -> Value {
    let rows = report
        .rows
        .iter()
        .map(|row| json!({ "kind": row.kind.name(), "name": row.name, "tokens": row.tokens }));
    json!({
        "model": report.model,
        "window": report.window,
        "output_reserve": report.output_reserve,
        "threshold": report.threshold,
        "used": report.used,
        "counted": report.counted,
        "free": report.free(),
        "estimate_error_percent": report.estimate_error_percent,
        "estimate_factor": report.estimate_factor,
        "compactions": report.compactions,
        "rows": rows.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use tooloop::ContextRow;

    use super::*;

    fn report() -> ContextReport {
        let row = |kind, name: &str, tokens| ContextRow {
            kind,
            name: name.into(),
            tokens,
        };
        ContextReport {
            model: "m".into(),
            window: Some(8_000),
            output_reserve: 900,
            threshold: Some(6_300),
            used: 4_000,
            counted: Some(3_900),
            estimate_error_percent: Some(4),
            estimate_factor: 1.0312,
            compactions: 2,
            rows: vec![
                row(ContextKind::System, "", 400),
                row(ContextKind::Tool, "bash", 300),
                row(ContextKind::Tool, &"x".repeat(90), 100),
                row(ContextKind::User, "", 3_200),
            ],
        }
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let lines = context_lines(&report());
        assert_eq!(
            lines,
            [
                "  about 4,000 of 8,000 tokens (50.0 %), m",
                "  summed up by itself beyond 6,300 tokens",
                "",
                "  system prompt                                        400   5.0 %",
                "  tools                                                400   5.0 %",
                "    bash                                               300   3.7 %",
                "    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…         100   1.2 %",
                "  what you have said                                 3,200  40.0 %",
                "  set aside for the reply                              900  11.2 %",
                "  free                                               3,100  38.7 %",
                "",
                "  3,900 of it counted by the provider, the rest estimated; the shares are estimates",
                "  estimates were 4 % out so far; an estimated token is 1.03 counted ones",
                "  summed up 2 times",
            ]
        );
        assert!(
            lines.iter().all(|line| text::width(line) < 80),
            "{lines:#?}"
        );
    }

    #[test]
    fn an_unknown_window_has_no_shares() {
        let unknown = ContextReport {
            window: None,
            output_reserve: 0,
            threshold: None,
            counted: None,
            estimate_error_percent: None,
            compactions: 0,
            ..report()
        };
        let lines = context_lines(&unknown);
        assert_eq!(
            lines.first().map(String::as_str),
            Some("  about 4,000 tokens; the window of m is not known")
        );
        assert_eq!(
            lines.last().map(String::as_str),
            Some("  all of it estimated; the shares are estimates")
        );
        assert!(
            !lines
                .iter()
                .any(|line| line.contains('%') || line.contains("free"))
        );
        assert_eq!(context_json(&unknown)["free"], Value::Null);
        assert_eq!(context_json(&report())["rows"][1]["name"], "bash");
    }
}
