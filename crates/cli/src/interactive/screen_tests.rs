//! Frames, played to a small terminal.

use super::*;
use crate::interactive::paint::{Style, gap, line};
use crate::interactive::terminal_double::Double;

fn live(rows: &[&str]) -> Live {
    Live {
        rows: rows.iter().map(|row| Line::new(Style::Dim, *row)).collect(),
        cursor: None,
    }
}

fn text(text: &str) -> Out {
    Out::Text(text.into())
}

fn screen(columns: u16, rows: u16) -> (Screen, Double) {
    (
        Screen::new(columns, rows, true),
        Double::new(columns.into(), rows.into()),
    )
}

#[test]
fn text_grows_above_the_live_row() {
    let (mut screen, mut double) = screen(20, 6);
    double.play(&screen.frame(&[text("Hel")], live(&["working"])));
    assert_eq!(double.text(), "Hel\nworking");
    double.play(&screen.frame(&[text("lo.\nNext")], live(&["working"])));
    assert_eq!(double.text(), "Hello.\nNext\nworking");
    double.play(&screen.frame(&[line(Style::Plain, "● bash")], live(&["bash"])));
    assert_eq!(double.text(), "Hello.\nNext\n● bash\nbash");
    double.play(&screen.finish(&[gap(), line(Style::Dim, "done")]));
    assert_eq!(double.text(), "Hello.\nNext\n● bash\n\ndone");
    assert_eq!(double.cursor(), (5, 0));
}

#[test]
fn any_pieces_give_the_same_scrollback() {
    let words = "The quick brown fox, 日本語の文章はここで折り返される and a very-long-word-without-\
                 any-blank-in-it, then\n```\nlet code = \"is not wrapped at blanks, ever\";\n```\n\
                 \n  * item one of the list that is long\nend";
    let whole = {
        let (mut screen, mut double) = screen(20, 6);
        double.play(&screen.finish(&[text(words)]));
        double.text()
    };
    for size in 1..30 {
        let (mut screen, mut double) = screen(20, 6);
        let characters: Vec<char> = words.chars().collect();
        for piece in characters.chunks(size) {
            let piece: String = piece.iter().collect();
            double.play(&screen.frame(&[Out::Text(piece)], live(&["one", "two"])));
            let shown = double.text();
            assert!(shown.ends_with("one\ntwo"), "{size}: {shown}");
            assert_eq!(shown.matches("one\ntwo").count(), 1, "{size}: {shown}");
        }
        double.play(&screen.finish(&[]));
        assert_eq!(double.text(), whole, "{size}");
    }
    assert!(whole.contains("The quick brown fox,\n"), "{whole}");
    assert!(whole.contains("\nlet code = \"is not w\nrapped"), "{whole}");
}

#[test]
fn code_is_broken_by_the_terminal_so_that_it_can_be_copied() {
    let (mut screen, _) = screen(10, 6);
    let frame = screen.frame(&[text("```\n0123456789abcdef\n")], Live::default());
    assert!(frame.contains("0123456789abcdef\r\n"), "{frame:?}");
}

#[test]
fn a_live_row_never_takes_a_second_row() {
    for columns in [8, 9, 10, 11] {
        let (mut screen, mut double) = screen(columns, 5);
        for _ in 0..3 {
            double.play(&screen.frame(&[], live(&["日本語の長い行はここで切る", "x"])));
        }
        let shown = double.text();
        assert_eq!(shown.lines().count(), 2, "{columns}: {shown}");
        assert!(shown.contains('…'), "{shown}");
    }
}

#[test]
fn more_live_rows_than_the_screen_has_are_left_out() {
    let (mut screen, mut double) = screen(20, 3);
    double.play(&screen.frame(&[text("text")], live(&["a", "b", "c", "d"])));
    double.play(&screen.frame(&[text(" more")], live(&["a", "b", "c", "e"])));
    double.play(&screen.finish(&[]));
    assert_eq!(double.text(), "text more");
}

#[test]
fn the_cursor_stands_where_one_types() {
    let (mut screen, mut double) = screen(20, 6);
    let mut typed = live(&["working", "> 日本"]);
    typed.cursor = Some(6);
    double.play(&screen.frame(&[text("abc")], typed));
    assert_eq!(double.cursor(), (2, 6));
    assert!(double.cursor_shown());
    double.play(&screen.frame(&[], live(&["working"])));
    assert_eq!(double.text(), "abc\nworking");
    assert!(!double.cursor_shown());
    double.play(&screen.finish(&[]));
    assert_eq!(double.text(), "abc");
    assert!(double.cursor_shown());
}

#[test]
fn another_size_leaves_one_live_row_and_all_of_the_text() {
    for columns in [8_u16, 12, 20, 40] {
        let (mut screen, mut double) = screen(24, 8);
        let row = "this row is 23 columns.";
        double.play(&screen.frame(&[text("some text\nand more")], live(&[row, "> typed"])));
        double.resize(columns.into());
        double.play(&screen.resize(columns, 8));
        double.play(&screen.frame(&[text(" of it")], live(&["live"])));
        let shown = double.text();
        assert_eq!(shown.matches("live").count(), 1, "{columns}: {shown}");
        assert!(!shown.contains("typed"), "{columns}: {shown}");
        let flat = shown.replace('\n', "");
        assert!(
            flat.contains("some textand moreof itlive"),
            "{columns}: {shown}"
        );
    }
}

#[test]
fn a_frame_restores_what_it_changes() {
    let mut screen = Screen::new(20, 5, false);
    let frame = screen.frame(&[line(Style::Bad, "x")], live(&["y"]));
    assert!(!frame.contains("\u{1b}[3"), "{frame:?}");
    assert!(!frame.contains('m'), "{frame:?}");
    for (set, reset) in [("?2026h", "?2026l"), ("?7l", "?7h")] {
        let set = frame.find(set).unwrap();
        assert!(frame.find(reset).unwrap() > set, "{frame:?}");
    }
}
