//! A table of a page: data to be shown as one, or a means of laying the page out.

/// The most columns that are shown as a table.
const MAX_COLUMNS: usize = 50;

/// The rows so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    has_heads: bool,
    has_table: bool,
}

impl Table {
    pub(crate) fn begin_row(&mut self) {
        if self.rows.last().is_none_or(|row| !row.is_empty()) {
            self.rows.push(Vec::new());
        }
    }

    pub(crate) fn begin_cell(&mut self, heads: bool) {
        self.has_heads |= heads;
        if self.rows.is_empty() {
            self.rows.push(Vec::new());
        }
    }

    pub(crate) fn end_cell(&mut self, cell: String) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell.trim().to_owned());
        }
    }

    /// There is another table in it.
    pub(crate) fn holds_table(&mut self) {
        self.has_table = true;
    }

    /// The table as lines: one of Markdown's, or the cells one below the other.
    pub(crate) fn write(mut self) -> String {
        for row in &mut self.rows {
            let last = row.iter().rposition(|cell| !cell.is_empty());
            row.truncate(last.map_or(0, |last| last.saturating_add(1)));
        }
        self.rows.retain(|row| !row.is_empty());
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let cells = || self.rows.iter().flatten();
        let has_lines = cells().any(|cell| cell.contains('\n'));
        let has_code = cells().any(|cell| cell.contains("```"));
        let is_data = (2..=MAX_COLUMNS).contains(&columns)
            && !self.has_table
            && !has_code
            && (self.has_heads || !has_lines);
        if is_data {
            return self.as_table();
        }
        let cells: Vec<&str> = cells()
            .filter(|cell| !cell.is_empty())
            .map(String::as_str)
            .collect();
        cells.join("\n\n")
    }

    fn as_table(&self) -> String {
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            text.push('|');
            for cell in row {
                let cell = cell.replace('|', "\\|").replace('\n', "<br>");
                text.push_str(&format!(" {cell} |"));
            }
            text.push('\n');
            if number == 0 {
                text.push('|');
                text.push_str(&" --- |".repeat(row.len()));
                text.push('\n');
            }
        }
        text
    }
}
