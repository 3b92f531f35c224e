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
use tooloop_tools::{
    ApplyPatch, Bash, BashSettings, Edit, Glob, Grep, JobOutput, JobStop, LocalOps, Ops, Read,
    SearchSettings, Terminal, TerminalSettings, Todo, WebFetch, WebFetchSettings, Write,
};

async fn conforms(tool: &dyn DynTool, samples: &[Sample]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    fs::write(folder.join("a.txt"), "one\ntwo\n").unwrap();
    let checked = check(tool, &folder, samples).await;
    assert_eq!(checked, Ok(()));
}

fn ops() -> Arc<dyn Ops> {
    Arc::new(LocalOps::new(Processes::new().unwrap()))
}

fn bash(spool: &Path) -> Bash {
    let environment = Environment::of_this_process(&EnvironmentRules::default());
    let mut settings = BashSettings::new(ops(), environment);
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
async fn apply_patch_conforms() {
    let patch = |text: &str| serde_json::json!({ "patch": text }).to_string();
    let samples = [
        Sample::run(patch(
            "*** Begin Patch\n*** Add File: d/new\n+x\n*** Update File: a.txt\n@@\n-one\n+1\n\
             *** End Patch\n",
        )),
        Sample::run(patch(
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n 1\n-two\n+2\n",
        )),
        Sample::run(patch("--- gone\n+++ gone\n@@\n-a\n+b\n")),
        Sample::run(patch("no patch")),
        Sample::cancel(patch(
            "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n",
        )),
    ];
    conforms(&*tool(ApplyPatch::new(ops())), &samples).await;
}

#[tokio::test]
async fn edit_conforms() {
    let samples = [
        Sample::run(r#"{"path":"a.txt","old":"one","new":"1"}"#),
        Sample::run(r#"{"path":"a.txt","old":"t","new":"T","all":true}"#),
        Sample::run(r#"{"path":"a.txt","old":"three","new":"3"}"#),
        Sample::cancel(r#"{"path":"a.txt","old":"1","new":"one"}"#),
        Sample::ask(r#"{"path":"/etc/hosts","old":"a","new":"b"}"#),
    ];
    conforms(&*tool(Edit::new(ops())), &samples).await;
}

#[tokio::test]
async fn glob_conforms() {
    let samples = [
        Sample::run(r#"{"pattern":"*.txt"}"#),
        Sample::run(r#"{"pattern":"**","path":".","all":true}"#),
        Sample::run(r#"{"pattern":"nothing","path":"missing"}"#),
        Sample::run(r#"{"pattern":"["}"#),
        Sample::cancel(r#"{"pattern":"/usr/**/*.conf"}"#),
    ];
    conforms(&*tool(Glob::new(SearchSettings::default())), &samples).await;
}

#[tokio::test]
async fn grep_conforms() {
    let samples = [
        Sample::run(r#"{"pattern":"t.o"}"#),
        Sample::run(r#"{"pattern":"ONE","ignore_case":true,"mode":"count","glob":"*.txt"}"#),
        Sample::run(r#"{"pattern":"e\nt","multiline":true,"context":1,"limit":1,"all":true}"#),
        Sample::run(r#"{"pattern":"(","path":"a.txt"}"#),
        Sample::cancel(r#"{"pattern":"surely (not|never) here","path":"/usr"}"#),
    ];
    conforms(&*tool(Grep::new(SearchSettings::default())), &samples).await;
}

#[tokio::test]
async fn job_output_conforms() {
    let samples = [
        Sample::run(r#"{"id":"job_1"}"#),
        Sample::run(r#"{"id":"job_1","wait_ms":1}"#),
    ];
    conforms(&*tool(JobOutput::new()), &samples).await;
}

#[tokio::test]
async fn job_stop_conforms() {
    let samples = [Sample::run(r#"{"id":"job_1"}"#)];
    conforms(&*tool(JobStop::new()), &samples).await;
}

#[tokio::test]
async fn read_conforms() {
    let samples = [
        Sample::run(r#"{"path":"a.txt"}"#),
        Sample::run(r#"{"path":"a.txt","offset":-1,"limit":1}"#),
        Sample::run(r#"{"path":"."}"#),
        Sample::run(r#"{"path":"a.txt","offset":9}"#),
        Sample::run(r#"{"path":"missing.txt"}"#),
        Sample::run(r#"{"path":"/dev/zero"}"#),
        Sample::cancel(r#"{"path":"/proc/kallsyms","offset":-5}"#),
    ];
    conforms(&*tool(Read::new(ops())), &samples).await;
}

#[tokio::test]
async fn terminal_conforms() {
    let environment = Environment::of_this_process(&EnvironmentRules::default());
    let terminal = Terminal::new(TerminalSettings::new(ops(), environment));
    let samples = [
        Sample::run(r#"{"action":"start","command":"echo x","rows":10,"cols":40}"#),
        Sample::run(r#"{"action":"read","id":"term_1","wait_ms":1}"#),
        Sample::run(r#"{"action":"send","id":"term_1","input":"x","keys":["enter"]}"#),
        Sample::run(r#"{"action":"stop","id":"term_1"}"#),
        Sample::cancel(r#"{"action":"start","command":"sleep 500","wait_ms":60000}"#),
    ];
    conforms(&*tool(terminal), &samples).await;
}

#[tokio::test]
async fn write_conforms() {
    let samples = [
        Sample::run(r#"{"path":"d/b.txt","content":"x\n"}"#),
        Sample::run(r#"{"path":"a.txt","content":"not read before"}"#),
        Sample::cancel(r#"{"path":"c.txt","content":"x"}"#),
        Sample::ask(r#"{"path":"/etc/hosts","content":""}"#),
    ];
    conforms(&*tool(Write::new(ops())), &samples).await;
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
