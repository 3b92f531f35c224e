//! Takes a decision apart, part by part.

use crate::{
    AccessEffect, Decision, ExplainedPart, Explanation, Grant, MetRule, Mode, PartEffect, PartKind,
    PartVerdict, Rule, RuleList, Touch,
    beyond::summary,
    call::Call,
    command_rule::{Hit, Line},
    shell::{Nature, Origin, Part},
};

/// Says what was made of each part of a call, beside the decision about it.
pub(crate) fn explained(call: &Call<'_>, decision: Decision) -> Explanation {
    let mut parts = Vec::new();
    for line in &call.lines {
        parts.extend(line_parts(call, line));
    }
    for touch in &call.access.touches {
        let (kind, text) = match touch {
            Touch::Command(_) => continue,
            Touch::Input(text) => (PartKind::Input, text.clone()),
            Touch::Read(path) => (PartKind::Read, path.display().to_string()),
            Touch::Write(path) => (PartKind::Write, path.display().to_string()),
            Touch::Host(host) => (PartKind::Host, host.clone()),
            Touch::Grant(grant) => (PartKind::Grant, grant.to_string()),
        };
        parts.push(alone(call, kind, text, Some(touch)));
    }
    if call.access.touches.is_empty() {
        parts.push(alone(call, PartKind::Call, call.tool.to_owned(), None));
    }
    let analyses = || call.lines.iter().map(|line| &line.analysis);
    let needs = call.lines.iter().flat_map(|line| &line.needs);
    let beyond = needs
        .map(|need| &need.grant)
        .filter(|grant| call.is_beyond(grant));
    Explanation {
        decision,
        parts,
        problem: analyses().find_map(|analysis| analysis.problem().map(ToString::to_string)),
        hazards: analyses()
            .flat_map(|analysis| analysis.hazards().map(|hazard| hazard.to_string()))
            .collect(),
        beyond: summary(beyond.cloned()),
    }
}

/// A part that is judged like a call of its own.
fn alone(call: &Call<'_>, kind: PartKind, text: String, touch: Option<&Touch>) -> ExplainedPart {
    // Only rules about the sandbox speak of what is asked for by name.
    let (tool, effect) = match kind {
        PartKind::Grant => ("sandbox", AccessEffect::ReadOnly),
        PartKind::Command
        | PartKind::Redirection
        | PartKind::Input
        | PartKind::Read
        | PartKind::Write
        | PartKind::Host
        | PartKind::Call => (call.tool, call.access.effect),
    };
    let access = crate::Access {
        effect,
        touches: touch.into_iter().cloned().collect(),
        directory: call.access.directory.clone(),
        facts: call.access.facts.clone(),
    };
    let by_itself = Call::new(tool, &access, call.policy);
    let decision = call.policy.judge(&by_itself);
    let rule = met(call, |rule| by_itself.hit(rule));
    let is_read_only = by_itself.stays_inside();
    let verdict = match &decision {
        Decision::Allow if is_read_only && kind != PartKind::Grant => PartVerdict::Harmless,
        Decision::Allow if call.policy.mode == Mode::BypassPermissions => PartVerdict::Mode,
        Decision::Allow if kind == PartKind::Input && call.policy.confinement.is_some() => {
            PartVerdict::Confined
        }
        Decision::Allow => PartVerdict::Allowed,
        Decision::Ask { cause, .. } => match cause {
            crate::AskCause::Rule => PartVerdict::Asked,
            crate::AskCause::Uncovered => PartVerdict::Uncovered,
            crate::AskCause::Beyond => PartVerdict::Beyond,
        },
        Decision::Deny { .. } => PartVerdict::Denied,
    };
    ExplainedPart {
        kind,
        text,
        program: None,
        wrappers: Vec::new(),
        effect: PartEffect {
            is_read_only,
            ..PartEffect::default()
        },
        beyond: Vec::new(),
        rule,
        verdict,
    }
}

/// The first rule that denies or asks, sure ones first.
fn met(call: &Call<'_>, hit: impl Fn(&Rule) -> Hit) -> Option<MetRule> {
    let policy = call.policy;
    let mut doubtful = None;
    for (list, rules) in [(RuleList::Deny, &policy.deny), (RuleList::Ask, &policy.ask)] {
        for (index, rule) in rules.iter().enumerate() {
            let met = |is_sure| MetRule {
                list,
                index,
                rule: rule.clone(),
                is_sure,
            };
            match hit(rule) {
                Hit::Surely(_) => return Some(met(true)),
                Hit::Maybe(_) => {
                    doubtful.get_or_insert_with(|| met(false));
                }
                Hit::Never => {}
            }
        }
        // A doubt about a deny comes before what is asked about for sure.
        if doubtful.is_some() {
            return doubtful;
        }
    }
    None
}

fn line_parts(call: &Call<'_>, line: &Line<'_>) -> Vec<ExplainedPart> {
    let analysis = &line.analysis;
    let effects = analysis.effects();
    let mut parts: Vec<ExplainedPart> = Vec::new();
    if analysis.problem().is_some() {
        let touch = Touch::Command(line.text.to_owned());
        return vec![alone(
            call,
            PartKind::Command,
            line.text.to_owned(),
            Some(&touch),
        )];
    }
    for (index, command) in analysis.commands().iter().enumerate() {
        let part = Part::Command(index);
        let mut effect = PartEffect {
            is_read_only: analysis.command_is_read_only(command),
            opaque: match command.nature {
                Nature::Opaque(why) => Some(why),
                Nature::Plain | Nature::Transparent | Nature::Launcher | Nature::Carrier => None,
            },
            ..PartEffect::default()
        };
        let written = effects.writes.iter().filter(|touched| touched.part == part);
        effect.writes = written.map(|touched| touched.word.raw.clone()).collect();
        let contacts = || {
            effects
                .contacts
                .iter()
                .filter(|contact| contact.part == part)
        };
        effect.uses_network = contacts().next().is_some();
        effect.hosts = contacts()
            .filter_map(|contact| contact.host.clone())
            .collect();
        let mut wrappers = Vec::new();
        let mut origin = command.origin;
        while let Origin::Words { parent, .. } | Origin::Text { parent } = origin {
            let Some(outer) = analysis.commands().get(parent) else {
                break;
            };
            wrappers.push(outer.program().unwrap_or_default().to_owned());
            origin = outer.origin;
        }
        wrappers.reverse();
        let rule = met(call, |rule| call.hit_part(rule, line, part));
        let covering = covering(call, line, part);
        let needs_no_rule = line.needs_no_rule(index, command);
        let mut explained = ExplainedPart {
            kind: PartKind::Command,
            text: command.text.clone(),
            program: command.program().map(str::to_owned),
            wrappers,
            effect,
            beyond: beyond(call, line, part),
            rule,
            verdict: PartVerdict::Harmless,
        };
        conclude(call, line, part, &mut explained, covering, needs_no_rule);
        conclude_reading(call, line, part, &mut explained);
        parts.push(explained);
    }
    for (index, redirect) in analysis.redirects().iter().enumerate() {
        let part = Part::Redirect(index);
        let is_harmless = redirect.is_harmless();
        if is_harmless && redirect.direction == crate::shell::Direction::Internal {
            continue;
        }
        let contacts = || {
            effects
                .contacts
                .iter()
                .filter(|contact| contact.part == part)
        };
        let written = effects.writes.iter().filter(|touched| touched.part == part);
        let mut explained = ExplainedPart {
            kind: PartKind::Redirection,
            text: redirect.text.clone(),
            program: None,
            wrappers: Vec::new(),
            effect: PartEffect {
                is_read_only: is_harmless,
                opaque: None,
                writes: written.map(|touched| touched.word.raw.clone()).collect(),
                uses_network: contacts().next().is_some(),
                hosts: contacts()
                    .filter_map(|contact| contact.host.clone())
                    .collect(),
            },
            beyond: beyond(call, line, part),
            rule: met(call, |rule| call.hit_part(rule, line, part)),
            verdict: PartVerdict::Harmless,
        };
        let covering = covering(call, line, part);
        conclude(call, line, part, &mut explained, covering, is_harmless);
        conclude_reading(call, line, part, &mut explained);
        parts.push(explained);
    }
    parts
}

/// What a part needs that the sandbox does not give.
fn beyond(call: &Call<'_>, line: &Line<'_>, part: Part) -> Vec<Grant> {
    let needs = line.needs.iter().filter(|need| need.part == part);
    let grants = needs
        .map(|need| &need.grant)
        .filter(|grant| call.is_beyond(grant));
    summary(grants.cloned())
}

/// The first allow rule that covers a part by itself.
fn covering(call: &Call<'_>, line: &Line<'_>, part: Part) -> Option<MetRule> {
    let mut rules = call.policy.allow.iter().enumerate();
    rules
        .find(|(_, rule)| call.covers_part(rule, line, part))
        .map(|(index, rule)| MetRule {
            list: RuleList::Allow,
            index,
            rule: rule.clone(),
            is_sure: true,
        })
}

/// Says what comes of a part that would be harmless if it did not read outside of the workspace.
fn conclude_reading(call: &Call<'_>, line: &Line<'_>, part: Part, explained: &mut ExplainedPart) {
    let is_harmless = explained.verdict == PartVerdict::Harmless;
    if is_harmless && call.part_reads_outside(line, part).is_some() {
        explained.verdict = PartVerdict::Beyond;
    }
}

/// Says what comes of a part.
fn conclude(
    call: &Call<'_>,
    line: &Line<'_>,
    at: Part,
    part: &mut ExplainedPart,
    covering: Option<MetRule>,
    needs_no_rule: bool,
) {
    let policy = call.policy;
    let mut needs = line.needs.iter().filter(|need| need.part == at);
    let is_refused = needs.any(|need| call.is_beyond(&need.grant) && !call.is_open(line, need));
    let is_bounded = policy.confinement.is_some() || covering.is_some();
    let is_neighbour = || call.is_widened(line) && !call.needs_no_cover(line, at);
    let met = part.rule.as_ref().map(|rule| (rule.list, rule.is_sure));
    part.verdict = match met {
        Some((RuleList::Deny, true)) => PartVerdict::Denied,
        _ if policy.mode == Mode::Plan && !part.effect.is_read_only && !needs_no_rule => {
            PartVerdict::Denied
        }
        Some((RuleList::Deny, false)) => PartVerdict::Asked,
        _ if policy.mode == Mode::BypassPermissions => PartVerdict::Mode,
        Some(_) => PartVerdict::Asked,
        None if is_refused && is_bounded => PartVerdict::Beyond,
        None if call.unknown_write(line) == Some(at) => PartVerdict::Uncovered,
        None if covering.is_some() => PartVerdict::Allowed,
        None if needs_no_rule => PartVerdict::Harmless,
        None if policy.confinement.is_some() && !is_neighbour() => PartVerdict::Confined,
        None => PartVerdict::Uncovered,
    };
    if part.verdict == PartVerdict::Allowed {
        part.rule = covering;
    }
}
