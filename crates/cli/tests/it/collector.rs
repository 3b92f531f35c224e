//! A collector that takes traces, and what it was sent. Shared with the tests at a terminal.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

/// A collector on a free port of this machine. It ends, with its thread, when it is dropped.
pub(crate) struct Collector {
    address: std::net::SocketAddr,
    got: Arc<Mutex<Vec<Post>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
pub(crate) struct Post {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// Answers with this status.
    Answers(u16),
    /// Takes what comes and never answers.
    Hangs,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (got, over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (got, over) = (Arc::clone(&got), Arc::clone(&over));
            move || serve(&listener, manner, &got, &over)
        });
        Self {
            address,
            got,
            over,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn posts(&self) -> Vec<Post> {
        self.got.lock().unwrap().clone()
    }

    /// All spans that came in JSON, by name in the order of their ends.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let posts = self.posts();
        let spans = posts.iter().flat_map(|post| {
            let request: Value = serde_json::from_slice(&post.body).unwrap();
            let spans = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans
                .as_array()
                .unwrap()
                .iter()
                .cloned()
                .map(Span)
                .collect::<Vec<_>>()
        });
        spans.collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes the thread up.
        drop(TcpStream::connect(self.address));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn serve(listener: &TcpListener, manner: Manner, got: &Mutex<Vec<Post>>, over: &AtomicBool) {
    for stream in listener.incoming() {
        if over.load(Ordering::Acquire) {
            return;
        }
        let mut stream = stream.unwrap();
        let Some(post) = read(&mut stream) else {
            continue;
        };
        got.lock().unwrap().push(post);
        match manner {
            Manner::Answers(status) => {
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
                );
                drop(stream.write_all(answer.as_bytes()));
            }
            // Until the other side has gone.
            Manner::Hangs => drop(stream.read(&mut [0; 1])),
        }
    }
}

fn read(stream: &mut TcpStream) -> Option<Post> {
    let (mut head, mut byte) = (Vec::new(), [0; 1]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1)?.lines().next()?;
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some(Post { head, body })
}

#[derive(Debug, Clone)]
pub(crate) struct Span(pub(crate) Value);

impl Span {
    pub(crate) fn name(&self) -> &str {
        self.0["name"].as_str().unwrap()
    }

    pub(crate) fn id(&self) -> &str {
        self.0["spanId"].as_str().unwrap()
    }

    pub(crate) fn parent(&self) -> Option<&str> {
        self.0["parentSpanId"].as_str()
    }

    pub(crate) fn attributes(&self) -> BTreeMap<String, String> {
        attributes(&self.0["attributes"])
    }

    pub(crate) fn get(&self, name: &str) -> String {
        let all = self.attributes();
        let found = all.get(name).cloned();
        found.unwrap_or_else(|| panic!("{name} is not among {all:#?}"))
    }

    pub(crate) fn events(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let events = self.0["events"].as_array().unwrap().iter();
        events
            .map(|event| {
                let name = event["name"].as_str().unwrap().to_owned();
                (name, attributes(&event["attributes"]))
            })
            .collect()
    }

    pub(crate) fn failed(&self) -> bool {
        self.0["status"]["code"] == 2
    }
}

/// Values as text; those of lists joined.
pub(crate) fn attributes(list: &Value) -> BTreeMap<String, String> {
    let value = |value: &Value| {
        let (_, value) = value.as_object().unwrap().iter().next().unwrap();
        match value {
            Value::String(text) => text.clone(),
            Value::Object(_) => value["values"][0]["stringValue"]
                .as_str()
                .unwrap()
                .to_owned(),
            other => other.to_string(),
        }
    };
    let pairs = list.as_array().unwrap().iter();
    pairs
        .map(|pair| {
            (
                pair["key"].as_str().unwrap().to_owned(),
                value(&pair["value"]),
            )
        })
        .collect()
}

/// The tree, a line a span, indented by depth; children in the order of their beginning.
pub(crate) fn tree(spans: &[Span]) -> String {
    fn below(spans: &[Span], parent: Option<&str>, depth: usize, out: &mut String) {
        let known = |id: &str| spans.iter().any(|span| span.id() == id);
        let mut children: Vec<_> = spans
            .iter()
            .filter(|span| span.parent().filter(|id| known(id)) == parent)
            .collect();
        children.sort_by_key(|span| {
            span.0["startTimeUnixNano"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        });
        for child in children {
            out.push_str(&format!("{}{}\n", "  ".repeat(depth), child.name()));
            below(spans, Some(child.id()), depth + 1, out);
        }
    }
    let mut out = String::new();
    below(spans, None, 0, &mut out);
    out
}
