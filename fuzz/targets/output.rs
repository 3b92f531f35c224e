//! Any bytes as the output of a command: harmless, bounded, and the same however they come.
//!
//! Input: a byte that says how the rest is cut; the output.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tooloop_exec::{Output, OutputCleaner};
use tooloop_fuzz::parts;

fuzz_target!(|data: &[u8]| {
    let Some((seed, bytes)) = data.split_first() else {
        return;
    };
    for limit in [30, 15_000] {
        let whole = clean(limit, [bytes]);
        assert_eq!(clean(limit, parts(bytes, *seed)), whole);
        let text = whole.text();
        let odd = text
            .chars()
            .find(|character| character.is_control() && !matches!(character, '\n' | '\t'));
        assert_eq!(odd, None, "{text:?}");
        let kept = whole.head.chars().count() + whole.tail.chars().count();
        assert!(kept <= 2 * limit, "{whole:?}");
        assert_eq!(whole.bytes, bytes.len() as u64);
    }
});

fn clean<'a>(limit: usize, parts: impl IntoIterator<Item = &'a [u8]>) -> Output {
    let mut cleaner = OutputCleaner::new(limit, limit);
    for part in parts {
        cleaner.feed(part);
    }
    cleaner.finish()
}
