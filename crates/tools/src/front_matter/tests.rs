use super::*;

fn read(text: &str) -> FrontMatter {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn refused(text: &str) -> String {
    match parse(text.as_bytes()) {
        Ok(read) => panic!("{text:?} is taken: {read:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn texts_are_read_in_every_style() {
    for (yaml, expected) in [
        ("key: some words", Some("some words")),
        ("key: 'it''s'", Some("it's")),
        (r#"key: "a\tb""#, Some("a\tb")),
        ("key: |\n  one\n  two\n", Some("one\ntwo\n")),
        ("key: |-\n  one\n   two\n", Some("one\n two")),
        (
            "key: >\n  one\n  two\n\n  three\n",
            Some("one two\nthree\n"),
        ),
        ("key: >-\n  one\n  two", Some("one two")),
        ("key: one\n  two", Some("one two")),
        ("key: 1.20", Some("1.20")),
        ("key: true", Some("true")),
        ("key: \"\"", Some("")),
        ("key:", None),
        ("key: ~", None),
        ("key: null", None),
        ("other: x", None),
        ("# a remark\nkey: x # another", Some("x")),
        ("key: *emphasis*", Some("*emphasis*")),
        ("key: Use when: asked", Some("Use when: asked")),
        ("key: don't: it's", Some("don't: it's")),
        ("key: [file] [line]", Some("[file] [line]")),
        ("key: @file", Some("@file")),
        ("key: x\nother: a: b", Some("x")),
        ("", None),
        ("# nothing", None),
    ] {
        let file = read(&format!("---\n{yaml}\n---\nbody"));
        assert_eq!(file.text("key").unwrap(), expected, "{yaml}");
        assert_eq!(file.body, "body", "{yaml}");
    }
}

#[test]
fn lists_and_flags() {
    let names = |yaml: &str| read(&format!("---\n{yaml}\n---\n")).names("key").unwrap();
    let list = |names: &[&str]| {
        Some(
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(names("key: [a, \"b c\"]"), list(&["a", "b c"]));
    assert_eq!(names("key:\n  - a\n  - b"), list(&["a", "b"]));
    assert_eq!(names("key:\n- a\n- b"), list(&["a", "b"]));
    assert_eq!(
        names("key: Read, Bash(git add:*, x), Grep"),
        list(&["Read", "Bash(git add:*, x)", "Grep"])
    );
    assert_eq!(
        names("key: Bash(git add:*) Read"),
        list(&["Bash(git add:*)", "Read"])
    );
    assert_eq!(names("key: Read"), list(&["Read"]));
    assert_eq!(names("key:"), None);
    assert_eq!(names("key: []"), list(&[]));
    let flag = |yaml: &str| read(&format!("---\n{yaml}\n---\n")).flag("key");
    assert_eq!(flag("key: true"), Ok(Some(true)));
    assert_eq!(flag("key: \"False\""), Ok(Some(false)));
    assert_eq!(flag("key:"), Ok(None));
    let error = flag("other: x\nkey: perhaps").unwrap_err();
    assert_eq!(error.to_string(), "line 3: `key` has to be true or false");
    let error = read("---\nkey: {a: b}\n---\n").names("key").unwrap_err();
    assert_eq!(error.to_string(), "line 2: `key` has to be a list of names");
    let error = read("---\nkey: [a]\n---\n").text("key").unwrap_err();
    assert_eq!(error.to_string(), "line 2: `key` has to be a text");
    let hint = read("---\nkey: [file, \"b\"]   # hint\n---\n");
    assert_eq!(hint.as_written("key"), Ok(Some("[file, \"b\"]")));
}

#[test]
fn marks_ends_of_lines_and_lines() {
    let file =
        parse(b"\xef\xbb\xbf---\r\na: |\r\n  x\r\n  y\r\nb: z\r\n---  \r\none\r\ntwo").unwrap();
    assert_eq!(file.text("a").unwrap(), Some("x\ny\n"));
    assert_eq!(file.field("b").map(|field| field.line), Some(5));
    assert_eq!((file.body.as_str(), file.body_line), ("one\ntwo", 7));
    for all_body in [
        "",
        "---",
        "text\n---\na: b\n---\n",
        "----\na: b\n---\n",
        " ---\na: b\n---\n",
    ] {
        let file = read(all_body);
        assert_eq!(
            (file.fields.len(), file.body.as_str(), file.body_line),
            (0, all_body, 1)
        );
    }
    // A mark within a block is none.
    let file = read("---\na: |\n  ---\n  x\n---\nbody");
    assert_eq!(file.text("a").unwrap(), Some("---\nx\n"));
    let nested = read("---\nhooks:\n  stop:\n    - run: x\nname: y\n---\n");
    assert_eq!(nested.text("name").unwrap(), Some("y"));
    assert_eq!(nested.field("name").map(|field| field.line), Some(5));
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, expected) in [
        (
            "---\na: b\n",
            "line 1: no second line `---` ends the front matter",
        ),
        (
            "---\na: b\na: c\n---\n",
            "line 3: the key `a` is there twice",
        ),
        (
            "---\nx: {a: b, a: c}\n---\n",
            "line 2: the key `a` is there twice",
        ),
        (
            "---\n- a\n---\n",
            "line 2: the front matter has to be fields, `key: value`",
        ),
        (
            "---\nwords\n---\n",
            "line 2: the front matter has to be fields, `key: value`",
        ),
        (
            "---\na: b\n...\nc: d\n---\n",
            "line 4: a second YAML document begins",
        ),
        (
            "---\na: &x [1]\nb: *x\n---\n",
            "line 3: aliases are not taken",
        ),
        ("---\n? [a]\n: b\n---\n", "line 2: a key has to be a text"),
    ] {
        assert_eq!(refused(text), expected, "{text:?}");
    }
    for (text, line) in [
        ("---\nok: x\nb:\n\t- tab\n---\n", "line 4: "),
        ("---\nok: x\nb: 'open\n---\n", "line 3: "),
        ("---\nok: x\n  b: {\n---\n", "line "),
        ("---\na: \"\\q\"\n  more\n---\n", "line 2: "),
        ("---\n%YAML 1.2\n---\n", "line 2: "),
    ] {
        let said = refused(text);
        assert!(said.starts_with(line), "{text:?}: {said}");
    }
    assert_eq!(
        parse(b"---\na: b\n\xff\n---\n").unwrap_err().to_string(),
        "line 3: the file is not UTF-8 text"
    );
}

#[test]
fn bombs_are_refused_in_no_more_than_their_size() {
    let deep = |open: &str, times: usize| format!("---\na: {}\n---\n", open.repeat(times));
    let mut bomb = String::from("---\na0: &a0 [x, x]\n");
    for level in 1..40 {
        bomb.push_str(&format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1));
    }
    bomb.push_str("---\n");
    let mut steps = String::from("---\n");
    for level in 0..200 {
        steps.push_str(&format!("{}a:\n", " ".repeat(level)));
    }
    steps.push_str("---\n");
    let lists = format!("---\na:\n {}x\n---\n", "- ".repeat(30_000));
    for text in [
        deep("[", 60_000),
        deep("{a: ", 15_000),
        deep("[{", 30_000),
        bomb,
        steps,
        lists,
        format!("---\n{}---\n", "? ".repeat(30_000)),
        "---\n{---\n---\n".to_owned(),
        format!("---\na: {}", "x".repeat(MAX_BYTES + 1)),
        format!("---\n{}\n---\n", "a: b\n".repeat(MAX_BYTES)),
    ] {
        refused(&text);
    }
    let closed = format!("---\na: {}{}\n---\n", "[".repeat(10), "]".repeat(10));
    assert_eq!(
        refused(&closed),
        "line 2: lists and mappings are more than 8 deep"
    );
    // Much, but nothing wrong with it.
    let many: String = (0..5_000)
        .map(|number| format!("k{number}: v: w\n"))
        .collect();
    assert_eq!(read(&format!("---\n{many}---\n")).fields.len(), 5_000);
}

proptest::proptest! {
    #[test]
    fn any_text_is_answered(text in "(---\n)?[-a:b \\[\\]{},&*!|>'\"%@`#?~\n\t\r\\\\é]{0,120}(\n---\n)?.{0,10}") {
        if let Ok(file) = parse(text.as_bytes()) {
            for field in &file.fields {
                proptest::prop_assert!(field.line >= 2);
            }
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let mut file = b"---\n".to_vec();
        file.extend(bytes);
        file.extend(b"\n---\n");
        drop(parse(&file));
    }

    #[test]
    fn a_quoted_text_comes_back(value in "[^\u{0}-\u{1f}\u{7f}-\u{9f}\u{fffe}\u{ffff}\u{feff}\u{2028}\u{2029}]{1,40}") {
        let text = format!("---\nkey: '{}'\n---\n", value.replace('\'', "''"));
        let file = parse(text.as_bytes());
        proptest::prop_assert_eq!(file.and_then(|file| file.text("key").map(|text| text.map(str::to_owned))), Ok(Some(value)));
    }
}
