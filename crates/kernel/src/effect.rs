//! What goes out.

use std::sync::Arc;
use std::time::Duration;

use tooloop_model::{Content, Request, StreamEvent, ToolUse};
use tooloop_policy::AskCause;

use crate::{CompactionTrigger, Entry, Judgement, TurnEnd};

/// What the runtime is to do, in order: an effect is begun only when those before it are done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append an entry to the journal.
    Record {
        /// The entry.
        entry: Entry,
        /// Whether what follows must wait until it is durable.
        sync: Sync,
    },
    /// Ask the model; its events come back under the number.
    CallModel {
        /// The number.
        call: u64,
        /// The request.
        request: Box<Request>,
    },
    /// Break a model call off.
    CancelModel {
        /// The number.
        call: u64,
    },
    /// Show a piece of the reply that is being written.
    Show {
        /// The model call.
        call: u64,
        /// The piece.
        event: StreamEvent,
    },
    /// What was shown of this reply is void: it failed and will not be part of the conversation.
    Void {
        /// The model call.
        call: u64,
    },
    /// Run a tool; its answer comes back under the number.
    RunTool {
        /// The number.
        run: u64,
        /// The tool use.
        tool_use: ToolUse,
        /// How it was judged: it runs with these grants and no others.
        judgement: Arc<Judgement>,
    },
    /// Break a run off; its answer is of no interest any more.
    CancelTool {
        /// The number.
        run: u64,
    },
    /// Ask those who have a say in calls of this tool what they have to say about this one, before
    /// it is judged. All calls of a message are told of at once.
    Consult {
        /// The number under which the advice comes back.
        consult: u64,
        /// The call, as the model wrote it.
        tool_use: ToolUse,
    },
    /// The advice is of no interest any more.
    CancelConsult {
        /// The number.
        consult: u64,
    },
    /// Ask whether a call may run.
    Ask {
        /// The number under which the answer comes back.
        ask: u64,
        /// The call.
        tool_use: ToolUse,
        /// Why it is asked.
        reason: String,
        /// What made it a question.
        cause: AskCause,
        /// How the call was judged: what it would get, and which rules "always" adds.
        judgement: Arc<Judgement>,
    },
    /// A question is of no interest any more.
    CancelAsk {
        /// The number.
        ask: u64,
    },
    /// Tell that the model is done, and ask whether that may be.
    AskStop {
        /// The number under which the judgement comes back.
        stop: u64,
        /// Whether the turn goes on already because somebody objected.
        active: bool,
    },
    /// The judgement is of no interest any more.
    CancelStop {
        /// The number.
        stop: u64,
    },
    /// Say when a time has passed.
    StartTimer {
        /// The number.
        timer: u64,
        /// How long.
        after: Duration,
    },
    /// A timer is of no interest any more.
    CancelTimer {
        /// The number.
        timer: u64,
    },
    /// The conversation is about to be summed up: tell who has a say in that, and gather what tools
    /// carry over.
    PrepareCompaction {
        /// The number under which that comes back.
        compaction: u64,
        /// Why.
        trigger: CompactionTrigger,
        /// The most tokens that may be carried over.
        room: u64,
    },
    /// That is of no interest any more.
    CancelCompaction {
        /// The number.
        compaction: u64,
    },
    /// What came of summing up. If it was done, its entry is on record.
    CompactionEnded {
        /// The number.
        compaction: u64,
        /// Why it was tried.
        trigger: CompactionTrigger,
        /// Why it was not done, if it was not.
        failure: Option<String>,
    },
    /// The turn is over. Always the last effect of a turn, and exactly one a turn.
    EndTurn {
        /// Why.
        end: TurnEnd,
        /// What the user said meanwhile that has not reached the model, oldest first: it is given
        /// back, not dropped.
        unsent: Vec<Vec<Content>>,
    },
}

/// When an entry must be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Before the next effect: the effect cannot be taken back.
    Now,
    /// Soon: written at once, durable while the next request is on its way.
    Soon,
}
