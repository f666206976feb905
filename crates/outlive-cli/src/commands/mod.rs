//! One verb, one file.

mod completions;
mod doctor;
mod gc;
mod kill;
mod list;
mod logs;
mod remove;
mod run;
mod send;
mod show;
mod wait;

use std::process::ExitCode;

use outlive::{SessionName, Store};

use crate::args::{Arguments, Verb};
use crate::failure::Failure;
use crate::{reference, render};

/// What every verb needs to know.
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) is_json: bool,
    /// Whose jobs to see; none: all.
    pub(crate) session: Option<SessionName>,
}

/// Does what was asked.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    match arguments.verb {
        Verb::Completions(completions) => return Ok(completions::run(&completions)),
        Verb::Reference(asked) => {
            render::print(&reference::page(asked.page));
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let store = Store::open()?.with_self_as_keeper();
    let context = Context { store, is_json: arguments.json, session: arguments.session };
    match arguments.verb {
        Verb::Run(run) => run::run(&context, run),
        Verb::List(list) => list::run(&context, &list),
        Verb::Show(show) => show::run(&context, &show),
        Verb::Logs(logs) => logs::run(&context, &logs),
        Verb::Wait(wait) => wait::run(&context, &wait),
        Verb::Send(send) => send::run(&context, send),
        Verb::Kill(kill) => kill::run(&context, &kill),
        Verb::Remove(remove) => remove::run(&context, &remove),
        Verb::Gc(_) => gc::run(&context),
        Verb::Doctor(_) => doctor::run(&context),
        Verb::Completions(_) | Verb::Reference(_) => Ok(ExitCode::SUCCESS),
    }
}
