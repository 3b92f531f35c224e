//! The last pages of a session, so that going on with one does not fetch it again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::page::Page;

/// The most pages.
const MAX_PAGES: usize = 8;

/// The most bytes of text in all.
const MAX_BYTES: usize = 20 << 20;

/// How long a page is kept.
const MAX_AGE: Duration = Duration::from_secs(15 * 60);

/// The newest at the back.
#[derive(Debug, Default)]
pub(crate) struct Cache(VecDeque<Kept>);

#[derive(Debug)]
struct Kept {
    url: String,
    page: Arc<Page>,
    since: Instant,
}

impl Cache {
    pub(crate) fn get(&mut self, url: &str, now: Instant) -> Option<Arc<Page>> {
        self.0
            .retain(|kept| now.saturating_duration_since(kept.since) < MAX_AGE);
        let kept = self.0.iter().find(|kept| kept.url == url)?;
        Some(Arc::clone(&kept.page))
    }

    pub(crate) fn put(&mut self, url: &str, page: Arc<Page>, now: Instant) {
        self.0.retain(|kept| kept.url != url);
        self.0.push_back(Kept {
            url: url.to_owned(),
            page,
            since: now,
        });
        while self.0.len() > MAX_PAGES || self.bytes() > MAX_BYTES {
            self.0.pop_front();
        }
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|kept| kept.page.text.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize) -> Arc<Page> {
        Arc::new(Page {
            text: "a".repeat(bytes),
            ..Page::default()
        })
    }

    #[test]
    fn pages_go_by_number_by_size_and_by_age() {
        let now = Instant::now();
        let mut cache = Cache::default();
        for number in 0..9 {
            cache.put(&number.to_string(), page(1), now);
        }
        assert!(cache.get("0", now).is_none());
        assert!(cache.get("1", now).is_some());
        cache.put("large", page(MAX_BYTES - 1), now);
        assert!(cache.get("7", now).is_none());
        assert!(cache.get("8", now).is_some());
        let later = now + MAX_AGE - Duration::from_secs(1);
        cache.put("8", page(2), later);
        assert_eq!(cache.get("8", later).unwrap().text, "aa");
        assert!(cache.get("large", now + MAX_AGE).is_none());
        assert!(cache.get("8", now + MAX_AGE).is_some());
        cache.put("too large", page(MAX_BYTES + 1), later);
        assert!(cache.0.is_empty());
    }
}
