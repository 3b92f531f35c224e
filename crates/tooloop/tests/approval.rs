//! Who is asked about calls: answers with more than yes or no, and tools that are asked.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tooloop::provider::ScriptedProvider;
use tooloop::{
    Access, Agent, AgentBuilder, Allowance, Approval, Approver, DeniedBy, During, DynTool,
    Interrupter, Question, Reply, Tool, ToolApprover, ToolContext, ToolError, ToolOutput, TurnEnd,
    tool,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Anything {
    /// Something.
    #[serde(default)]
    what: String,
}

/// Changes something each time.
struct Change;

impl Tool for Change {
    type Input = Anything;

    fn name(&self) -> &'static str {
        "change"
    }

    fn description(&self) -> &'static str {
        "Changes something."
    }

    fn access(&self, input: &Anything) -> Access {
        Access::effectful().writing(format!("/w/{}", input.what))
    }

    async fn run(&self, input: Anything, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(format!("changed {}", input.what)))
    }
}

struct Always(Reply);

impl Approver for Always {
    fn decide(&self, _: Question) -> BoxFuture<'static, Reply> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}

fn agent(script: ScriptedProvider, approver: impl Approver + 'static) -> AgentBuilder {
    Agent::builder()
        .provider(Arc::new(script))
        .model("any")
        .approval(Approval::By(Arc::new(approver)))
        .tool(Change)
}

#[tokio::test]
async fn a_yes_may_bring_rules_for_the_session() {
    let script = ScriptedProvider::new()
        .call("t1", "change", "{\"what\":\"a\"}")
        .say("done");
    let rules = vec!["Edit(/w/b)".parse().unwrap()];
    let allowance = Allowance { input: None, rules };
    let agent = agent(script, Always(Reply::AllowWith(allowance)));
    let session = agent.build().unwrap().session().unwrap();
    let report = session.prompt("go").await.unwrap();
    assert_eq!(report.denials, []);
    let rules: Vec<_> = session
        .policy()
        .allow
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(rules.contains(&"Edit(/w/b)".to_owned()), "{rules:?}");
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_no_may_end_the_turn() {
    let script = ScriptedProvider::new().call("t1", "change", "{\"what\":\"a\"}");
    let reason = "leave it".to_owned();
    let agent = agent(script, Always(Reply::DenyAndStop { reason }));
    let session = agent.build().unwrap().session().unwrap();
    let report = session.prompt("go").await.unwrap();
    assert_eq!(
        report.end,
        TurnEnd::Interrupted {
            during: During::Tools,
            by: Interrupter::User,
        }
    );
    assert_eq!(report.denials[0].reason, "leave it");
    assert_eq!(report.denials[0].by, DeniedBy::Answer);
    session.close().await.unwrap();
}

/// Answers what it was told to, and keeps what it was asked.
struct Clerk {
    says: &'static str,
}

impl Tool for Clerk {
    type Input = Value;

    fn name(&self) -> &'static str {
        "clerk"
    }

    fn description(&self) -> &'static str {
        "Answers questions about calls."
    }

    fn access(&self, _: &Value) -> Access {
        Access::read_only()
    }

    async fn run(&self, input: Value, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        assert_eq!(
            input,
            json!({
                "tool_name": "change",
                "input": { "what": "a" },
                "tool_use_id": "t1",
            })
        );
        match self.says {
            "fail" => Ok(ToolOutput::failure("out of order")),
            says => Ok(ToolOutput::text(says)),
        }
    }
}

#[tokio::test]
async fn a_tool_may_be_asked_and_what_is_no_answer_is_a_no() {
    for (says, denied) in [
        (r#"{"behavior":"allow"}"#, None),
        (
            r#"{"behavior":"deny","message":"not today"}"#,
            Some("not today"),
        ),
        ("yes", Some("its answer is no JSON")),
        ("{}", Some("\"behavior\" is neither")),
        ("fail", Some("out of order")),
        (
            r#"{"behavior":"allow","updatedPermissions":[{"type":"setMode","mode":"plan"}]}"#,
            Some("only a front end"),
        ),
    ] {
        let script = ScriptedProvider::new()
            .call("t1", "change", "{\"what\":\"a\"}")
            .say("done");
        let clerk: Arc<dyn DynTool> = tool(Clerk { says });
        let agent = agent(script, ToolApprover::new(clerk, "/"));
        let session = agent.build().unwrap().session().unwrap();
        let report = session.prompt("go").await.unwrap();
        let reason = report.denials.first().map(|denial| denial.reason.as_str());
        match denied {
            None => assert_eq!(reason, None, "{says}"),
            Some(words) => assert!(reason.unwrap().contains(words), "{says}: {reason:?}"),
        }
        session.close().await.unwrap();
    }
}
