//! `outlive rpc`: the API on standard input and output, for a program that has reached this machine in its own way.

use std::process::ExitCode;

use outlive_remote::GREETING;

use super::open_store;
use crate::failure::Failure;
use crate::{act, early_keeper, render, served};

pub(crate) fn run(greets: bool) -> Result<ExitCode, Failure> {
    let greeting = if greets { format!("{GREETING}\n") } else { String::new() };
    // What is wrong here is told apart from what is wrong with the way here.
    let store = open_store().inspect_err(|_| render::print(&greeting))?;
    match outlive_http::serve_pipes(store, &greeting)? {
        None => Ok(ExitCode::SUCCESS),
        Some(verb) => {
            served::accept(&verb.terms)?;
            let words = [vec!["outlive".into()], verb.words].concat();
            Ok(act(&words, early_keeper(&words)))
        }
    }
}
