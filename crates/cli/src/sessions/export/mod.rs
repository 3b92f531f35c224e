//! `tooloop sessions export`.

mod html;
mod items;
mod markdown;

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tooloop::SessionError;
use tooloop::journal::{Header, Line, Read, StoreError, read_lines};

use crate::args::ExportFormat;
use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::secrets;
use items::{Item, Teller};

/// Writes a session down.
pub(crate) fn export(
    path: &Path,
    format: ExportFormat,
    output: Option<&Path>,
) -> Result<Status, Failure> {
    let Some(output) = output else {
        let mut out = BufWriter::new(crate::output::stdout());
        let written = write(path, format, &mut out)?.and_then(|()| out.flush());
        return Ok(match written {
            Ok(()) => Status::Done,
            Err(_) => Status::BrokenPipe,
        });
    };
    let refused =
        |error: io::Error| Failure::usage(format!("cannot write to {}: {error}", output.display()));
    // A session is its owner's alone, and what is there already is nobody's to overwrite.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(output)
        .map_err(refused)?;
    let mut out = BufWriter::new(file);
    let whole = write(path, format, &mut out)
        .and_then(|written| written.and_then(|()| out.flush()).map_err(refused));
    if whole.is_err() {
        // Half a file is none; what cannot be removed is at least named by the error.
        drop(fs::remove_file(output));
    }
    whole.map(|()| Status::Done)
}

/// What a form of export is written with.
trait Page {
    fn begin(&mut self, header: &Header, out: &mut dyn Write) -> io::Result<()>;
    fn item(&mut self, item: &Item, out: &mut dyn Write) -> io::Result<()>;
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

fn write(
    path: &Path,
    format: ExportFormat,
    out: &mut dyn Write,
) -> Result<io::Result<()>, Failure> {
    let (read, written) = match format {
        ExportFormat::Json => json(path, out),
        ExportFormat::Md => page(path, &mut markdown::Markdown, out),
        ExportFormat::Html => page(path, &mut html::Html, out),
    }
    .map_err(SessionError::from)?;
    read.warnings.iter().for_each(|warning| complain(warning));
    Ok(written)
}

fn page(
    path: &Path,
    page: &mut dyn Page,
    out: &mut dyn Write,
) -> Result<(Read, io::Result<()>), StoreError> {
    let header = header(path)?;
    let mut written = page.begin(&header, out);
    let redactor = secrets::for_exports();
    let mut teller = Teller::default();
    let read = read_lines(path, |line| {
        for item in teller.tell(&line) {
            if written.is_ok() {
                written = page.item(&item.without_secrets(&redactor), out);
            }
        }
    })?;
    for item in teller.sum(&read.transcript) {
        if written.is_ok() {
            written = page.item(&item, out);
        }
    }
    let written = written.and_then(|()| page.end(out));
    Ok((read, written))
}

/// The header, damaged or not.
fn header(path: &Path) -> Result<Header, StoreError> {
    tooloop::journal::verify(path, None, |_| {}).map(|verified| verified.header)
}

fn json(path: &Path, out: &mut dyn Write) -> Result<(Read, io::Result<()>), StoreError> {
    let header = serde_json::to_string(&header(path)?).unwrap_or_default();
    let mut written = write!(out, "{{\"header\":{header},\"records\":[");
    let redactor = secrets::for_exports();
    let mut comma = "";
    let read = read_lines(path, |line: Line| {
        let text = serde_json::to_string(&line).unwrap_or_default();
        if written.is_ok() {
            written = write!(out, "{comma}\n{}", redactor.redact_json_text(&text));
        }
        comma = ",";
    })?;
    let written = written.and_then(|()| writeln!(out, "\n]}}"));
    Ok((read, written))
}
