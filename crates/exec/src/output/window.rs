//! The first and the last part of a text of any length, in bounded memory.

/// Keeps the head and the tail of what is pushed, and counts what lies between.
#[derive(Debug)]
pub(crate) struct Window {
    head_limit: usize,
    tail_limit: usize,
    head: String,
    head_characters: usize,
    tail: String,
    dropped: u64,
}

/// What a window holds at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) head: String,
    pub(crate) left_out: u64,
    pub(crate) tail: String,
}

impl Window {
    /// Limits are counted in characters.
    pub(crate) const fn new(head_limit: usize, tail_limit: usize) -> Self {
        Self {
            head_limit,
            tail_limit,
            head: String::new(),
            head_characters: 0,
            tail: String::new(),
            dropped: 0,
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        let mut rest = text;
        if self.head_characters < self.head_limit {
            let room = self.head_limit - self.head_characters;
            let (into_head, after) = match rest.char_indices().nth(room) {
                None => (rest, ""),
                Some((at, _)) => rest.split_at(at),
            };
            self.head.push_str(into_head);
            self.head_characters += into_head.chars().count();
            rest = after;
        }
        // No character is longer than four bytes, so this many hold the tail in any case.
        let keep = self.tail_limit * 4;
        if rest.len() >= keep {
            let (gone, kept) = rest.split_at(rest.floor_char_boundary(rest.len() - keep));
            self.dropped += (self.tail.len() + gone.len()) as u64;
            self.tail.clear();
            self.tail.push_str(kept);
        } else {
            self.tail.push_str(rest);
            if self.tail.len() > keep * 2 {
                let cut = self.tail.floor_char_boundary(self.tail.len() - keep);
                self.dropped += cut as u64;
                self.tail.drain(..cut);
            }
        }
    }

    /// Whether something will be left out.
    pub(crate) fn is_over(&self) -> bool {
        // Counting characters is only needed where bytes do not settle it.
        self.dropped > 0 || (self.tail.len() > self.tail_limit && self.tail_cut() > 0)
    }

    /// The last characters so far.
    pub(crate) fn recent(&self, characters: usize) -> String {
        let mut recent = String::new();
        let in_tail = self.tail.chars().count();
        if in_tail < characters && self.dropped == 0 {
            recent.push_str(last_characters(&self.head, characters - in_tail));
        }
        recent.push_str(last_characters(&self.tail, characters));
        recent
    }

    pub(crate) fn into_parts(mut self) -> Parts {
        let cut = self.tail_cut();
        self.tail.drain(..cut);
        let left_out = self.dropped + cut as u64;
        Parts {
            head: self.head,
            left_out,
            tail: self.tail,
        }
    }

    /// How many bytes at the start of the tail are beyond the limit.
    fn tail_cut(&self) -> usize {
        self.tail.len() - last_characters(&self.tail, self.tail_limit).len()
    }
}

fn last_characters(text: &str, count: usize) -> &str {
    let Some(before) = count.checked_sub(1) else {
        return "";
    };
    match text.char_indices().nth_back(before) {
        None => text,
        Some((at, _)) => text.split_at(at).1,
    }
}
