//! The page about settings says what the table of keys says.

use super::*;
use crate::settings::key::{Folder, Key};

fn row(key: &Key) -> String {
    let mut settings = Settings::default();
    let slot = (key.slot)(&mut settings);
    let folder = match key.folder {
        Folder::Free => "yes",
        Folder::Narrower(_) => "narrower; wider with trust",
        Folder::SameProvider => "of your provider; others with trust",
        Folder::WithTrust => "with trust",
        Folder::Never => "no",
    };
    let Key { name, doc, .. } = key;
    let (default, allowed) = (slot.show(), slot.allowed());
    format!("| `{name}` | {doc} | {allowed} | `{default}` | {folder} |")
}

#[test]
fn the_page_lists_each_key_with_its_default() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows: Vec<String> = KEYS.iter().map(row).collect();
    let on_page: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let table = rows.join("\n");
    assert!(
        on_page == rows,
        "the table in docs/settings.md should be:\n{table}"
    );
}
