//! What a server is told before it starts: its script, its judge and its endpoints.

use crate::capture::CapturedRequest;
use crate::intake::{AfterLast, Check, Judge, Script, Settings};
use crate::oracle::{NeedsReasoning, PlainReasoning, Sent, Violation, Window};
use crate::reply::Reply;
use crate::server::{self, ModelServer};
use std::io;

/// Says how a server is to behave before it starts. Made by [`ModelServer::builder`].
#[derive(Debug, Default)]
pub struct ServerBuilder {
    script: Script,
    settings: Settings,
    sent: Sent,
}

impl ServerBuilder {
    /// Gives the replies: the n-th accepted model request gets the n-th reply. A refused request takes none.
    #[must_use]
    pub fn replies<R: Into<Reply>>(mut self, replies: impl IntoIterator<Item = R>) -> Self {
        self.script = Script::List(replies.into_iter().map(Into::into).collect());
        self
    }

    /// Has `choose` give the reply to each accepted model request. It must not block.
    #[must_use]
    pub fn choose(
        mut self,
        choose: impl FnMut(&CapturedRequest) -> Reply + Send + 'static,
    ) -> Self {
        self.script = Script::Choice(Box::new(choose));
        self
    }

    /// Says what a request gets for which the list of replies has none left.
    #[must_use]
    pub fn after_last(mut self, after_last: AfterLast) -> Self {
        self.settings.after_last = after_last;
        self
    }

    /// Says what happens to requests that break the rules.
    #[must_use]
    pub fn judge(mut self, judge: Judge) -> Self {
        self.settings.judge = judge;
        self
    }

    /// Refuses requests that are larger than this.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.settings.window = Some(window);
        self
    }

    /// Lets requests end with an assistant message.
    #[must_use]
    pub fn allow_prefill(mut self) -> Self {
        self.settings.allow_prefill = true;
        self
    }

    /// Holds thinking in requests only to its form, not against what this server sent.
    #[must_use]
    pub fn forget_thinking(mut self) -> Self {
        self.settings.remember_thinking = false;
        self
    }

    /// Begins with what another server sent, for a conversation that goes on here.
    #[must_use]
    pub fn sent_before(mut self, sent: Sent) -> Self {
        self.sent = sent;
        self
    }

    /// Adds a check of model requests. What it gives counts like a broken rule.
    #[must_use]
    pub fn check(
        mut self,
        check: impl Fn(&CapturedRequest, &Sent) -> Vec<Violation> + Send + Sync + 'static,
    ) -> Self {
        self.settings.checks.push(Check(Box::new(check)));
        self
    }

    /// Refuses requests that do not pass reasoning back in this field.
    #[must_use]
    pub fn needs_reasoning(self, field: &str) -> Self {
        let profile = NeedsReasoning::in_field(field);
        self.check(move |request, sent| profile.check(&request.body, sent))
    }

    /// Refuses requests that pass reasoning back.
    #[must_use]
    pub fn refuses_reasoning(self) -> Self {
        self.check(|request, sent| PlainReasoning.check(&request.body, sent))
    }

    /// Answers requests of this method and path, which then count as other requests.
    #[must_use]
    pub fn route(mut self, method: &str, path: &str, reply: Reply) -> Self {
        self.settings
            .routes
            .push((method.to_owned(), path.to_owned(), reply));
        self
    }

    /// Names the models of the list at `/v1/models`.
    #[must_use]
    pub fn models(mut self, names: &[&str]) -> Self {
        self.settings.models = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    /// If the machine gives no port on 127.0.0.1; [`try_start`](Self::try_start) gives the error instead.
    #[must_use = "the server ends when it is dropped"]
    pub fn start(self) -> ModelServer {
        match self.try_start() {
            Ok(server) => server,
            #[expect(clippy::panic, reason = "a test cannot go on without its server")]
            Err(error) => panic!("the model server cannot listen on 127.0.0.1: {error}"),
        }
    }

    /// Starts the server.
    ///
    /// # Errors
    /// If the machine gives no port on 127.0.0.1, or no thread.
    pub fn try_start(self) -> io::Result<ModelServer> {
        server::listen(self.script, self.settings, self.sent)
    }
}
