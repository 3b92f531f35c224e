//! Real files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

const DENY: &str = "disallowed_tools = [\"Bash(touch *)\"]\n";

/// A folder as a workspace, with the name of its settings file.
fn folder() -> (TempDir, PathBuf, Sources) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".tooloop")).unwrap();
    let file = folder.path().join(".tooloop/config.toml");
    let sources = self::sources(folder.path());
    (folder, file, sources)
}

/// The usual sources without those of the machine that the test runs on.
fn sources(folder: &Path) -> Sources {
    Sources {
        managed: None,
        json_managed: None,
        ..Sources::new(folder.to_owned(), Vec::new())
    }
}

fn error(sources: &Sources) -> String {
    load(sources, &Files::default()).unwrap_err().to_string()
}

fn unreadable(file: &Path, reason: &str) -> String {
    format!("{}: cannot read settings: {reason}", file.display())
}

#[test]
fn nothing_there_is_fine() {
    let folder = tempfile::tempdir().unwrap();
    let sources = self::sources(folder.path());
    assert_eq!(
        load(&sources, &Files::default()).unwrap().settings,
        Settings::default()
    );
    // A file where the folder would be.
    fs::write(folder.path().join(".tooloop"), "").unwrap();
    assert_eq!(
        load(&sources, &Files::default()).unwrap().settings,
        Settings::default()
    );
}

#[test]
fn a_file_is_obeyed_and_never_written() {
    let (_folder, file, sources) = folder();
    for text in [
        DENY.to_owned(),
        format!("\u{feff}# x\r\n{DENY}"),
        "nonsense".to_owned(),
        format!("modle = 1\n{DENY}"),
    ] {
        fs::write(&file, &text).unwrap();
        let before = fs::metadata(&file).unwrap().modified().unwrap();
        match load(&sources, &Files::default()) {
            Ok(loaded) => assert_eq!(loaded.settings.disallowed_tools, rules(&["Bash(touch *)"])),
            Err(error) => assert!(
                error
                    .to_string()
                    .starts_with(&format!("{}:1:", file.display()))
            ),
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
    }
}

#[test]
fn an_unreadable_file_is_named_or_obeyed() {
    let (_folder, file, sources) = folder();
    fs::write(&file, DENY).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser reads it all the same.
    match load(&sources, &Files::default()) {
        Ok(loaded) => assert_eq!(loaded.settings.disallowed_tools, rules(&["Bash(touch *)"])),
        Err(error) => assert_eq!(error.to_string(), unreadable(&file, "permission denied")),
    }
    let refuse = |_: &Path, _: Demand| Err(io::ErrorKind::PermissionDenied.into());
    let error = load_with(&sources, &refuse).unwrap_err().to_string();
    assert!(
        error.contains(&unreadable(&file, "permission denied")),
        "{error}"
    );
}

#[test]
fn what_is_no_file_is_named() {
    let (_folder, file, mut sources) = folder();
    fs::create_dir(&file).unwrap();
    assert_eq!(error(&sources), unreadable(&file, "it is a directory"));
    sources.project = None;
    sources.explicit = Some(file.clone());
    assert_eq!(error(&sources), unreadable(&file, "it is a directory"));
}

#[test]
fn a_pipe_in_a_folder_does_not_block_the_start() {
    let (_folder, file, sources) = folder();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(
        error(&sources),
        unreadable(&file, "it is not a regular file")
    );
}

#[test]
fn a_link_is_followed_and_a_dead_one_is_named() {
    let (folder, file, sources) = folder();
    let target = folder.path().join("shared.toml");
    symlink(&target, &file).unwrap();
    assert_eq!(
        error(&sources),
        unreadable(&file, "it is a link that leads nowhere")
    );
    fs::write(&target, DENY).unwrap();
    let loaded = load(&sources, &Files::default()).unwrap();
    assert_eq!(loaded.settings.disallowed_tools, rules(&["Bash(touch *)"]));
}

#[test]
fn a_file_without_end_is_refused() {
    let (_folder, file, sources) = folder();
    fs::write(&file, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(
        error(&sources),
        unreadable(&file, "it is larger than 1 MiB")
    );
    fs::write(&file, vec![b'#'; 1 << 20]).unwrap();
    assert_eq!(
        load(&sources, &Files::default()).unwrap().settings,
        Settings::default()
    );
}

#[test]
fn a_file_that_was_asked_for_must_be_there_and_may_be_a_device() {
    let (folder, _, mut sources) = folder();
    let file = folder.path().join("extra.toml");
    sources.explicit = Some(file.clone());
    assert_eq!(error(&sources), unreadable(&file, "there is no such file"));
    sources.explicit = Some("/dev/null".into());
    assert_eq!(
        load(&sources, &Files::default()).unwrap().settings,
        Settings::default()
    );
    sources.explicit = Some("/dev/zero".into());
    assert_eq!(
        error(&sources),
        unreadable(Path::new("/dev/zero"), "it is larger than 1 MiB")
    );
}

#[test]
fn the_persons_own_json_file_is_theirs_in_the_home_folder_too() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    fs::create_dir(home.join(".claude")).unwrap();
    let text = "{\"permissions\": {\"allow\": [\"Edit\"]}}";
    fs::write(home.join(".claude/settings.json"), text).unwrap();
    let link = home.join("link");
    symlink(&home, &link).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    for (home_variable, folder) in [
        (&home, home.as_path()),
        (&link, home.as_path()),
        (&home, elsewhere.path()),
    ] {
        let environment = vec![("HOME".into(), home_variable.into())];
        let sources = Sources {
            managed: None,
            json_managed: None,
            ..Sources::new(folder.to_owned(), environment)
        };
        let loaded = load(&sources, &Files::default()).unwrap();
        assert_eq!(loaded.settings.allowed_tools, rules(&["Edit"]));
        assert_eq!(loaded.trust, Trust::NotNeeded);
    }
}
