//! What can be wrong with a tool.

use super::MAX_DESCRIPTION;

/// Something that an agent could not rely on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Providers would refuse the name.
    #[error("the name {0:?} is not made of 1 to 64 letters, digits, '_' and '-'")]
    Name(String),
    /// The description is blank or too long.
    #[error("the description has {0} characters: 1 to {MAX_DESCRIPTION} are taken")]
    Description(usize),
    /// Providers would refuse the schema.
    #[error("the schema is none that providers take: {0}")]
    Schema(String),
    /// What the model is told changes.
    #[error("the definition is another one when asked for again, or in another session")]
    DefinitionChanges,
    /// A sample is no call of this tool.
    #[error("{input} is refused, and is said to be a good call: {problem}")]
    SampleRefused {
        /// The input.
        input: String,
        /// What the tool says.
        problem: String,
    },
    /// A field that the schema does not know is taken.
    #[error("a field that the schema does not know is overheard: {0}")]
    UnknownField(String),
    /// A field that the schema requires may be missing.
    #[error("the schema requires {0:?}, and the tool takes a call without it")]
    NotRequired(String),
    /// The refusal of a call does not say which field is wrong.
    #[error("a call without {field:?} is refused without its name: {problem}")]
    Unnamed {
        /// The field.
        field: String,
        /// What the tool says.
        problem: String,
    },
    /// A value of another type than the schema states is taken.
    #[error("the schema states another type, and the tool takes it: {0}")]
    WrongType(String),
    /// A refusal or a failure says nothing that a model could use.
    #[error("no words that help, for {input}: {words:?}")]
    NoWords {
        /// The input.
        input: String,
        /// What the tool says.
        words: String,
    },
    /// The same call has now one access, now another.
    #[error("the access of the same call differs from time to time: {0}")]
    AccessChanges(String),
    /// The question for access panics.
    #[error("access panics: {0}")]
    AccessPanics(String),
    /// The question for access takes too long.
    #[error("access is asked often, and takes too long: {0}")]
    AccessSlow(String),
    /// The call panics.
    #[error("the call panics: {0}")]
    RunPanics(String),
    /// The call goes on after it was cancelled.
    #[error("the call goes on after it was cancelled: {0}")]
    NotCancelled(String),
    /// The call does not end by itself.
    #[error("the call has not ended after a minute: {0}")]
    Endless(String),
    /// The answer is blank.
    #[error("the answer is blank: {0}")]
    Blank(String),
    /// A call that changes nothing outside of its session changes the folder.
    #[error(
        "its access changes nothing outside of the session, and {path} is not as it was: {input}"
    )]
    Changes {
        /// The input.
        input: String,
        /// A path that differs.
        path: String,
    },
    /// What one session did is felt in another.
    #[error("what one session did is felt in another: {0}")]
    SharedState(String),
    /// The folder cannot be looked at.
    #[error("the folder cannot be looked at: {0}")]
    Folder(String),
}
