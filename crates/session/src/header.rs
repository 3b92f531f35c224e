//! The first line, whole or in pieces.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::catalog::project_name;
use crate::migration::{Migration, STEPS, Step};
use crate::salvage::member;
use crate::{FORMAT_VERSION, Header, SessionId, StoreError};

/// A header is a few hundred bytes; what is far longer is something else.
const LONGEST: u64 = 64 << 10;

/// How many journals beside a damaged one are asked for their folder.
const NEIGHBOURS: usize = 20;

/// What the first line says.
pub(crate) enum First {
    /// The header, and where in the line it ends.
    Whole {
        header: Header,
        migration: Migration,
        length: usize,
    },
    /// It is no header.
    Broken(String),
    /// A version that is not known.
    Refused(String),
}

pub(crate) fn read(line: &[u8], steps: &'static [Step]) -> First {
    let mut values = serde_json::Deserializer::from_slice(line).into_iter::<serde_json::Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(error)) => return broken(line, error.to_string(), steps),
        None => return First::Broken("it is empty".into()),
    };
    let length = values.byte_offset();
    let Some(version) = value.get("tooloop_session") else {
        return First::Broken("it does not name the version of its format".into());
    };
    let version = version.as_u64().unwrap_or_default();
    let migration = match Migration::from(version, steps) {
        Ok(migration) => migration,
        Err(reason) => return First::Refused(reason),
    };
    match serde_json::from_value::<Header>(migration.apply(value)) {
        Ok(header) => First::Whole {
            header,
            migration,
            length,
        },
        Err(error) => First::Broken(error.to_string()),
    }
}

/// What is left of a header may still say that its file is of a version that is not known.
fn broken(line: &[u8], reason: String, steps: &'static [Step]) -> First {
    match member(remains(line), "tooloop_session").map(|version| Migration::from(version, steps)) {
        Some(Err(reason)) => First::Refused(reason),
        Some(Ok(_)) | None => First::Broken(reason),
    }
}

/// What is left of a header at the beginning of a line; nothing if it begins as something else.
pub(crate) fn remains(line: &[u8]) -> &[u8] {
    let begins = line.starts_with(b"{\"tooloop_session\":");
    let most = line.len().min(4 << 10);
    line.get(..most).filter(|_| begins).unwrap_or_default()
}

/// Makes a header of what is left of it (`line`), of the file's name and folder, of the workspace
/// that somebody works in, and of the time of the first record.
pub(crate) fn rebuild(
    path: &Path,
    line: &[u8],
    workspace: Option<&Path>,
    first: Option<Timestamp>,
) -> Header {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let session = stem
        .parse()
        .ok()
        .or_else(|| member(line, "session"))
        .unwrap_or_else(SessionId::generate);
    let created = member(line, "created").or(first).unwrap_or_else(|| {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        modified
            .ok()
            .and_then(|modified| Timestamp::try_from(modified).ok())
            .unwrap_or_else(crate::record::now)
    });
    Header {
        tooloop_session: FORMAT_VERSION,
        session,
        created,
        workspace: workspace_of(path, member(line, "workspace"), workspace)
            .unwrap_or_else(|| PathBuf::from("/")),
        forked_from: member(line, "forked_from"),
        works_for: member(line, "works_for"),
    }
}

/// The workspace whose sessions are kept in the journal's folder: the one that is left in the
/// header, the one that is given, or that of a neighbour. If none is, the given one.
fn workspace_of(path: &Path, left: Option<PathBuf>, given: Option<&Path>) -> Option<PathBuf> {
    let folder = path.parent()?;
    let name = folder.file_name()?.to_string_lossy().into_owned();
    let owns = |workspace: &PathBuf| project_name(workspace) == name;
    let given = given.map(Path::to_owned);
    let own = left
        .clone()
        .filter(owns)
        .or_else(|| given.clone().filter(owns));
    let neighbours = || {
        let mut neighbours = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|neighbour| neighbour.path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "jsonl")
            })
            .take(NEIGHBOURS)
            .filter_map(|path| read_header(&path).ok())
            .map(|(header, _)| header.workspace);
        neighbours.find(owns)
    };
    own.or_else(neighbours).or(given).or(left)
}

/// Reads the first line of a journal. The reader stands behind it.
pub(crate) fn read_header(path: &Path) -> Result<(Header, BufReader<File>), StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader
        .by_ref()
        .take(LONGEST)
        .read_until(b'\n', &mut line)
        .map_err(StoreError::io("read", path))?;
    let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
    match read(text, STEPS) {
        First::Whole { header, .. } => Ok((header, reader)),
        First::Broken(reason) => Err(no_header(path, &reason)),
        First::Refused(reason) => Err(StoreError::Format {
            path: path.to_owned(),
            line: 1,
            reason,
        }),
    }
}

pub(crate) fn no_header(path: &Path, reason: &str) -> StoreError {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    StoreError::Format {
        path: path.to_owned(),
        line: 1,
        reason: format!(
            "this is not the header of a session: {reason}; if it was one, try: tooloop sessions repair {name}"
        ),
    }
}
