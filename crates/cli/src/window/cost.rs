//! What a session has cost, in words and as JSON.

use serde_json::{Value, json};
use tooloop::{CacheLedger, CacheMiss, CostReport, Spending};

use super::grouped;
use crate::interactive::tokens;
use crate::records::usage;
use crate::text;

/// So many misses are told to a person.
const TOLD: usize = 5;

/// What a session has cost, for a person.
pub(crate) fn cost_lines(report: &CostReport) -> Vec<String> {
    let mut lines = vec![format!("  this session: {}", spending(report.total()))];
    let has_subagents = report.subagents != Spending::default();
    if has_subagents {
        lines.push(format!("    its own calls: {}", spending(report.own)));
        lines.push(format!("    subagents: {}", spending(report.subagents)));
    }
    lines.extend(cache_lines(&report.cache, has_subagents));
    lines
}

fn spending(spending: Spending) -> String {
    let cost = spending
        .cost_usd
        .map_or_else(|| "price unknown".into(), text::money);
    format!("{}, {cost}", tokens(spending.usage))
}

/// What came from the provider's cache, for a person.
fn cache_lines(cache: &CacheLedger, has_subagents: bool) -> Vec<String> {
    let Some(percent) = cache.usage().cache_hit_percent() else {
        return Vec::new();
    };
    let own = if has_subagents { "own " } else { "" };
    let calls = match cache.calls() {
        1 => format!("1 {own}call"),
        many => format!("{many} {own}calls"),
    };
    let mut lines = vec![format!(
        "  cache: {percent} % of what {calls} sent came from it; {}",
        match cache.missed() {
            0 => "none of them missed it".to_owned(),
            1 => "1 of them missed it:".to_owned(),
            many => format!("{many} of them missed it:"),
        }
    )];
    let earlier = cache.misses().len().saturating_sub(TOLD);
    lines.extend(cache.misses().skip(earlier).map(miss));
    lines
}

fn miss(miss: &CacheMiss) -> String {
    format!(
        "    call {}: {} of {} tokens found; {}",
        miss.call,
        grouped(miss.read),
        grouped(miss.expected),
        miss.reason.words()
    )
}

/// The same for programs.
pub(crate) fn cost_json(report: &CostReport) -> Value {
    let cache = &report.cache;
    let misses = cache.misses().map(|miss| {
        json!({
            "call": miss.call,
            "time": miss.time.map(|time| time.to_string()),
            "expected": miss.expected,
            "read": miss.read,
            "reason": miss.reason.name(),
        })
    });
    let total = report.total();
    json!({
        "total_cost_usd": total.cost_usd,
        "usage": usage(total.usage),
        "subagents": {
            "total_cost_usd": report.subagents.cost_usd,
            "usage": usage(report.subagents.usage),
        },
        "calls": cache.calls(),
        "cache_hit_percent": cache.usage().cache_hit_percent(),
        "cache_missed": cache.missed(),
        "cache_misses": misses.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use tooloop::{AssistantMessage, ContentBlock, Entry, Message, Usage};

    use super::*;

    #[test]
    fn the_newest_misses_are_told_with_their_reasons() {
        let mut cache = CacheLedger::default();
        assert!(cache_lines(&cache, false).is_empty());
        for call in 0..8_u64 {
            let reply = AssistantMessage {
                content: vec![ContentBlock::Text {
                    text: "ok".into(),
                    vendor: None,
                }],
                stop_reason: None,
                usage: Usage {
                    input_tokens: 2_000,
                    output_tokens: 10,
                    cache_read_tokens: if call == 1 { 1_900 } else { 300 },
                    ..Usage::default()
                },
                model: None,
                id: None,
            };
            cache.take(&Entry::message(Message::Assistant(reply)), None);
        }
        let mut report = CostReport {
            own: Spending {
                usage: cache.usage(),
                cost_usd: Some(0.25),
            },
            subagents: Spending::default(),
            cache,
        };
        let lines = cost_lines(&report);
        assert_eq!(lines.len(), 2 + TOLD);
        assert_eq!(
            lines.iter().take(3).collect::<Vec<_>>(),
            [
                "  this session: 16.0k in (25 % from cache), 80 out, $0.2500",
                "  cache: 25 % of what 8 calls sent came from it; 7 of them missed it:",
                "    call 4: 300 of 2,000 tokens found; not told: the provider gave no reason",
            ]
        );
        let json = cost_json(&report);
        assert_eq!(json["cache_misses"][0]["reason"], "first_call");
        assert_eq!(json["cache_missed"], 7);
        assert_eq!(json["usage"]["cache_read_input_tokens"], 4_000);
        report.subagents = Spending {
            usage: Usage {
                input_tokens: 4_000,
                output_tokens: 20,
                ..Usage::default()
            },
            cost_usd: Some(0.125),
        };
        assert_eq!(
            cost_lines(&report).iter().take(4).collect::<Vec<_>>(),
            [
                "  this session: 20.0k in (20 % from cache), 100 out, $0.3750",
                "    its own calls: 16.0k in (25 % from cache), 80 out, $0.2500",
                "    subagents: 4.0k in, 20 out, $0.1250",
                "  cache: 25 % of what 8 own calls sent came from it; 7 of them missed it:",
            ]
        );
        let json = cost_json(&report);
        assert_eq!(json["total_cost_usd"], 0.375);
        assert_eq!(json["usage"]["output_tokens"], 100);
        assert_eq!(json["subagents"]["usage"]["output_tokens"], 20);
        report.subagents.cost_usd = None;
        assert!(cost_lines(&report)[0].ends_with("price unknown"));
    }
}
