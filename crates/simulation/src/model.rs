//! A provider that does what its script says.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio_util::sync::CancellationToken;
use tooloop_model::{
    BlockStart, ModelError, ModelErrorKind, ModelInfo, RawJson, Request, StopReason, StreamEvent,
    ToolUseId, Usage, VendorData,
};
use tooloop_provider::{ModelStream, Provider};

use crate::bills::{price, tokens};
use crate::script::{Block, End, Fault, Form, IdKind, InputKind, Moment, Place, Reply, ToolKind};
use crate::tools;
use crate::world::{ServedCall, Shared, World};

/// How long the provider's own timer lets a stream be silent, in milliseconds.
pub(crate) const SILENCE: u64 = 60_000;

#[derive(Debug)]
pub(crate) struct SimulatedModel(pub(crate) Shared);

#[derive(Debug, Clone)]
enum Piece {
    Event(StreamEvent),
    Fail(Fault),
    /// The connection is closed.
    Close,
    Silence,
}

impl Provider for SimulatedModel {
    fn name(&self) -> &str {
        "simulated"
    }

    fn info(&self, model: &str) -> ModelInfo {
        let world = self.0.lock();
        let knobs = &world.script.knobs;
        ModelInfo {
            context_window: knobs.window.unwrap_or(200_000),
            max_output_tokens: 8_192,
            price: knobs.priced.then(|| price(model)),
            images: false,
            structured_output: knobs.form == Some(Form::Native),
        }
    }

    fn stream(
        &self,
        request: Request,
        _: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let shared = self.0.clone();
        Box::pin(async move {
            let asked = shared.lock().request(&request);
            let Some((call, mut reply)) = asked else {
                return std::future::pending().await;
            };
            if shared.lock().is_too_long() {
                reply.end = End::Refused(Fault {
                    kind: ModelErrorKind::ContextTooLong,
                    retry_after: None,
                });
            }
            let life = shared.lock().life.number;
            let listener = Listener { shared, life, call };
            pause(reply.wait).await;
            if let End::Refused(fault) = &reply.end {
                let failed = listener.shared.lock().fails(call, fault);
                return match failed {
                    Some(error) => Err(error),
                    None => std::future::pending().await,
                };
            }
            let (input, dear) = listener.shared.lock().sent();
            let sent = Sent {
                model: request.model,
                call,
                input,
                dear,
                cap: request.max_output_tokens,
            };
            Ok(play(listener, sent, &reply))
        })
    }
}

/// Tells when nobody listens to a reply any more.
struct Listener {
    shared: Shared,
    life: u32,
    call: u64,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut world = self.shared.lock();
        if world.life.number == self.life
            && world.life.call == self.call
            && let Some(served) = &mut world.life.served
        {
            served.dropped = true;
        }
    }
}

async fn pause(millis: u64) {
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// What a call was sent.
struct Sent {
    model: String,
    call: u64,
    input: u64,
    dear: bool,
    cap: Option<u64>,
}

fn play(listener: Listener, sent: Sent, reply: &Reply) -> ModelStream {
    let call = sent.call;
    struct State {
        listener: Listener,
        pieces: VecDeque<Piece>,
        gap: u64,
    }
    let state = State {
        pieces: pieces(&sent, reply),
        gap: reply.gap,
        listener,
    };
    Box::pin(stream::unfold(state, move |mut state| async move {
        pause(state.gap).await;
        let piece = state.pieces.pop_front()?;
        if let Piece::Silence = piece {
            pause(SILENCE).await;
        }
        let item = state.listener.shared.lock().yields(call, piece);
        match item {
            Some(Some(item)) => Some((item, state)),
            Some(None) => None,
            None => std::future::pending().await,
        }
    }))
}

impl World {
    /// The next piece of a reply, `None` at its end; nothing at all if the process is dead.
    #[expect(
        clippy::option_option,
        reason = "the dead see nothing, the living an end"
    )]
    fn yields(
        &mut self,
        call: u64,
        piece: Piece,
    ) -> Option<Option<Result<StreamEvent, ModelError>>> {
        match piece {
            Piece::Event(event) => {
                self.moment(Moment::Piece, call, || crate::words::event(&event));
                if !self.alive() {
                    return None;
                }
                self.serve(call, &event);
                Some(Some(Ok(event)))
            }
            Piece::Fail(fault) => self.fails(call, &fault).map(|error| Some(Err(error))),
            Piece::Silence => {
                let fault = Fault {
                    kind: ModelErrorKind::IdleTimeout,
                    retry_after: None,
                };
                self.fails(call, &fault).map(|error| Some(Err(error)))
            }
            Piece::Close => {
                let fault = Fault {
                    kind: ModelErrorKind::CutStream,
                    retry_after: None,
                };
                self.fails(call, &fault).map(|_| None)
            }
        }
    }

    fn fails(&mut self, call: u64, fault: &Fault) -> Option<ModelError> {
        self.moment(Moment::Piece, call, || {
            format!(
                "the call fails: {:?}, wait {:?}",
                fault.kind, fault.retry_after
            )
        });
        if !self.alive() {
            return None;
        }
        self.see("fault");
        let retry_after = fault.retry_after.map(Duration::from_millis);
        if self.life.call == call {
            let overloaded = fault.kind == ModelErrorKind::Overloaded;
            self.life.overloads = if overloaded {
                self.life.overloads + 1
            } else {
                0
            };
            self.life.newest_fault = Some((fault.kind, retry_after));
            if let Some(served) = &mut self.life.served {
                served.failed = true;
                self.life.too_long |=
                    fault.kind == ModelErrorKind::ContextTooLong && !served.is_summary;
            }
        }
        Some(ModelError {
            retry_after,
            ..ModelError::new(fault.kind, "simulated")
        })
    }

    /// Keeps what the model has said.
    fn serve(&mut self, call: u64, event: &StreamEvent) {
        let script = &self.script;
        let granted = &self.life.granted;
        let Some(served) = self.life.served.as_mut().filter(|_| self.life.call == call) else {
            return;
        };
        served.begins = true;
        served.seen += tokens(&served.model, event);
        match event {
            StreamEvent::TextDelta { text, .. } => {
                served.text.push_str(text);
                served.shown |= !text.is_empty() && !served.is_summary;
            }
            StreamEvent::ThinkingDelta { text, .. } => {
                served.shown |= !text.is_empty() && !served.is_summary;
            }
            StreamEvent::BlockStart {
                block: BlockStart::ToolUse { id, name },
                index,
            } => {
                served.shown |= !served.is_summary;
                served.calls.push(ServedCall {
                    index: *index,
                    id: id.clone(),
                    tool: tools::kind(name).unwrap_or(ToolKind::Gone),
                    input: String::new(),
                    complete: false,
                    free: false,
                });
            }
            StreamEvent::InputDelta { json, .. } => {
                if let Some(newest) = served.calls.last_mut() {
                    newest.input.push_str(json);
                }
            }
            StreamEvent::BlockStop { index } => {
                let newest = served.calls.last_mut();
                if let Some(newest) = newest.filter(|newest| newest.index == *index) {
                    let input = tooloop_model::ToolInput::parse(&newest.input);
                    let plan = tools::plan_of(script, &input);
                    newest.complete = true;
                    newest.free = !served.is_summary
                        && newest.tool == ToolKind::Look
                        && plan.is_some_and(|plan| {
                            plan.place == Place::Free || granted.contains(plan.place.host())
                        });
                }
            }
            StreamEvent::Usage(usage) => {
                let before = std::mem::replace(&mut served.usage, *usage);
                let more = usage.since(before);
                served.unseen = usage.output_tokens.saturating_sub(served.seen);
                let by_model = self.record.by_model.entry(served.model.clone());
                by_model.or_default().add(more);
                self.life.paid.add(more);
            }
            StreamEvent::MessageStop { stop_reason } => {
                served.stop = Some(stop_reason.clone());
                let blank = served.text.trim().is_empty()
                    && served.calls.is_empty()
                    && !served.has_vendor_block;
                let explained = matches!(
                    stop_reason,
                    StopReason::MaxTokens
                        | StopReason::Refusal
                        | StopReason::ContentFilter
                        | StopReason::ContextWindow
                ) || (*stop_reason == StopReason::Pause && !served.is_summary);
                self.life.overloads = 0;
                if blank && !explained {
                    served.failed = true;
                    self.life.newest_fault = Some((ModelErrorKind::EmptyReply, None));
                    self.see("empty reply");
                }
            }
            StreamEvent::BlockStart {
                block: BlockStart::Vendor(_),
                ..
            } => served.has_vendor_block = true,
            StreamEvent::MessageStart { .. }
            | StreamEvent::BlockStart { .. }
            | StreamEvent::VendorDelta { .. } => {}
        }
        let senseless = matches!(event, StreamEvent::BlockStop { index: NOWHERE });
        if senseless {
            served_nonsense(self);
        }
    }
}

/// The index of a block that is not there.
const NOWHERE: usize = 99;

/// What makes no sense is a failure that the harness sees for itself.
fn served_nonsense(world: &mut World) {
    world.see("nonsense");
    world.life.overloads = 0;
    world.life.newest_fault = Some((ModelErrorKind::Decode, None));
    if let Some(served) = &mut world.life.served {
        served.failed = true;
    }
}

fn pieces(sent: &Sent, reply: &Reply) -> VecDeque<Piece> {
    let told = |output_tokens| {
        Piece::Event(StreamEvent::Usage(Usage {
            input_tokens: sent.input,
            cache_write_tokens: if sent.dear { sent.input } else { 0 },
            output_tokens,
            ..Usage::default()
        }))
    };
    let mut pieces = VecDeque::from([Piece::Event(StreamEvent::MessageStart {
        id: None,
        model: None,
    })]);
    if reply.usage.is_some() {
        pieces.push_back(told(0));
    }
    let blocks = reply.blocks.iter().enumerate();
    let events = blocks.flat_map(|(index, block)| block_events(sent.call, index, *block));
    let mut written = 0;
    let cap = sent.cap.unwrap_or(u64::MAX);
    for event in events {
        let more = tokens(&sent.model, &event);
        if written + more > cap {
            // As a provider does it.
            pieces.extend(reply.usage.map(|_| told(written)));
            pieces.push_back(Piece::Event(StreamEvent::MessageStop {
                stop_reason: StopReason::MaxTokens,
            }));
            return pieces;
        }
        written += more;
        pieces.push_back(Piece::Event(event));
    }
    if let Some(unseen) = reply.usage {
        pieces.push_back(told(written + unseen.min(cap - written)));
    }
    if let Some(cut) = reply.cut {
        pieces.truncate(cut);
    }
    let stop = |stop_reason| Piece::Event(StreamEvent::MessageStop { stop_reason });
    match &reply.end {
        End::Stop(reason) => pieces.push_back(stop(reason.clone())),
        End::StopAndMore => {
            pieces.push_back(stop(StopReason::EndTurn));
            pieces.push_back(Piece::Event(StreamEvent::BlockStart {
                index: 98,
                block: BlockStart::Text,
            }));
        }
        End::Cut => pieces.push_back(Piece::Close),
        End::Silence => pieces.push_back(Piece::Silence),
        End::Fault(fault) | End::Refused(fault) => pieces.push_back(Piece::Fail(fault.clone())),
        End::Nonsense => {
            pieces.push_back(Piece::Event(StreamEvent::BlockStop { index: NOWHERE }));
        }
    }
    pieces
}

fn block_events(call: u64, index: usize, block: Block) -> Vec<StreamEvent> {
    let words = format!("words {call}.{index} ");
    let middle = match block {
        Block::Text => {
            let (one, two) = words.split_at(5);
            vec![text(index, one), text(index, two)]
        }
        Block::Answer => vec![text(index, "{\"n\":"), text(index, "1}")],
        Block::Blank => vec![text(index, " \n")],
        Block::Thinking => vec![StreamEvent::ThinkingDelta { index, text: words }],
        Block::Vendor => Vec::new(),
        Block::Call {
            plan, input, tool, ..
        } => {
            let json = match input {
                InputKind::Good if tool == ToolKind::Answer => "{\"n\":1}".into(),
                InputKind::Good => format!("{{\"plan\":{plan}}}"),
                InputKind::Broken => "{\"plan\":".into(),
                InputKind::Misfit => "{\"other\":1}".into(),
            };
            let (one, two) = json.split_at(4);
            vec![piece(index, one), piece(index, two)]
        }
    };
    let block = match block {
        Block::Text | Block::Blank | Block::Answer => BlockStart::Text,
        Block::Thinking => BlockStart::Thinking,
        Block::Vendor => BlockStart::Vendor(VendorData {
            owner: "simulated".into(),
            data: RawJson::string("own"),
        }),
        Block::Call { tool, id, .. } => BlockStart::ToolUse {
            id: ToolUseId(match id {
                IdKind::Fresh => format!("tu_{call}_{index}"),
                IdKind::Same => "call_1".into(),
                IdKind::Empty => String::new(),
                IdKind::Odd => "a:b/c".into(),
            }),
            name: tools::name(tool).into(),
        },
    };
    let mut events = vec![StreamEvent::BlockStart { index, block }];
    events.extend(middle);
    events.push(StreamEvent::BlockStop { index });
    events
}

fn text(index: usize, text: &str) -> StreamEvent {
    let text = text.to_owned();
    StreamEvent::TextDelta { index, text }
}

fn piece(index: usize, json: &str) -> StreamEvent {
    let json = json.to_owned();
    StreamEvent::InputDelta { index, json }
}
