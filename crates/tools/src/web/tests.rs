//! Pages as they stand on the web, and what becomes of them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use super::client::Answer;
use super::html::{Converted, convert};
use super::location::WebUrl;
use super::page;

fn converted(page: &str) -> Converted {
    let url: Url = "https://docs.test/guide/start.html".parse().unwrap();
    convert(page, &url, &CancellationToken::new()).unwrap()
}

fn text(page: &str) -> String {
    converted(page).text
}

/// A guide with code, tables and navigation; a reference made of definitions; an article with
/// loose tags; a page from before style sheets.
#[test]
fn pages_as_models_meet_them() {
    for name in ["guide", "reference", "article", "layout"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web/pages");
        let page = fs::read_to_string(folder.join(format!("{name}.html"))).unwrap();
        let expected = fs::read_to_string(folder.join(format!("{name}.md"))).unwrap();
        let Converted { title, text, cut } = converted(&page);
        assert!(!cut);
        assert_eq!(format!("title: {title}\n\n{text}\n"), expected, "{name}");
    }
}

#[test]
fn pieces_of_pages() {
    let table = [
        ("", ""),
        (
            "a&nbsp;b &amp;amp; &#x263a; &nosuch;",
            "a b &amp; ☺ &nosuch;",
        ),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<div>one</div>two<span> three</span>", "one\n\ntwo three"),
        ("a<br><br>b", "a\nb"),
        ("<b> a </b>b", "**a** b"),
        ("<b></b><i> </i>x", "x"),
        ("<h2>a<br>b</h2>c", "## a b\n\nc"),
        ("<a href='x y'>z</a>", "[z](https://docs.test/guide/x%20y)"),
        ("<a href='/a(1)'>z</a>", "[z](https://docs.test/a%281%29)"),
        ("<a href='#top'>top</a><a href='#s'>§</a>", "top"),
        ("<a href='data:x'>z</a> <a href='http://['>y</a>", "z y"),
        (
            "<a href=/1>a<a href=/2>b",
            "[a](https://docs.test/1)[b](https://docs.test/2)",
        ),
        (
            "<base href='https://b.test/d/'><a href=e>f</a>",
            "[f](https://b.test/d/e)",
        ),
        (
            "<base href=/d/><base href=http://[><a href=e>f</a>",
            "[f](https://docs.test/d/e)",
        ),
        (
            "<a href=/x><img alt=logo src=y></a>",
            "[logo](https://docs.test/x)",
        ),
        ("<img alt='a\nb' src='data:image/png;base64,AA'>", "a b"),
        (
            "x<script>var a = '<p>';</script>y<style>p{}</style>z",
            "xyz",
        ),
        ("x<svg><title>t</title><p>no</p></svg>y<svg/>z", "xyz"),
        ("<noscript>no <b>no</b></noscript>yes", "yes"),
        (
            "<p hidden>shown</p><div hidden>no<div>no</div></div>yes",
            "shown\n\nyes",
        ),
        ("<!-- no <p> -->yes<!-- open", "yes"),
        (
            "<code>a</code> <code> </code> <code>`</code>",
            "`a` `` ` ``",
        ),
        ("<pre>\n a\n\n  b\n</pre>", "```\n a\n\n  b\n```"),
        (
            "<pre><div>a</div><div>b</div><br><br>c</pre>",
            "```\na\nb\n\n\nc\n```",
        ),
        ("<pre class='language-rust'>x</pre>", "```rust\nx\n```"),
        ("<pre class='language-a\"b'>x</pre>", "```\nx\n```"),
        ("<ol start=9><li>a<li>b<p>c</ol>", "9. a\n10. b\n\n    c"),
        ("<ul><li><ul><li>a</ul><li></li><li>b</ul>", "- - a\n- b"),
        (
            "<blockquote>a<blockquote>b</blockquote></blockquote>",
            "> a\n>\n> > b",
        ),
        ("<dl><dt>a<dd>b<dt>c</dl>", "a\n\n: b\n\nc"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<tt>one<p>two", "one\n\ntwo"),
        ("<q>a</q>", "\"a\""),
        ("soft\u{ad}hyphen zero\u{200b}width", "softhyphen zerowidth"),
        ("<td>a</td><li>b", "a\n\n- b"),
        (
            "<table><td>a<td>b<tr><td>c",
            "| a | b |\n| --- | --- |\n| c |",
        ),
        ("<table><tr><td>a</table>", "a"),
        ("<table></table>", ""),
        ("<table><tr><td><p>a<p>b</td><td>c</table>", "a\n\nb\n\nc"),
        ("</div></p></table>x</b>", "x"),
        ("<div><p>a</div>b", "a\n\nb"),
        ("<p><a href=/x>a</p>b", "[a](https://docs.test/x)\n\nb"),
        ("<h1><a href=/x>a</a></h1>", "# [a](https://docs.test/x)"),
        ("<option>a<option>b", "a\n\nb"),
        ("< p>5 < 6 & 7", "< p>5 < 6 & 7"),
    ];
    let wrong: Vec<_> = table
        .into_iter()
        .map(|(page, expected)| (page, text(page), expected))
        .filter(|(_, found, expected)| found != expected)
        .collect();
    assert!(wrong.is_empty(), "page, found, expected: {wrong:#?}");
}

#[test]
fn the_main_part_comes_first_if_it_is_one() {
    let long = "word ".repeat(60);
    let long = long.trim();
    assert_eq!(
        text(&format!(
            "<nav>menu</nav><main>{long}</main><footer>end</footer>"
        )),
        format!("{long}\n\n---\n(the rest of the page)\n\nmenu\n\nend")
    );
    assert_eq!(text(&format!("<main>{long}</main>")), long);
    assert_eq!(text("menu<main>short</main>end"), "menu\n\nshort\n\nend");
}

/// Pages that are made to take long or to go deep. Each is a quarter of a megabyte or more; that the test ends
/// is the test.
#[test]
fn pages_of_ill_will() {
    let often = |piece: &str| piece.repeat((1 << 18) / piece.len());
    let numbered = |piece: fn(usize) -> String| (0..10_000).map(piece).collect::<String>();
    let pages = [
        often("<div>"),
        often("<b>"),
        often("<b>x</b>"),
        often("<span>x</span>"),
        often("<p><b>"),
        often("<ul><li>x"),
        often("<blockquote>x<br>"),
        often("<table>"),
        often("<table><tr><td>x"),
        often("<td>"),
        format!("<table><tr>{}", often("<td>x")),
        format!("<table>{}", often("<tr><td>x<td>y")),
        format!(
            "<table><tr><td>{}{}",
            "x".repeat(100_000),
            often("<tr><td>y<td>z")
        ),
        often("<pre>"),
        often("<svg>"),
        often("</div>"),
        often("<a href=x>"),
        format!(
            "<base href='https://a.test/{}/'>{}",
            "b".repeat(900),
            often("<a href=x>y</a>")
        ),
        often("<"),
        often("&"),
        often("&#"),
        often("`"),
        format!("<code>{}", often("`")),
        often("<!--"),
        often("\u{0}"),
        format!("<p {}>x", numbered(|number| format!("a{number}=b "))),
        numbered(|number| format!("<p><font color={number}>x")),
        numbered(|number| format!("<x{number}>x")),
        format!("<title>{}", often("x ")),
        format!("{}x{}", "<div>".repeat(50_000), "</div>".repeat(50_000)),
    ];
    for page in pages {
        let start: String = page.chars().take(30).collect();
        let Converted { title, text, .. } = converted(&page);
        assert!(title.len() <= 300 * 4, "{start}");
        assert!(
            text.len() <= (8 << 20) + (2 << 20),
            "{start}: {}",
            text.len()
        );
    }
}

#[test]
fn deep_pages_keep_their_words() {
    let page = format!(
        "{}deep{}flat",
        "<div>".repeat(5_000),
        "</div>".repeat(5_000)
    );
    assert_eq!(text(&page), "deep\n\nflat");
    let page = format!("{}deep", "<table><tr><td>".repeat(500));
    assert_eq!(text(&page), "deep");
}

#[test]
fn what_is_too_long_is_cut() {
    let base = format!("<base href='https://a.test/{}/'>", "b".repeat(900));
    let page = format!("{base}{}", "<a href=x>y</a> ".repeat(20_000));
    let Converted { text, cut, .. } = converted(&page);
    assert!(cut);
    assert!(text.len() < 9 << 20, "{}", text.len());
}

#[test]
fn a_cancelled_conversion_stops() {
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let url: Url = "https://docs.test/".parse().unwrap();
    assert_eq!(convert("<p>x", &url, &cancelled), None);
}

proptest! {
    #[test]
    fn no_url_is_too_odd(text in ".{0,60}", scheme in "(https?:/{0,3})?") {
        drop(WebUrl::parse(&text));
        drop(WebUrl::parse(&format!("{scheme}{text}")));
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0..4_usize) {
        let kinds = ["text/html", "", "image/png", "text/html; charset=utf-16le"];
        let answer = Answer {
            url: "https://a.test/".parse().unwrap(),
            status: 200,
            content_type: kinds[kind].into(),
            body: bytes,
            cut: kind == 1,
        };
        let page = page::read(&answer, &CancellationToken::new()).unwrap();
        prop_assert!(!page.text.trim().is_empty() || page.image.is_some());
    }

    /// Tags in any order, with words that must all be there in the end.
    #[test]
    fn no_soup_of_tags_is_too_odd(pieces in proptest::collection::vec((0..40_usize, any::<bool>(), "[a-z]{1,5}"), 0..60)) {
        const NAMES: [&str; 40] = [
            "p", "div", "b", "i", "a href=/x", "a href=#y", "code", "pre", "ul", "ol", "li", "dl",
            "dt", "dd", "table", "tr", "td", "th", "thead", "tbody", "caption", "blockquote", "h1",
            "h2", "br", "hr", "img alt=z", "main", "section", "span", "q", "del", "tt", "body",
            "html", "label", "figure", "summary", "center", "xmp",
        ];
        let mut page = String::new();
        let mut words = Vec::new();
        for (number, (name, ends, word)) in pieces.into_iter().enumerate() {
            let name = NAMES[name];
            let name = if ends { name.split(' ').next().unwrap() } else { name };
            let slash = if ends { "/" } else { "" };
            let word = format!("{word}{number}w");
            page.push_str(&format!("<{slash}{name}>{word}"));
            words.push(word);
        }
        // The text in it is not read as tags, on purpose.
        prop_assume!(!page.contains("<xmp>"));
        let found = converted(&page).text;
        for word in words {
            prop_assert!(found.contains(&word), "{word} of {page} is not in {found}");
        }
    }
}
