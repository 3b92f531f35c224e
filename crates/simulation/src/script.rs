//! All that a world decides by itself, as data: it can be drawn from a seed, made smaller, and said
//! in words.

use tooloop_model::{ModelErrorKind, StopReason};

/// What happens in a world. The lists are used up in order; when one is over, the dullest thing
/// happens: the model says "done", a question is allowed, the disk works.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// How the agent is set up.
    pub knobs: Knobs,
    /// What the user does.
    pub acts: Vec<Act>,
    /// What the model does, one for each request.
    pub replies: Vec<Reply>,
    /// How calls go. A tool use names one of them by its place in this list.
    pub calls: Vec<CallPlan>,
    /// What is said to questions.
    pub answers: Vec<AnswerPlan>,
    /// What is wrong with the disk.
    pub disk: Vec<DiskFault>,
    /// What a stop hook says.
    pub stops: Vec<StopPlan>,
    /// What is said of calls before they are judged.
    pub advice: Vec<AdvicePlan>,
    /// What a hook says before the conversation is summed up.
    pub summaries: Vec<SummaryPlan>,
    /// How the lives of the process end before their time, one for each life.
    pub deaths: Vec<Death>,
}

/// How the agent is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Knobs {
    /// The most read-only calls at once.
    pub max_parallel: usize,
    /// The most model calls in a turn.
    pub max_turns: Option<u32>,
    /// The output cap.
    pub cap: Option<u64>,
    /// The larger output cap.
    pub larger_cap: Option<u64>,
    /// The most requests in a row that fail.
    pub attempts: u32,
    /// How often the same may come before a turn ends.
    pub stop_after: u32,
    /// Whether somebody reads the events.
    pub watched: bool,
    /// Whether there is somebody to ask.
    pub asks: bool,
    /// How long a flush takes.
    pub flush: u64,
    /// What may be used up.
    pub limits: Ceilings,
    /// Whether the price of a token is known.
    pub priced: bool,
    /// Whether there is another model.
    pub fallback: bool,
    /// How the answer must have a form.
    pub form: Option<Form>,
    /// Whether there is a stop hook.
    pub hook: bool,
    /// Whether a hook is told of calls.
    pub tool_hook: bool,
    /// The model's window in tokens; more than any conversation has if `None`.
    pub window: Option<u64>,
    /// Whether a hook is told before the conversation is summed up.
    pub summary_hook: bool,
}

/// What may be used up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ceilings {
    /// Tool calls in a turn.
    pub calls: Option<u32>,
    /// Milliseconds in a turn.
    pub time: Option<u64>,
    /// Tokens of a session.
    pub tokens: Option<u64>,
    /// Billionths of a dollar of a session.
    pub cost: Option<u64>,
}

/// How the model is held to a form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// By its provider.
    Native,
    /// By a tool.
    Tool,
}

/// What a stop hook says.
#[derive(Debug, Clone, PartialEq)]
pub struct StopPlan {
    /// After how many milliseconds.
    pub wait: u64,
    /// What.
    pub what: Judged,
}

/// What a stop hook says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Judged {
    /// The model is done.
    Done,
    /// It is not.
    GoOn,
    /// It is, and nothing else begins.
    End,
    /// Nothing.
    Never,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            max_parallel: 10,
            max_turns: None,
            cap: None,
            larger_cap: None,
            attempts: 10,
            stop_after: 6,
            watched: true,
            asks: true,
            flush: 1,
            limits: Ceilings::default(),
            priced: false,
            fallback: false,
            form: None,
            hook: false,
            tool_hook: false,
            window: None,
            summary_hook: false,
        }
    }
}

/// What a hook says of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct AdvicePlan {
    /// After how many milliseconds.
    pub wait: u64,
    /// What.
    pub what: Advised,
}

/// What a hook says of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Advised {
    /// Nothing.
    Nothing,
    /// It may run.
    Allow,
    /// Somebody is to be asked.
    Ask,
    /// It may not run.
    Deny,
    /// It is to run in another way: a place in [`Script::calls`].
    Rewrite(usize),
    /// Something for the model.
    Tell,
    /// The turn is to end.
    Stop,
    /// It fails.
    Fail,
    /// It takes too long.
    Late,
}

/// What a hook says before the conversation is summed up.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryPlan {
    /// After how many milliseconds.
    pub wait: u64,
    /// What.
    pub what: Prepared,
}

/// What a hook says before the conversation is summed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prepared {
    /// Nothing.
    Nothing,
    /// It is not to be.
    Refuse,
    /// It takes too long.
    Late,
}

/// Something that the user does.
#[derive(Debug, Clone, PartialEq)]
pub struct Act {
    /// When, after the act before.
    pub after: After,
    /// What.
    pub what: What,
}

/// When an act comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum After {
    /// When no turn is under way.
    Idle,
    /// So many milliseconds later.
    Millis(u64),
}

/// What the user does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum What {
    /// Prompts.
    Prompt,
    /// Prompts with nothing but white space.
    Blank,
    /// Steers.
    Steer,
    /// Says something for later.
    FollowUp,
    /// Interrupts.
    Interrupt,
    /// Does not wait for the report any more.
    Desert,
    /// Has the model told what background work says.
    Wake,
    /// Takes another model.
    Model,
    /// Looks at the transcript.
    Look,
    /// Takes the conversation back to before a turn.
    Rewind(usize),
    /// Has the conversation summed up.
    Compact,
    /// Closes the session and goes on with it in a new one.
    Close,
    /// Drops the session without closing it, and goes on with it in a new one.
    Leave,
    /// The process dies.
    Die(Loss),
}

/// What the model does.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Milliseconds before it begins.
    pub wait: u64,
    /// Milliseconds between its pieces.
    pub gap: u64,
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// Whether it says what it used, and how much that is beside what it is seen to write.
    pub usage: Option<u64>,
    /// How it ends.
    pub end: End,
    /// After how many pieces the end comes; after all if `None`.
    pub cut: Option<usize>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            wait: 0,
            gap: 0,
            blocks: vec![Block::Text],
            usage: None,
            end: End::Stop(StopReason::EndTurn),
            cut: None,
        }
    }
}

/// A block of a reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Block {
    /// A text.
    Text,
    /// A text that has the form that an answer must have.
    Answer,
    /// A text of white space.
    Blank,
    /// Thinking.
    Thinking,
    /// A vendor's own.
    Vendor,
    /// A tool use.
    Call {
        /// Of which tool.
        tool: ToolKind,
        /// How it goes: a place in [`Script::calls`].
        plan: usize,
        /// What its id is like.
        id: IdKind,
        /// What its input is like.
        input: InputKind,
    },
}

/// The tools that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Changes nothing.
    Look,
    /// Has an effect.
    Act,
    /// Has an effect that may be had twice.
    Put,
    /// Changes the session alone.
    Note,
    /// Takes the answer, where that must have a form.
    Answer,
    /// Is not there.
    Gone,
}

/// What an id is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IdKind {
    /// New.
    Fresh,
    /// Always the same.
    Same,
    /// Empty.
    Empty,
    /// Made of what no provider takes back.
    Odd,
}

/// What an input is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InputKind {
    /// As it should be.
    Good,
    /// No JSON.
    Broken,
    /// An object of another shape.
    Misfit,
}

/// How a reply ends.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// As it should.
    Stop(StopReason),
    /// As it should, and then more comes.
    StopAndMore,
    /// The connection is closed.
    Cut,
    /// Nothing comes any more until the provider's own timer ends it.
    Silence,
    /// With an error.
    Fault(Fault),
    /// With an error before it begins.
    Refused(Fault),
    /// With an event that makes no sense.
    Nonsense,
}

/// What a provider says in place of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What kind of error.
    pub kind: ModelErrorKind,
    /// How many milliseconds it asks to wait.
    pub retry_after: Option<u64>,
}

/// How a call goes.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPlan {
    /// What it touches, which says whether it is allowed.
    pub place: Place,
    /// Milliseconds before its effect.
    pub before: u64,
    /// Milliseconds after it.
    pub after: u64,
    /// How many milliseconds it does not heed that it is cancelled.
    pub stubborn: u64,
    /// What comes of it.
    pub how: How,
    /// After how many milliseconds work that it leaves behind has something to say.
    pub notice: Option<u64>,
}

impl Default for CallPlan {
    fn default() -> Self {
        Self {
            place: Place::Free,
            before: 0,
            after: 0,
            stubborn: 0,
            how: How::Works,
            notice: None,
        }
    }
}

/// What a call touches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    /// What a rule allows.
    Free,
    /// What is asked about.
    Asked,
    /// What a rule denies.
    Denied,
}

impl Place {
    /// The host that stands for it.
    pub(crate) const fn host(self) -> &'static str {
        match self {
            Self::Free => "free.example",
            Self::Asked => "asked.example",
            Self::Denied => "denied.example",
        }
    }
}

/// What comes of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum How {
    /// A short text.
    Works,
    /// A long text.
    Talks,
    /// Nothing.
    Silent,
    /// A failure.
    Fails,
    /// A panic.
    Panics,
    /// It goes on until it is cancelled, or its own time is over.
    Hangs,
}

/// What is said to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerPlan {
    /// After how many milliseconds.
    pub wait: u64,
    /// What.
    pub what: Said,
}

/// What is said to a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Said {
    /// Yes.
    Allow,
    /// Yes, and always.
    Always,
    /// No.
    Deny,
    /// Nothing.
    Never,
}

/// What is wrong with the disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskFault {
    /// How many operations of this kind go well before.
    pub skip: u32,
    /// What.
    pub what: DiskTrouble,
}

/// What is wrong with the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DiskTrouble {
    /// There is no room for what is appended. Later there is.
    Full,
    /// A flush fails.
    Flush,
    /// A flush takes so many milliseconds.
    Slow(u64),
}

/// How a process dies.
#[derive(Debug, Clone, PartialEq)]
pub struct Death {
    /// At what kind of moment.
    pub moment: Moment,
    /// At which of them in this life, from 1.
    pub nth: u32,
    /// What is lost.
    pub loss: Loss,
}

/// What a death loses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// The process: what was being appended stays in part, so many of 100.
    Process(u8),
    /// The power: what was not durable stays in part, so many of 100.
    Power(u8),
}

/// A moment at which the harness and the world meet. Between two of them nothing that happens can be
/// seen, so a death at each of them is a death anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Entries are being appended.
    Append,
    /// Entries are appended.
    Appended,
    /// A flush begins.
    Flush,
    /// A flush is over.
    Flushed,
    /// A model call begins.
    Request,
    /// A piece of a reply is there, or its failure.
    Piece,
    /// A call begins.
    CallBegins,
    /// A call has its effect.
    Effect,
    /// A call is over.
    CallEnds,
    /// A question is put.
    Question,
    /// A question is answered.
    Answer,
    /// The user does something.
    User,
    /// A stop hook is asked.
    Stop,
    /// A hook is told of a call.
    Hook,
}

impl Moment {
    /// How many kinds there are.
    pub(crate) const KINDS: usize = 14;
    /// All kinds.
    pub(crate) const ALL: [Self; Self::KINDS] = [
        Self::Append,
        Self::Appended,
        Self::Flush,
        Self::Flushed,
        Self::Request,
        Self::Piece,
        Self::CallBegins,
        Self::Effect,
        Self::CallEnds,
        Self::Question,
        Self::Answer,
        Self::User,
        Self::Stop,
        Self::Hook,
    ];
}
