//! `outlive export`: what a job printed, as a recording, a text or a page.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use outlive::{ExportForm, Exported};
use serde::Serialize;

use crate::args::Export;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{give_up, note, print_json};

#[derive(Serialize)]
struct Written<'a> {
    job: &'a outlive::JobId,
    file: &'a Path,
}

pub(crate) fn run(context: &Context, arguments: &Export) -> Result<ExitCode, Failure> {
    let job = context.find(&arguments.job)?;
    let form = match (arguments.form.cast, arguments.form.txt) {
        (true, _) => ExportForm::Cast,
        (_, true) => ExportForm::Text,
        _ => ExportForm::Html,
    };
    let state = job.state(&context.store);
    let failed = |error: io::Error| Failure::other("export", &error);
    let exported = match &arguments.output {
        Some(path) => {
            let in_file = |error: io::Error| {
                failed(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
            };
            let mut file = BufWriter::new(File::create(path).map_err(in_file)?);
            job.export(&state, form, &mut file).map_err(in_file)?
        }
        None if context.is_json => {
            let hint = "name a file with -o, or leave --json out";
            return Err(Failure::usage("with --json, the export cannot be standard output", hint));
        }
        None => {
            let mut stdout = BufWriter::new(Stdout(io::stdout().lock()));
            job.export(&state, form, &mut stdout).map_err(failed)?
        }
    };
    tell_lacks(&exported, job.id());
    match &arguments.output {
        Some(file) if context.is_json => print_json(&Written { job: job.id(), file }),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Says what the export does not have.
fn tell_lacks(exported: &Exported, job: &outlive::JobId) {
    if exported.start > 0 {
        note(&format!(
            "outlive: it begins at offset {}; what was printed before was dropped",
            exported.start
        ));
    }
    if exported.is_cut {
        note(&format!("outlive: it has the last rows only; `outlive logs --plain {job}` has all"));
    }
}

/// Standard output. Where its reader has gone away, the program ends quietly.
struct Stdout<'a>(io::StdoutLock<'a>);

impl Write for Stdout<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).or_else(|error| give_up(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().or_else(|error| give_up(&error))
    }
}
