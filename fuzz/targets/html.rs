//! Any bytes as the body of a page.
//!
//! Input: a line with the content type; the body.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tooloop_model::Content;
use tooloop_tools::{WebUrl, page_output};

static URL: LazyLock<WebUrl> =
    LazyLock::new(|| WebUrl::parse("https://docs.test/guide/start.html").expect("a URL"));

fuzz_target!(|data: &[u8]| {
    let mut pieces = data.splitn(2, |byte| *byte == b'\n');
    let (Some(kind), Some(body)) = (pieces.next(), pieces.next()) else {
        return;
    };
    let output = page_output(&URL, &String::from_utf8_lossy(kind), body.to_vec());
    let Some(Content::Text(text)) = output.content.first() else {
        panic!("{output:?}");
    };
    let characters = text.chars().count();
    assert!(characters <= 50_200, "{characters} characters");
});
