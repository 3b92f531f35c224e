//! Model servers on this machine.

use futures_util::future::join_all;
use serde_json::json;
use tooloop::provider::{LOCAL_SERVERS, detect_local};

use super::report::Check;

/// Asks at the usual ports, all at once. Each has 300 ms.
pub(super) async fn check() -> (Check, bool) {
    let asked = LOCAL_SERVERS.iter().map(|server| async move {
        let found = detect_local(std::slice::from_ref(server)).await;
        found.map(|(_, model)| (server, model))
    });
    let found: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
    let ports: Vec<_> = LOCAL_SERVERS
        .iter()
        .map(|server| server.port.to_string())
        .collect();
    if found.is_empty() {
        let text = format!("none answers on port {}", ports.join(", "));
        let check = Check::ok("local servers", text).with(json!({"servers": []}));
        return (check, false);
    }
    let told: Vec<_> = found
        .iter()
        .map(|(server, model)| format!("port {} has {model}", server.port))
        .collect();
    let servers: Vec<_> = found
        .iter()
        .map(|(server, model)| json!({"port": server.port, "model": model}))
        .collect();
    let check = Check::ok("local servers", told.join("; ")).with(json!({"servers": servers}));
    (check, true)
}
