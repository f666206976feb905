//! The keeper of a running command: what it has, and how that is put together.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use outlive_core::containment::Kept;
use outlive_core::control::SPOKEN;
use outlive_core::event::{Event, Kind};
use outlive_core::launch::{Launch, LaunchReply, SyncOrder};
use outlive_core::meta::Meta;
use outlive_core::options::Restart;
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::clock::Alarm;
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::region::Region;
use outlive_sys::signal::ChildEnds;
use outlive_sys::tree;

use super::process;
use crate::clients::Client;
use crate::containment::Containment;
use crate::ending::Ending;
use crate::endpoint::{Output, Terminal};
use crate::guard::foreground::Foreground;
use crate::guard::{Custody, Guard, Order, Word};
use crate::input::Input;
use crate::lifetime::Expiry;
use crate::limits::LimitMonitor;
use crate::on_exit::OnExit;
use crate::prober::ProberWatch;
use crate::recorder::{Recorder, Transit};
use crate::terminal::awaits::InputWait;
use crate::turn;

/// The keeper of a running command.
pub(crate) struct Keeper {
    /// Held until the job is over, at its fixed number.
    pub(crate) lock: OwnedFd,
    pub(crate) custody: Custody,
    pub(crate) guard: Option<Guard>,
    /// A hold on the command, so that a guard below this process learns how it ends.
    pub(crate) main: Option<Handle>,
    /// This process is the parent of all that is left of the job.
    pub(crate) is_parent: bool,
    /// When to look at what is left of a job that this process is not the parent of.
    pub(crate) look_us: Option<u64>,
    pub(crate) transit: Transit,
    /// Held until the outcome is written.
    pub(crate) done: Option<OwnedFd>,
    pub(crate) dir: OwnedFd,
    pub(crate) live_mark: String,
    pub(crate) outcome: File,
    pub(crate) recorder: Recorder,
    pub(crate) outputs: Vec<Output>,
    pub(crate) input: Input,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) input_wait: InputWait,
    /// What is typed is kept.
    pub(crate) records_input: bool,
    /// None once no request can be carried out any more.
    pub(crate) listener: Option<OwnedFd>,
    /// Where the command says that it is ready, if that is asked for.
    pub(crate) notices: Option<OwnedFd>,
    pub(crate) clients: Vec<Client>,
    /// When connections are accepted again; none: now.
    pub(crate) accept_us: Option<u64>,
    pub(crate) child_ends: ChildEnds,
    pub(crate) meta: Meta,
    pub(crate) started_boot_us: u64,
    /// When it is ended: its time is over, or the next run is due.
    pub(crate) deadline_us: Option<u64>,
    /// When the next run is due, where this one is ended for it.
    pub(crate) replaced_us: Option<u64>,
    /// Wakes the loop at the deadline.
    pub(crate) alarm: Option<Alarm>,
    pub(crate) grace_ms: u64,
    pub(crate) containment: Containment,
    pub(crate) limit_monitor: LimitMonitor,
    pub(crate) expiry: Expiry,
    pub(crate) prober: ProberWatch,
    pub(crate) on_exit: Option<OnExit>,
    pub(crate) restart: Restart,
    /// Another run follows at its time.
    pub(crate) is_scheduled: bool,
    /// How often the program was started that makes the next run.
    pub(crate) next_run_attempts: u32,
    /// When to start it once more.
    pub(crate) next_run_us: Option<u64>,
    pub(crate) sync: SyncOrder,
    pub(crate) ending: Ending,
    /// An upgrade that was asked for.
    pub(crate) order: Option<Order>,
    /// What an engine asks for that has started the process of the first guard.
    pub(crate) foreground: Option<Foreground>,
}

/// What a keeper has, whether it started the command or goes on in place of one that did.
pub(crate) struct Common {
    pub(crate) custody: Custody,
    pub(crate) transit: Transit,
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) notices: Option<OwnedFd>,
    pub(crate) child_ends: ChildEnds,
    pub(crate) buffer: Region,
}

/// The descriptors of the job.
pub(crate) struct Held {
    pub(crate) lock: OwnedFd,
    pub(crate) done: Option<OwnedFd>,
    pub(crate) dir: OwnedFd,
    pub(crate) outcome: File,
    pub(crate) recorder: Recorder,
    pub(crate) outputs: Vec<Output>,
    pub(crate) input: Input,
    pub(crate) terminal: Option<Terminal>,
}

/// The command that runs.
pub(crate) struct Main {
    pub(crate) id: ProcessId,
    /// The process that its control groups are named after.
    pub(crate) owner: ProcessId,
    pub(crate) started: Timestamp,
    pub(crate) started_boot_us: u64,
    pub(crate) containment: Containment,
    pub(crate) kept: Kept,
}

impl Keeper {
    /// Puts the parts together; returns the buffer that output is read into, too.
    pub(crate) fn of(
        held: Held,
        common: Common,
        launch: &Launch<'_>,
        main: Main,
        guard: Option<Guard>,
        on_exit: Option<OnExit>,
    ) -> (Box<Self>, Region) {
        let Held { lock, done, dir, outcome, recorder, outputs, input, terminal } = held;
        let Main { id, owner, started, started_boot_us, containment, kept } = main;
        let meta = Meta {
            status: Status::Running.into(),
            owner: Some(process(owner)),
            command: Some(process(id)),
            started: Some(started),
            started_boot_us: Some(started_boot_us),
            containment: Some(containment.describe()),
            kept: kept.into(),
            ..snapshot(launch, guard.map(Guard::id))
        };
        let timeout_us = launch.options.timeout_ms.map(|limit| limit.saturating_mul(1000));
        let deadline_us = timeout_us.map(|limit| started_boot_us.saturating_add(limit));
        let replaced_us = turn::replaced_us(&dir, &launch.options);
        let deadline_us = deadline_us.into_iter().chain(replaced_us).min();
        // One that goes on in place of another finds it there.
        if launch.is_watching {
            common.custody.set(Word::IsWatching, 1);
        }
        let is_watching = common.custody.get(Word::IsWatching) == 1;
        let keeper = Box::new(Self {
            lock,
            custody: common.custody,
            guard,
            main: None,
            is_parent: true,
            look_us: None,
            transit: common.transit,
            done,
            dir,
            live_mark: launch.live_mark.clone(),
            outcome,
            recorder,
            outputs,
            input_wait: InputWait::new(input.is_open()),
            input,
            terminal,
            records_input: launch.options.record_input,
            listener: common.listener,
            notices: common.notices,
            clients: Vec::new(),
            accept_us: None,
            child_ends: common.child_ends,
            meta,
            started_boot_us,
            // Without one, the deadline is met by the time that the loop counts.
            alarm: deadline_us.and_then(|deadline| Alarm::at(deadline).ok()),
            deadline_us,
            replaced_us,
            grace_ms: launch.options.grace_ms,
            limit_monitor: LimitMonitor::new(launch.options.limits, kept),
            expiry: Expiry::new(launch.options.lifetime),
            prober: ProberWatch::new(&launch.options, is_watching),
            on_exit,
            restart: launch.options.restart,
            is_scheduled: launch.options.schedule.is_set(),
            next_run_attempts: 0,
            next_run_us: None,
            containment,
            sync: launch.sync,
            ending: Ending::new(id.pid, launch.options.survivors),
            order: None,
            foreground: Foreground::new(common.custody),
        });
        (keeper, common.buffer)
    }

    /// Tells the starter and the session that the command runs.
    pub(crate) fn answer_starter(&self, starter: Option<UnixStream>) {
        let Some(command) = self.meta.command else { return };
        match starter {
            // A starter that died meanwhile changes nothing.
            Some(mut starter) => {
                let reply = LaunchReply::Started(command).to_frame();
                fault::step(Point::LaunchReply, || starter.write_all(&reply)).ok();
            }
            // The starter of a command that had to wait was answered then.
            None if self.custody.get(Word::Turn) == turn::COME => {}
            None => return,
        }
        tree::raise_oom_score(command.pid);
        let at = self.meta.started.unwrap_or(Timestamp(0));
        self.write_event(&Event { at, ..self.event(Kind::Started) });
        self.custody.withdraw(Word::Starter);
        self.custody.set(Word::Turn, 0);
    }
}

/// Returns the snapshot of a job whose command was not executed yet.
pub(crate) fn snapshot(launch: &Launch<'_>, guard: Option<ProcessId>) -> Meta {
    Meta {
        format: outlive_core::FORMAT,
        job: launch.job.clone(),
        nonce: launch.nonce,
        status: Status::Queued.into(),
        keeper: Some(process(ProcessId::current())),
        guard: guard.map(process),
        owner: None,
        command: None,
        command_line: Some(command_line(&launch.argv)),
        started: None,
        started_boot_us: None,
        protocol: SPOKEN,
        outlive: Some(env!("CARGO_PKG_VERSION").to_owned()),
        containment: None,
        kept: Default::default(),
        paused: false,
        awaits: None,
        notified: false,
        untimed: false,
        near: None,
        out_of_memory: None,
        outcome: None,
        closed: None,
        newer: Default::default(),
    }
}

/// The most bytes of a command in the snapshot, which is written at every transition; all of it is in the spec.
const LONGEST_COMMAND: usize = 1024;

/// Returns a command as people read it: the line that a shell was given, else the arguments with blanks between them.
pub(crate) fn command_line(argv: &[&[u8]]) -> String {
    let line = match argv {
        [_, option, line] if *option == b"-c" => String::from_utf8_lossy(line).into_owned(),
        argv => argv.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" "),
    };
    let end =
        line.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|&end| end <= LONGEST_COMMAND).last();
    line[..end.unwrap_or(0)].to_owned()
}
