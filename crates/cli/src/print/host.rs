//! What a headless run does about the program at its other end: its requests, and the questions
//! that it answers.

use serde_json::{Value, json};
use tooloop::{Event, Mode, SessionError};

use super::turns::Run;
use crate::control::{self, Host, ToHost};
use crate::initialize::Initialize;

impl Run<'_> {
    /// Asks the host what has come up, and takes back what is void.
    pub(super) async fn tell_host(&mut self) {
        let mut news: Vec<_> = self.initialize.callbacks.news().into();
        news.extend(self.host.iter_mut().flat_map(Host::news));
        for message in news {
            let record = match message {
                ToHost::Request(id, body) => self.records.control_request(&id, body),
                ToHost::Cancel(id) => self.records.control_cancel(&id),
            };
            self.output.record(&record).await;
        }
    }

    /// Somebody answers a question. Gives back what a person should know about it.
    pub(super) fn answered(&mut self, response: &Value) -> Vec<String> {
        if self.initialize.callbacks.answer(response) {
            return Vec::new();
        }
        match &mut self.host {
            Some(host) => host.answer(response, self.session),
            None => vec![
                "a control response is passed over: nothing was asked (see \
                 --permission-prompt-tool)"
                    .into(),
            ],
        }
    }

    pub(super) async fn control(&mut self, id: &str, request: &Value) {
        let subtype = request.get("subtype").and_then(Value::as_str);
        let session = self.session;
        let told = |error: SessionError| error.to_string();
        let response = match subtype {
            Some("interrupt") => session.interrupt().await.map_err(told).map(|()| json!({})),
            Some("initialize") => self.initialize(request).await,
            Some("set_permission_mode") => {
                let mode = request.get("mode").and_then(Value::as_str);
                let mode = mode.unwrap_or_default().parse::<Mode>();
                mode.map_err(|error| error.to_string()).and_then(|mode| {
                    control::set_mode(mode, self.may_bypass, session)?;
                    Ok(json!({ "mode": mode.name() }))
                })
            }
            Some("set_model") => {
                let model = request.get("model").and_then(Value::as_str);
                let model = model.unwrap_or(self.model).to_owned();
                let set = session.set_model(model, None, None).await;
                set.map_err(told).map(|()| json!({}))
            }
            Some(other) => Err(format!(
                "control requests of subtype {other:?} are not known here"
            )),
            None => Err("a control request needs a \"subtype\"".into()),
        };
        self.respond(match response {
            Ok(response) => json!({ "subtype": "success", "request_id": id, "response": response }),
            Err(error) => {
                json!({ "subtype": "error", "request_id": id, "error": error })
            }
        })
        .await;
    }

    /// Answers `initialize`. What it asks for holds already if it was the first line.
    async fn initialize(&mut self, request: &Value) -> Result<Value, String> {
        let asked = Initialize::parse(request).and_then(|asked| {
            if self.initialize.covers(&asked) {
                return Ok(asked);
            }
            Err("initialize can shape the session only as the first line of standard input".into())
        });
        let asked = match asked {
            Ok(asked) => asked,
            Err(problem) => {
                self.refused.get_or_insert_with(|| problem.clone());
                return Err(problem);
            }
        };
        for words in asked.warnings {
            self.event(Event::Warning(words)).await;
        }
        let mut response = json!({
            "commands": [],
            "agents": [],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": [{
                "value": self.model,
                "displayName": self.model,
                "description": "the model of this run",
            }],
            "account": {},
            "pid": std::process::id(),
            "hook_on_failure_supported": true,
        });
        if let (false, Value::Object(fields)) = (asked.hooks.is_empty(), &mut response) {
            fields.insert("hooks_applied".into(), true.into());
        }
        Ok(response)
    }

    async fn respond(&mut self, response: Value) {
        let record = self.records.control_response(response);
        self.output.record(&record).await;
    }
}
