//! `outlive man`: the manual pages, made from the declarations.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Arguments;
use crate::commands::help;
use crate::failure::Failure;
use crate::render::{counted, note, print};

/// Writes `outlive.1` and a page for each verb, `outlive-run.1`. Who writes `outlive man run` wants to read one.
pub(crate) fn run(directory: &Path) -> Result<ExitCode, Failure> {
    if let Some(topic) = directory.to_str().filter(|topic| help::has(topic) && !directory.is_dir()) {
        note(&format!(
            "outlive: help on {topic}; to write the pages into a directory of that name: outlive man ./{topic}"
        ));
        return help::run(&[topic.to_owned()]);
    }
    let failed = |error: std::io::Error| Failure::other(&format!("man: {}", directory.display()), &error);
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), directory).map_err(failed)?;
    let pages = std::fs::read_dir(directory).map_err(failed)?.count() as u64;
    print(&format!("{} in {}\n", counted(pages, "page", "pages"), directory.display()));
    Ok(ExitCode::SUCCESS)
}
