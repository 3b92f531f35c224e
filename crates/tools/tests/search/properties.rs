//! Random trees against a plain model, random patterns against nothing but the promise to answer.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use serde_json::json;
use tooloop_tool::ToolError;

use crate::room::Room;

/// A tree: for each file its age in seconds and how many of its lines match.
type Tree = BTreeMap<String, (u8, u8)>;

fn tree() -> impl Strategy<Value = Tree> {
    let path = prop::collection::vec("[ab.-]{0,1}[abx]{1,2}", 1..4).prop_map(|parts| {
        let folders = parts.len() - 1;
        let named: Vec<String> = parts
            .into_iter()
            .enumerate()
            .map(|(index, part)| match index < folders {
                true => format!("d{part}"),
                false => format!("f{part}"),
            })
            .collect();
        named.join("/")
    });
    prop::collection::btree_map(path, (0..4_u8, 0..5_u8), 0..40)
}

fn build(room: &Room, tree: &Tree) {
    let base = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for (path, (age, matches)) in tree {
        let mut content = String::from("other\n");
        for _ in 0..*matches {
            content.push_str("needle\nother\n");
        }
        room.write(path, content)
            .age(path, base - Duration::from_secs(u64::from(*age)));
    }
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn glob_lists_the_head_of_all_files(tree in tree(), cap in 0..12_usize, threads in 1..5_usize) {
        let room = Room::with(|settings| {
            settings.paths = cap;
            settings.threads = threads;
        });
        build(&room, &tree);
        let mut files: Vec<(u8, &str)> =
            tree.iter().map(|(path, (age, _))| (*age, path.as_str())).collect();
        files.sort_unstable();
        let found = block(room.glob(json!({ "pattern": "**" })));
        let shown = files.len().min(cap);
        let mut expected: Vec<String> =
            files.iter().take(cap).map(|(_, path)| (*path).to_owned()).collect();
        if files.is_empty() {
            prop_assert!(found.starts_with("no files match ** in the workspace"));
            return Ok(());
        }
        if shown < files.len() {
            let plural = if files.len() == 1 { "" } else { "s" };
            expected.push(format!(
                "({shown} of {} file{plural} shown, the newest; {} left out: narrow the pattern or \
                 give a path)",
                files.len(),
                files.len() - shown
            ));
        }
        prop_assert_eq!(found, expected.join("\n"));
    }

    #[test]
    fn grep_shows_the_head_of_all_matches(tree in tree(), limit in 1..20_usize, threads in 1..5_usize) {
        let room = Room::with(|settings| settings.threads = threads);
        build(&room, &tree);
        let matching: Vec<(&String, u8)> = tree
            .iter()
            .filter(|(_, (_, matches))| *matches > 0)
            .map(|(path, (_, matches))| (path, *matches))
            .collect();
        let total: usize = matching.iter().map(|(_, matches)| usize::from(*matches)).sum();
        let found = block(room.grep(json!({ "pattern": "^needle$", "limit": limit })));
        if total == 0 {
            prop_assert!(found.starts_with("no matches for ^needle$ in the workspace"));
            return Ok(());
        }
        let mut left = limit;
        let mut blocks = Vec::new();
        for (path, matches) in &matching {
            if left == 0 {
                break;
            }
            let mut block = (*path).clone();
            for index in 0..usize::from(*matches).min(left) {
                block.push_str(&format!("\n{}: needle", 2 * index + 2));
            }
            left -= usize::from(*matches).min(left);
            blocks.push(block);
        }
        let mut expected = blocks.join("\n\n");
        if total > limit {
            let files = match matching.len() {
                1 => "1 file".to_owned(),
                more => format!("{more} files"),
            };
            expected.push_str(&format!(
                "\n({limit} of {total} matches in {files} shown, first by path; {} left out: narrow \
                 the pattern, path or glob)",
                total - limit
            ));
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_pattern_is_answered(
        pattern in "\\PC{0,20}|[\\[\\]{}()*?!^.,/\\\\a-c|+$&-]{0,20}|.{0,10}",
        path in prop::option::of("[./a]{0,6}|\\PC{0,8}"),
        multiline: bool,
        all: bool,
    ) {
        let room = Room::new();
        room.write("a", "a\nb").write("b/c", "{[(").write(".a/b", "x");
        // Never out of the throw-away folder: the file system above it is large.
        let leads_out = |text: &str| text.starts_with('/') || text.contains("..");
        let path = path.filter(|path| !leads_out(path));
        if !leads_out(&pattern) {
            let input = json!({ "pattern": pattern, "path": path, "all": all });
            let ended = block(room.call(&room.glob, input));
            prop_assert!(matches!(ended, Ok(_) | Err(ToolError::Failed(_))), "{:?}", ended);
        }
        let input = json!({
            "pattern": pattern, "path": path, "all": all, "multiline": multiline, "context": 1,
            "glob": pattern,
        });
        let ended = block(room.call(&room.grep, input));
        prop_assert!(matches!(ended, Ok(_) | Err(ToolError::Failed(_))), "{:?}", ended);
    }
}
