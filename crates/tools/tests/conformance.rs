//! The tools that tooloop brings, held to what is asked of everybody's.

#![expect(clippy::unwrap_used, reason = "shared test code may panic")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tooloop_exec::{Environment, EnvironmentRules, Processes};
use tooloop_tool::conformance::{Sample, check};
use tooloop_tool::{DynTool, tool};
use tooloop_tools::{Bash, BashSettings, LocalOps, Todo, WebFetch, WebFetchSettings};

async fn conforms(tool: &dyn DynTool, samples: &[Sample]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    fs::write(folder.join("a.txt"), "one\ntwo\n").unwrap();
    let checked = check(tool, &folder, samples).await;
    assert_eq!(checked, Ok(()));
}

fn bash(spool: &Path) -> Bash {
    let processes = Processes::new().unwrap();
    let environment = Environment::of_this_process(&EnvironmentRules::default());
    let mut settings = BashSettings::new(Arc::new(LocalOps::new(processes)), environment);
    settings.spool_folder = spool.to_owned();
    Bash::new(settings)
}

#[tokio::test]
async fn bash_conforms() {
    let spool = tempfile::tempdir().unwrap();
    let samples = [
        Sample::run(r#"{"command":"cat a.txt"}"#),
        Sample::run(r#"{"command":"ls nothing","description":"a failure"}"#),
        Sample::run(r#"{"command":"cd / && echo x > /dev/null","timeout_ms":60000}"#),
        Sample::run(r#"{"command":"echo new > b.txt"}"#),
        Sample::cancel(r#"{"command":"sleep 500"}"#),
    ];
    conforms(&*tool(bash(spool.path())), &samples).await;
}

#[tokio::test]
async fn todo_conforms() {
    let samples = [
        Sample::run(r#"{"items":[{"content":"a","status":"pending"}]}"#),
        Sample::run(r#"{"items":[]}"#),
        Sample::run(r#"{"items":[{"content":" ","status":"completed"}]}"#),
    ];
    conforms(&*tool(Todo::new()), &samples).await;
}

#[tokio::test]
async fn web_fetch_conforms() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let mut silent = Vec::new();
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = socket.read(&mut request).await.unwrap();
            if request[..length].starts_with(b"GET /silent") {
                silent.push(socket);
                continue;
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\
                           connection: close\r\n\r\nok";
            drop(socket.write_all(answer).await);
        }
    });
    let fetcher = WebFetch::new(WebFetchSettings {
        private_hosts: vec![format!("127.0.0.1:{port}")],
        ..WebFetchSettings::default()
    });
    let url = |path: &str| format!(r#"{{"url":"http://127.0.0.1:{port}/{path}"}}"#);
    let samples = [
        Sample::run(url("page")),
        Sample::run(r#"{"url":"http://169.254.169.254/","offset":1}"#),
        Sample::cancel(url("silent")),
        Sample::ask(r#"{"url":"https://example.com"}"#),
    ];
    conforms(&*tool(fetcher), &samples).await;
    server.abort();
}
