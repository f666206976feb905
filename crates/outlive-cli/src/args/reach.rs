//! Which verbs can be called on another machine, and what each needs there.

use std::io::{self, IsTerminal};

use outlive::Stdin;
use outlive_http::Scope;

use super::{Arguments, Queue, Session, Verb};

/// Where a verb is run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reach {
    /// Where the store is.
    There(There),
    /// Only on the machine itself; what to do instead.
    Here(&'static str),
    /// Here: it is about this program, and about no store.
    Own,
}

/// What a verb needs where the store is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct There {
    /// What the caller must be allowed.
    pub(crate) scope: Scope,
    /// It looks at nothing outside `--session`, so that a token of one session can be kept to it.
    pub(crate) keeps_to_session: bool,
    pub(crate) input: Input,
    /// It goes on over a connection that breaks off.
    pub(crate) resumes: Resumes,
}

/// What a verb reads from standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing: it stays for the program that reads next.
    Nothing,
    /// What is piped, and nothing that is typed.
    Piped,
    /// Whatever there is.
    All,
}

/// How a verb goes on after its connection broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resumes {
    /// Not at all.
    Never,
    /// From the last mark in what it prints; what came after that mark comes again, and is passed over.
    Anywhere,
    /// It draws all again.
    Anew,
    /// As anywhere, once it has said which job it started.
    OnceStarted,
}

const LOOK: There =
    There { scope: Scope::View, keeps_to_session: true, input: Input::Nothing, resumes: Resumes::Never };

const DRIVE: There = There { scope: Scope::Drive, ..LOOK };

/// The names of all verbs that another machine can be asked for, for hints.
pub(crate) const REACHED: &[&str] = &[
    "run", "list", "show", "logs", "screen", "export", "play", "wait", "clear", "send", "attach", "resize",
    "kill", "restart", "pause", "resume", "rm", "remove", "events", "session", "inbox", "watch", "queue",
];

const OF_THE_MACHINE: &str =
    "it looks after the machine that it runs on: run it there, such as with ssh HOST outlive …";
const OF_A_PROJECT: &str = "a project's file is on the machine that has its jobs: run it in that directory there, such as with ssh HOST";

impl Arguments {
    /// Returns where the verb is run.
    pub(crate) fn reach(&self) -> Reach {
        let Some(verb) = &self.verb else { return Reach::There(LOOK) };
        Reach::There(match verb {
            Verb::Run(run) => {
                let choices = &run.options.0;
                let is_typed_into = choices.pty == Some(true) || choices.stdin == Some(Stdin::Open);
                let input = match (run.wait.is_some(), is_typed_into && io::stdin().is_terminal()) {
                    (true, true) => Input::All,
                    (true, false) if choices.stdin != Some(Stdin::Null) && !run.ensure => Input::Piped,
                    _ => Input::Nothing,
                };
                let resumes = if run.wait.is_some() { Resumes::OnceStarted } else { Resumes::Never };
                There { input, resumes, ..DRIVE }
            }
            Verb::List(_) => LOOK,
            Verb::Show(show) if show.show_env => DRIVE,
            Verb::Show(_) | Verb::Screen(_) => LOOK,
            Verb::Logs(logs) if logs.pager => {
                return Reach::Here(
                    "leave --pager out, and pipe it into one: outlive --host … logs … | less -R",
                );
            }
            Verb::Logs(logs) => {
                let resumes = if logs.follow { Resumes::Anywhere } else { Resumes::Never };
                let scope = if logs.cursor.is_some() { Scope::Drive } else { Scope::View };
                There { scope, resumes, ..LOOK }
            }
            Verb::Export(export) if export.output.is_some() => {
                return Reach::Here("leave -o out, and redirect it: outlive --host … export … > FILE");
            }
            Verb::Export(_) => LOOK,
            Verb::Play(_) => There { input: Input::All, ..LOOK },
            Verb::Wait(wait) => {
                // The next event may have come meanwhile.
                let is_next = wait.event && wait.since.is_none();
                There { resumes: if is_next { Resumes::Never } else { Resumes::Anywhere }, ..LOOK }
            }
            Verb::Events(events) => {
                There { resumes: if events.follow { Resumes::Anywhere } else { Resumes::Never }, ..LOOK }
            }
            Verb::Send(send) if send.secret_fd.is_some() => {
                return Reach::Here("pass it on standard input: outlive --host … send … --secret <&FD");
            }
            Verb::Send(send) => {
                let reads = send.secret || matches!(send.text.as_deref(), Some(text) if text == "-");
                let copies = send.text.is_none() && send.keys.is_none() && !send.eof;
                There { input: if reads || copies { Input::All } else { Input::Nothing }, ..DRIVE }
            }
            Verb::Attach(attach) if attach.tmux || attach.reset => {
                return Reach::Here("it is about the terminal that you are in: leave --host out");
            }
            Verb::Attach(_) => There { input: Input::All, resumes: Resumes::Anew, ..DRIVE },
            // A queue is of all sessions.
            Verb::Queue(Queue::List) => There { keeps_to_session: false, ..LOOK },
            Verb::Queue(_) => There { scope: Scope::Admin, keeps_to_session: false, ..LOOK },
            Verb::Clear(_)
            | Verb::Watch(_)
            | Verb::Resize(_)
            | Verb::Kill(_)
            | Verb::Restart(_)
            | Verb::Pause(_)
            | Verb::Resume(_)
            | Verb::Remove(_) => DRIVE,
            Verb::Session(Session::List { .. } | Session::Show { show_env: false, .. }) => LOOK,
            Verb::Session(_) => There { scope: Scope::Admin, keeps_to_session: false, ..LOOK },
            Verb::Inbox(inbox) if inbox.peek => LOOK,
            Verb::Inbox(_) => DRIVE,
            Verb::Top(_) => {
                return Reach::Here("outlive --host … list --watch shows the jobs there as they change");
            }
            Verb::Up(_)
            | Verb::Down(_)
            | Verb::Status(_)
            | Verb::Why(_)
            | Verb::Template(_)
            | Verb::Import(_) => return Reach::Here(OF_A_PROJECT),
            Verb::Open(_)
            | Verb::Serve(_)
            | Verb::Rpc
            | Verb::Token(_)
            | Verb::Mcp(_)
            | Verb::Agent(_)
            | Verb::Wake(_) => {
                return Reach::Here(OF_THE_MACHINE);
            }
            Verb::Gc | Verb::Deliver(_) | Verb::Doctor(_) | Verb::Upgrade(_) => {
                return Reach::Here(OF_THE_MACHINE);
            }
            Verb::Setup(_)
            | Verb::Completions { .. }
            | Verb::Help { .. }
            | Verb::Man { .. }
            | Verb::Complete(_)
            | Verb::Version
            | Verb::Converge(_)
            | Verb::Cursor(_)
            | Verb::OnExit(_)
            | Verb::NextRun(_)
            | Verb::Placed(_)
            | Verb::Boot
            | Verb::Probe(_)
            | Verb::Rows(_)
            | Verb::Reference { .. } => return Reach::Own,
        })
    }

    /// Returns the words that name jobs.
    pub(crate) fn references(&mut self) -> Vec<&mut String> {
        let Some(verb) = &mut self.verb else { return Vec::new() };
        match verb {
            Verb::Show(show) => vec![&mut show.job],
            Verb::Watch(watch) => vec![&mut watch.job],
            Verb::Screen(screen) => vec![&mut screen.job],
            Verb::Export(export) => vec![&mut export.job],
            Verb::Play(play) => vec![&mut play.job],
            Verb::Send(send) => vec![&mut send.job],
            Verb::Resize(resize) => vec![&mut resize.job],
            Verb::Attach(attach) => attach.job.iter_mut().collect(),
            Verb::Logs(logs) => logs.jobs.iter_mut().collect(),
            Verb::Wait(wait) => wait.jobs.iter_mut().collect(),
            Verb::Clear(jobs) => jobs.jobs.iter_mut().collect(),
            Verb::Kill(kill) => kill.jobs.iter_mut().collect(),
            Verb::Restart(restart) => restart.jobs.iter_mut().collect(),
            Verb::Pause(jobs) | Verb::Resume(jobs) => jobs.jobs.iter_mut().collect(),
            Verb::Remove(remove) => remove.jobs.iter_mut().collect(),
            Verb::Session(Session::Transfer { jobs, .. }) => jobs.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    /// Takes the name of this machine off: `gpu1/train-3f9c` is `train-3f9c` on `gpu1`.
    pub(crate) fn leave_host(&mut self, host: Option<&str>) {
        if let Some(Verb::Run(run)) = &mut self.verb {
            run.on = None;
        }
        let Some(host) = host else { return };
        for reference in self.references() {
            if let Some(rest) = reference.strip_prefix(host).and_then(|rest| rest.strip_prefix('/')) {
                *reference = rest.to_owned();
            }
        }
    }

    /// Returns the verb's name, for messages.
    pub(crate) fn verb_name(&self) -> String {
        let Some(verb) = &self.verb else { return "outlive".to_owned() };
        let text = format!("{verb:?}");
        text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default().to_ascii_lowercase()
    }
}
