//! What a headless run does about the program at its other end: its requests, and the questions
//! that it answers.

use serde_json::{Value, json};
use tooloop::{Mode, SessionError};

use super::turns::Run;
use crate::control::{self, ToHost};

impl Run<'_> {
    /// Asks the host what has come up, and takes back what is void.
    pub(super) async fn tell_host(&mut self) {
        let Some(host) = &mut self.host else { return };
        for message in host.news() {
            let record = match message {
                ToHost::Request(id, body) => self.records.control_request(&id, body),
                ToHost::Cancel(id) => self.records.control_cancel(&id),
            };
            self.output.record(&record).await;
        }
    }

    /// Somebody answers a question. Gives back what a person should know about it.
    pub(super) fn answered(&mut self, response: &Value) -> Vec<String> {
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
            Some("initialize") => match control::not_initialized(request) {
                None => Ok(json!({
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
                })),
                Some(problem) => Err(problem),
            },
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

    async fn respond(&mut self, response: Value) {
        let record = self.records.control_response(response);
        self.output.record(&record).await;
    }
}
