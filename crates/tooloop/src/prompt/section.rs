//! What a system prompt is made of.

use std::borrow::Cow;

/// A named part of a system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSection {
    /// What it is about, in a word.
    pub name: Cow<'static, str>,
    /// What the model reads.
    pub text: String,
}

impl PromptSection {
    /// A section of this name with this text.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// A system prompt as a list of sections. The same sections give the same bytes, so that a
/// provider's prompt cache holds from request to request and from session to session.
///
/// ```
/// use tooloop::{PromptSection, SystemPrompt};
///
/// let prompt = SystemPrompt::new([
///     PromptSection::new("identity", "You are a gardener."),
///     PromptSection::new("memory", ""),
///     PromptSection::new("environment", "It rains."),
/// ]);
/// assert_eq!(prompt.text(), "You are a gardener.\n\nIt rains.");
/// assert_eq!(prompt.largest().map(|section| &*section.name), Some("identity"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemPrompt(Vec<PromptSection>);

impl SystemPrompt {
    /// A prompt of these sections, in this order.
    #[must_use]
    pub fn new(sections: impl IntoIterator<Item = PromptSection>) -> Self {
        Self(sections.into_iter().collect())
    }

    /// The sections in their order, those that say nothing too.
    #[must_use]
    pub fn sections(&self) -> &[PromptSection] {
        &self.0
    }

    /// The first section of this name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&PromptSection> {
        self.0.iter().find(|section| section.name == name)
    }

    /// The section with the most bytes; `None` if nothing is said at all.
    #[must_use]
    pub fn largest(&self) -> Option<&PromptSection> {
        let said = self.0.iter().filter(|section| !section.is_blank());
        said.max_by_key(|section| section.text.len())
    }

    /// What the model reads: the texts that are not blank, a blank line between them.
    #[must_use]
    pub fn text(&self) -> String {
        let said = self.0.iter().filter(|section| !section.is_blank());
        let texts: Vec<_> = said.map(|section| section.text.trim()).collect();
        texts.join("\n\n")
    }
}

/// A text as a prompt of one section.
impl From<String> for SystemPrompt {
    fn from(text: String) -> Self {
        Self::new([PromptSection::new("system", text)])
    }
}

/// A text as a prompt of one section.
impl From<&str> for SystemPrompt {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}
