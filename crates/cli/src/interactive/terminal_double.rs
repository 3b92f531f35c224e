//! A terminal for tests: as much of one as the frames use, with rows that are broken anew when the
//! size changes, as most terminals do it.

use super::text::character_width;

/// A row and whether the terminal itself went on to the next one.
#[derive(Debug, Clone, Default)]
struct Row {
    cells: Vec<char>,
    wrapped: bool,
}

#[derive(Debug)]
pub(crate) struct Double {
    columns: usize,
    height: usize,
    /// All rows since the beginning, the scrollback included.
    rows: Vec<Row>,
    row: usize,
    column: usize,
    wraps: bool,
    shown: bool,
}

/// The second half of a wide character.
const HALF: char = '\0';

impl Double {
    pub(crate) fn new(columns: usize, height: usize) -> Self {
        Self {
            columns,
            height,
            rows: vec![Row::default()],
            row: 0,
            column: 0,
            wraps: true,
            shown: true,
        }
    }

    pub(crate) fn cursor(&self) -> (usize, usize) {
        (self.row, self.column)
    }

    pub(crate) fn cursor_shown(&self) -> bool {
        self.shown
    }

    /// All that is to be seen, scrollback included, without blank ends.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| {
                let row: String = row.cells.iter().filter(|cell| **cell != HALF).collect();
                row.trim_end().to_owned()
            })
            .collect();
        rows.join("\n").trim_end().to_owned()
    }

    pub(crate) fn play(&mut self, output: &str) {
        let mut characters = output.chars();
        while let Some(character) = characters.next() {
            match character {
                '\r' => self.column = 0,
                '\n' => self.down(),
                '\u{1b}' => {
                    assert_eq!(characters.next(), Some('['));
                    let mut parameters = String::new();
                    let last = loop {
                        let next = characters.next().expect("a whole sequence");
                        if next.is_ascii_alphabetic() {
                            break next;
                        }
                        parameters.push(next);
                    };
                    self.sequence(&parameters, last);
                }
                other => {
                    assert!(!other.is_control(), "{other:?}");
                    self.put(other);
                }
            }
        }
    }

    fn sequence(&mut self, parameters: &str, last: char) {
        let number = parameters.parse().unwrap_or(1_usize);
        match (last, parameters) {
            ('A', _) => {
                let top = self.rows.len().saturating_sub(self.height);
                self.row = self.row.saturating_sub(number).max(top);
            }
            ('C', _) => self.column = (self.column + number).min(self.columns - 1),
            ('J', "") => {
                self.rows.truncate(self.row + 1);
                self.rows[self.row].cells.truncate(self.column);
                self.rows[self.row].wrapped = false;
            }
            ('l', "?7") => self.wraps = false,
            ('h', "?7") => self.wraps = true,
            ('l', "?25") => self.shown = false,
            ('h', "?25") => self.shown = true,
            ('h' | 'l', "?2026") | ('m', _) => {}
            other => panic!("unknown sequence {other:?}"),
        }
    }

    fn down(&mut self) {
        self.row += 1;
        if self.row == self.rows.len() {
            self.rows.push(Row::default());
        }
    }

    fn put(&mut self, character: char) {
        let wide = character_width(character);
        if wide == 0 {
            return;
        }
        if self.column + wide > self.columns {
            if !self.wraps {
                return;
            }
            self.rows[self.row].wrapped = true;
            self.down();
            self.column = 0;
        }
        let cells = &mut self.rows[self.row].cells;
        while cells.len() < self.column + wide {
            cells.push(' ');
        }
        cells[self.column] = character;
        for half in 1..wide {
            cells[self.column + half] = HALF;
        }
        self.column += wide;
    }

    /// Breaks all rows anew.
    pub(crate) fn resize(&mut self, columns: usize) {
        let mut rows: Vec<Row> = Vec::new();
        let mut cursor = (0, 0);
        let mut line: Vec<char> = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            if number == self.row {
                cursor = (rows.len(), line.len() + self.column);
            }
            line.extend(&row.cells);
            if row.wrapped {
                continue;
            }
            let mut cells = std::mem::take(&mut line).into_iter().peekable();
            loop {
                let mut broken = Row::default();
                while let Some(cell) = cells.next_if(|cell| {
                    *cell == HALF || broken.cells.len() + character_width(*cell) <= columns
                }) {
                    broken.cells.push(cell);
                }
                broken.wrapped = cells.peek().is_some();
                let last = !broken.wrapped;
                rows.push(broken);
                if last {
                    break;
                }
            }
        }
        let (first, offset) = cursor;
        self.row = first + offset.saturating_sub(1) / columns;
        self.column = offset - (self.row - first) * columns;
        self.rows = rows;
        self.columns = columns;
    }
}
