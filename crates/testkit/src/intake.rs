//! How a request gets its reply: which endpoint it is for, whether it may pass, what the script says.

use crate::capture::{CapturedRequest, Format};
use crate::gate::lock;
use crate::http::RequestHead;
use crate::oracle::{self, Options, Rule, Sent, Violation, Window};
use crate::reply::Reply;
use crate::server::{Exchange, Shared};
use crate::{anthropic, openai_chat};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A server that was asked more often than this keeps no more and refuses all.
const MAX_REQUESTS: usize = 20_000;

/// What a model request gets for which the list of replies has none left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterLast {
    /// Status 400, kept as a violation of the script: the test did not expect this request.
    #[default]
    Refuse,
    /// The last reply again.
    Repeat,
    /// An error with this status.
    Error(u16),
    /// This text, in the format of the request.
    Say(String),
}

/// What happens to requests that break the rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Judge {
    /// They are answered with status 400 and kept as violations.
    #[default]
    Refuse,
    /// They are kept as violations and answered as if they were good.
    Record,
    /// Nobody looks. Windows and checks still refuse.
    Off,
}

type Choose = Box<dyn FnMut(&CapturedRequest) -> Reply + Send>;

pub(crate) enum Script {
    List(VecDeque<Reply>),
    Choice(Choose),
}

impl Default for Script {
    fn default() -> Self {
        Self::List(VecDeque::new())
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(replies) => formatter.debug_tuple("List").field(replies).finish(),
            Self::Choice(_) => formatter.write_str("Choice"),
        }
    }
}

type Look = Box<dyn Fn(&CapturedRequest, &Sent) -> Vec<Violation> + Send + Sync>;

pub(crate) struct Check(pub(crate) Look);

impl fmt::Debug for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Check")
    }
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) after_last: AfterLast,
    pub(crate) judge: Judge,
    pub(crate) window: Option<Window>,
    pub(crate) allow_prefill: bool,
    pub(crate) remember_thinking: bool,
    pub(crate) checks: Vec<Check>,
    pub(crate) routes: Vec<(String, String, Reply)>,
    pub(crate) models: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            after_last: AfterLast::default(),
            judge: Judge::default(),
            window: None,
            allow_prefill: false,
            remember_thinking: true,
            checks: Vec::new(),
            routes: Vec::new(),
            models: vec!["m".to_owned()],
        }
    }
}

/// The script as far as it has been played.
#[derive(Debug)]
pub(crate) struct Intake {
    script: Script,
    last: Option<Reply>,
}

impl Intake {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, last: None }
    }

    pub(crate) fn replies_left(&self) -> usize {
        match &self.script {
            Script::List(replies) => replies.len(),
            Script::Choice(_) => 0,
        }
    }

    /// The reply for an accepted request, or why there is none.
    fn next(&mut self, request: &CapturedRequest, after_last: &AfterLast) -> Result<Reply, String> {
        let reply = match &mut self.script {
            Script::List(replies) => replies.pop_front(),
            Script::Choice(choose) => match catch_unwind(AssertUnwindSafe(|| choose(request))) {
                Ok(reply) => return Ok(reply),
                Err(_) => return Err("the function that chooses replies panicked".to_owned()),
            },
        };
        if let Some(reply) = reply {
            self.last = Some(reply.clone());
            return Ok(reply);
        }
        match (after_last, &self.last) {
            (AfterLast::Repeat, Some(last)) => Ok(last.clone()),
            (AfterLast::Say(text), _) => Ok(request.format.say(text).into()),
            (AfterLast::Error(status), _) => {
                Ok(request
                    .format
                    .error(*status, "api_error", "the script has no reply left"))
            }
            (AfterLast::Refuse | AfterLast::Repeat, _) => Err(format!(
                "the script has no reply left for model request {}",
                request.index
            )),
        }
    }
}

enum Endpoint<'a> {
    Model(Format),
    CountTokens,
    Models,
    Route(&'a Reply),
    Unknown,
}

fn endpoint<'a>(settings: &'a Settings, method: &str, path: &str) -> Endpoint<'a> {
    let route = settings
        .routes
        .iter()
        .find(|(one, other, _)| one.eq_ignore_ascii_case(method) && other == path);
    if let Some((_, _, reply)) = route {
        return Endpoint::Route(reply);
    }
    let is = |end: &str| path.ends_with(end);
    match method {
        "POST" if is("/messages") => Endpoint::Model(Format::AnthropicMessages),
        "POST" if is("/chat/completions") => Endpoint::Model(Format::OpenAiChat),
        "POST" if is("/responses") || is(":generateContent") || is(":streamGenerateContent") => {
            Endpoint::Model(Format::Other)
        }
        "POST" if is("/messages/count_tokens") => Endpoint::CountTokens,
        "GET" | "HEAD" if is("/models") => Endpoint::Models,
        _ => Endpoint::Unknown,
    }
}

/// Keeps a request and gives its reply, with its index if it is a model request.
pub(crate) fn take(
    shared: &Shared,
    connection: u64,
    head: RequestHead,
    body: Vec<u8>,
) -> (Reply, Option<usize>) {
    let arrived = Instant::now();
    let (path, query) = match head.target.split_once('?') {
        Some((path, query)) => (path.to_owned(), query.to_owned()),
        None => (head.target, String::new()),
    };
    let endpoint = endpoint(&shared.settings, &head.method, &path);
    let format = match endpoint {
        Endpoint::Model(format) => format,
        _ => Format::Other,
    };
    let parsed = oracle::parse_body(&body);
    let mut request = CapturedRequest {
        index: 0,
        connection,
        method: head.method,
        path,
        query,
        headers: head.headers,
        raw: body.into(),
        body: Arc::new(parsed.as_ref().map_or(Value::Null, Value::clone)),
        format,
        arrived,
        violations: Vec::new(),
    };
    let mut intake = lock(&shared.intake);
    let reply = match endpoint {
        Endpoint::Model(_) => {
            return take_model_request(shared, &mut intake, request, parsed.err());
        }
        Endpoint::CountTokens => Reply::json(
            200,
            &json!({"input_tokens": oracle::estimate_tokens(&request.body, 4.0)}),
        ),
        Endpoint::Models => Reply::json(200, &model_list(&shared.settings.models)),
        Endpoint::Route(reply) => reply.clone(),
        Endpoint::Unknown => Reply::json(
            404,
            &json!({"error": {"code": 404, "type": "not_found_error", "message": "there is nothing here"}}),
        ),
    };
    shared.change(|state| {
        request.index = state.others.len();
        if state.others.len() < MAX_REQUESTS {
            state.others.push(request);
        }
    });
    (reply, None)
}

fn model_list(names: &[String]) -> Value {
    let models: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "testkit"}))
        .collect();
    json!({"object": "list", "data": models, "has_more": false})
}

fn take_model_request(
    shared: &Shared,
    intake: &mut Intake,
    mut request: CapturedRequest,
    unreadable: Option<Violation>,
) -> (Reply, Option<usize>) {
    let (index, sent) = {
        let state = lock(&shared.state);
        (state.exchanges.len(), state.sent.clone())
    };
    if index >= MAX_REQUESTS {
        return (
            request
                .format
                .error(503, "overloaded_error", "the test asked too often"),
            None,
        );
    }
    request.index = index;
    let settings = &shared.settings;
    request.violations = violations(settings, &request, &sent, unreadable);
    let must_refuse = |violation: &Violation| match settings.judge {
        Judge::Refuse => true,
        // Windows and checks were asked for by themselves.
        Judge::Record | Judge::Off => matches!(violation.rule, Rule::Window | Rule::Profile),
    };
    let reply = match refusal(
        request.format,
        request.violations.iter().filter(|one| must_refuse(one)),
    ) {
        Some(refusal) => refusal,
        None => intake
            .next(&request, &settings.after_last)
            .unwrap_or_else(|words| {
                let violation = Violation::new(Rule::Script, "", words);
                let reply = refusal(request.format, [&violation].into_iter());
                request.violations.push(violation);
                reply.unwrap_or_else(Reply::reset)
            }),
    };
    shared.change(|state| {
        state.exchanges.push(Exchange {
            request,
            head_sent: None,
            ended: None,
        })
    });
    (reply, Some(index))
}

fn violations(
    settings: &Settings,
    request: &CapturedRequest,
    sent: &Sent,
    unreadable: Option<Violation>,
) -> Vec<Violation> {
    let judged = settings.judge != Judge::Off;
    if let Some(violation) = unreadable {
        return if judged { vec![violation] } else { Vec::new() };
    }
    let options = Options {
        window: settings.window,
        allow_prefill: settings.allow_prefill,
        sent: settings.remember_thinking.then_some(sent),
    };
    let mut violations = match request.format {
        Format::AnthropicMessages => oracle::check_anthropic(&request.body, &options),
        Format::OpenAiChat => oracle::check_openai_chat(&request.body, &options),
        Format::Other => Vec::new(),
    };
    violations.retain(|violation| judged || violation.rule == Rule::Window);
    for Check(look) in &settings.checks {
        match catch_unwind(AssertUnwindSafe(|| look(request, sent))) {
            Ok(more) => violations.extend(more),
            Err(_) => violations.push(Violation::new(
                Rule::Script,
                "",
                "a check of the test panicked",
            )),
        }
    }
    violations
}

/// The answer that refuses a request, in the shape of its format. One that is only too large is told just that.
fn refusal<'a>(format: Format, violations: impl Iterator<Item = &'a Violation>) -> Option<Reply> {
    let violations: Vec<&Violation> = violations.collect();
    let too_long = violations
        .iter()
        .all(|violation| violation.rule == Rule::Window);
    let words = match violations.as_slice() {
        [] => return None,
        [only] if too_long => only.message.clone(),
        all => all
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; "),
    };
    let kind = "invalid_request_error";
    let body = match format {
        Format::AnthropicMessages => anthropic::error_body(kind, &words),
        Format::OpenAiChat | Format::Other => {
            openai_chat::error_body(kind, too_long.then_some("context_length_exceeded"), &words)
        }
    };
    Some(Reply::json(400, &body))
}
