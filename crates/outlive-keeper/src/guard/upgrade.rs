//! Executing a newer version in place of the keeper, and then of its guard, while the job goes on. `docs/design/upgrade.md` has the
//! whole.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;

use outlive_core::control::{Reply, Upgrade};
use outlive_core::event::Kind;
use outlive_core::file;
use outlive_core::launch::Launch;
use outlive_core::newer::OrNewer;
use outlive_core::spec::Spec;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::keeper::{GUARD_NAME, KEEPER_NAME, LOCK_FD, PAGE, PROGRAM, RESUME, RESUME_GUARD};
use outlive_sys::region::Region;
use outlive_sys::shared::{self, take};
use outlive_sys::signal::ChildEnds;
use outlive_sys::{clock, durable, exit, spawn};

use super::handover::Handover;
use super::page::{PAGE_VERSION, Phase};
use super::{Custody, Guard, Watched, Word, become_keeper, watch};
use crate::clients::{Client, Waiting};
use crate::containment::Containment;
use crate::ending;
use crate::endpoint::{Output, Terminal};
use crate::input::Input;
use crate::on_exit::OnExit;
use crate::recorder::{Recorder, Transit};
use crate::start::{Common, Held, Keeper, Main};
use crate::supervise::BUFFER;

/// How long a program may take until it gives a sign of life; it takes milliseconds on a machine that is not busy.
const LIMIT_US: u64 = 10_000_000;

/// An upgrade that a client has asked for, and that begins when no other request waits.
pub(crate) type Order = Upgrade;

/// Prints which page this program understands, for front ends that want to know whether it can be executed in place of a keeper.
pub(crate) fn print_page_version() -> io::Result<()> {
    use io::Write;
    let version = env!("CARGO_PKG_VERSION");
    io::stdout().write_all(format!("{PROGRAM} {version} {PAGE} {PAGE_VERSION}\n").as_bytes())
}

impl Keeper {
    /// Takes an order to upgrade, unless it is one that cannot be carried out now.
    pub(crate) fn take_order(&mut self, order: Order) -> Result<(), Reply> {
        if self.custody.get(Word::Attempt) == order.attempt {
            // It was carried out: the answer is how it went.
            return Ok(());
        }
        let refuse = |code: &str, why: &str| Err(Reply::refused(code, why));
        if u64::from(order.page) < PAGE_VERSION {
            return refuse(
                "older_version",
                "that program is of an earlier version than the keeper, and cannot go on in its place",
            );
        }
        if self.order.is_some() || self.custody.phase() != Phase::None {
            return refuse("upgrading", "the keeper is being upgraded already");
        }
        if matches!(self.ending.phase, ending::Phase::Syncing { .. } | ending::Phase::Closed) {
            return refuse("ending", "the job is about to end");
        }
        match self.guard {
            None => {
                return refuse(
                    "no_guard",
                    "the keeper has no guard at this moment, which would take back a version that fails",
                );
            }
            // Such a guard is not the parent of the command.
            Some(Guard::Below(_)) if !exit::can_tell() => {
                return refuse(
                    "no_way_back",
                    "its keeper was replaced before, and this kernel has no way back from a second failure",
                );
            }
            Some(_) => {}
        }
        self.order = Some(order);
        Ok(())
    }

    /// Begins an upgrade that was asked for, once no client has a request that would be lost with its connection.
    pub(crate) fn carry_out_order(&mut self) {
        if !self.clients.iter().any(Client::has_request)
            && let Some(order) = self.order.take()
        {
            let error = self.execute(&order).err();
            self.custody.set(Word::Attempt, order.attempt);
            self.custody.set(Word::AttemptGeneration, self.custody.generation + 1);
            let errno = error.and_then(|error| error.raw_os_error()).unwrap_or(0);
            self.custody.set(Word::AttemptErrno, u64::from(errno.cast_unsigned()));
            self.custody.set_phase(Phase::None, None);
        }
        if self.order.is_none() && self.custody.phase() == Phase::None {
            self.answer_upgraded();
        }
    }

    fn answer_upgraded(&mut self) {
        let custody = self.custody;
        let asking = self.clients.iter_mut().filter(|client| client.waiting == Waiting::Upgraded);
        for client in asking {
            let reply = match (
                custody.generation >= custody.get(Word::AttemptGeneration),
                custody.get(Word::AttemptErrno),
            ) {
                (true, _) => Reply::Accepted,
                (false, 0) => Reply::refused(
                    "upgrade_failed",
                    "the new version gave no sign of life; the job goes on with the version before it",
                ),
                (false, errno) => {
                    let error = io::Error::from_raw_os_error(errno as i32);
                    Reply::refused("upgrade_failed", format!("the program cannot be executed: {error}"))
                }
            };
            client.reply(&reply);
        }
    }

    /// Executes the program. Returns only if that fails, and then this keeper goes on.
    fn execute(&mut self, order: &Order) -> io::Result<()> {
        let custody = self.custody;
        let Some(guard) = self.guard else { return Err(io::ErrorKind::NotFound.into()) };
        let program = CString::new(order.program.as_slice())?;
        self.input.keep_queue();
        let handover = self.handover(&program, guard);
        fault::step(Point::UpgradeSave, || custody.write_handover(&handover))?;
        fault::step(Point::UpgradeUnshare, shared::own_files)?;
        custody.split(guard.id());
        custody.set(Word::AttemptGeneration, custody.generation + 1);
        custody.set(Word::AttemptErrno, 0);
        custody.set(Word::Attempt, order.attempt);
        custody.set_phase(Phase::Keeper, Some(clock::boot_us() + LIMIT_US));
        fault::around(Point::UpgradeTell, || shared::tell(guard.id()));
        let kept = [custody.lent(), self.handed_fds()].concat();
        fault::step(Point::UpgradeExec, || Err(shared::execute(&program, &arguments(RESUME, custody), &kept)))
    }

    fn handed_fds(&self) -> Vec<RawFd> {
        Handover::read(self.custody).map(|handover| handover.fds.all()).unwrap_or_default()
    }

    /// Gives the sign of life of a new version, and lets the guard follow.
    fn follow_up(&mut self, buffer: &mut [u8]) {
        let custody = self.custody;
        fault::around(Point::UpgradeAlive, || {
            custody.set_phase(Phase::Guard, Some(clock::boot_us() + LIMIT_US));
            custody.set(Word::Generation, custody.generation);
        });
        let Some(guard) = self.guard else { return };
        if let Guard::Above(id) = guard {
            return shared::tell(id);
        }
        // Another one is forked; of the two only one can go on in place of this process.
        if !self.make_guard(buffer) {
            shared::end_child(guard.id().pid);
            let is_running = self.ending.is_running();
            self.write_meta(if is_running { Replacing::META_START } else { Replacing::META_END });
        }
    }

    /// When the guard must have given its sign of life.
    pub(crate) fn guard_due_us(&self) -> Option<u64> {
        self.custody.due_us(Phase::Guard)
    }

    /// Ends a guard that gives no sign of life in its new version. Its end is told like any other, and another one is made. One that is the
    /// process of an engine's script is left alone.
    pub(crate) fn end_silent_guard(&mut self) {
        self.custody.set_phase(Phase::Guard, None);
        match self.guard {
            // With it the engine would end the job.
            Some(Guard::Above(_)) if self.custody.is_foreground() => {
                self.custody.set_phase(Phase::None, None);
            }
            Some(Guard::Above(id)) => shared::end(id),
            _ => {}
        }
    }
}

fn arguments(role: &str, custody: Custody) -> Vec<CString> {
    let words = [PROGRAM.to_owned(), role.to_owned(), custody.fd().to_string()];
    words.into_iter().filter_map(|word| CString::new(word).ok()).collect()
}

/// Executes the program in place of a guard whose keeper is of the new version. Returns only if that fails: the guard stays as it is.
pub(super) fn execute_as_guard(custody: Custody) {
    if let Some(handover) = Handover::read(custody) {
        let kept = [custody.lent(), handover.fds.all()].concat();
        let arguments = arguments(RESUME_GUARD, custody);
        let execute = || Err::<(), _>(shared::execute(&handover.program, &arguments, &kept));
        fault::step(Point::UpgradeGuardExec, execute).ok();
    }
    custody.set_phase(Phase::None, None);
    tell_keeper(custody);
}

pub(super) fn tell_keeper(custody: Custody) {
    let pid = i32::try_from(custody.get(Word::KeeperPid)).ok();
    pid.and_then(ProcessId::of).into_iter().for_each(shared::tell);
}

/// Goes on as the keeper, in the program that one of an earlier version has executed; `None` if that is not possible, and then its guard
/// goes on.
pub(crate) fn resume_as_keeper(page: RawFd) -> Option<(Box<Keeper>, Region)> {
    let custody = Custody::inherited(page)?.upgraded();
    shared::set_name(KEEPER_NAME);
    let handover = Handover::read(custody)?;
    let (guard, is_parent) = (handover.guard, handover.is_parent);
    if let Guard::Above(id) = guard {
        shared::hear_of_parent(id.pid);
    }
    let (mut keeper, mut buffer) =
        fault::around(Point::UpgradeResume, || revive(custody, handover, Some(guard), is_parent))?;
    keeper.resume(&mut buffer, Kind::KeeperUpgraded);
    keeper.follow_up(&mut buffer);
    Some((keeper, buffer))
}

/// Goes on as the guard, in the program that one of an earlier version has executed; returns when the keeper has died, and this
/// process goes on in its place.
pub(crate) fn resume_as_guard(page: RawFd) -> Option<(Box<Keeper>, Region)> {
    let custody = Custody::inherited(page)?;
    shared::set_name(GUARD_NAME);
    let needed = Handover::read(custody)?.fds.all();
    let keeper = i32::try_from(custody.get(Word::KeeperPid)).ok()?;
    fault::around(Point::UpgradeGuardAlive, || {
        custody.set(Word::GuardGeneration, custody.generation);
        if custody.phase() == Phase::Guard {
            custody.set_phase(Phase::None, None);
        }
    });
    tell_keeper(custody);
    let code = watch(custody, &needed, true, Watched::Child(keeper));
    become_keeper(custody, keeper, code);
    let (mut keeper, mut buffer) = revive(custody, Handover::read(custody)?, None, true)?;
    keeper.resume(&mut buffer, Kind::KeeperReplaced);
    Some((keeper, buffer))
}

/// Puts a keeper together from what was handed over, the page, the descriptors and the store.
fn revive(
    custody: Custody,
    handover: Handover,
    guard: Option<Guard>,
    is_parent: bool,
) -> Option<(Box<Keeper>, Region)> {
    let Handover { meta, live_mark, sync, fds, groups, nested, on_exit, .. } = handover;
    shared::close_all_but(&[custody.lent(), fds.all()].concat());
    let (lock, dir) = (take(LOCK_FD)?, take(fds.dir)?);
    let (outcome, index) = (File::from(take(fds.outcome)?), File::from(take(fds.index)?));
    let transit = Transit::inherited(take(fds.transit[0])?, take(fds.transit[1])?);
    let options = Spec::parse(&meta.job, &durable::read(&dir, file::SPEC).ok()?).ok()?.options;
    let on_exit = on_exit.zip(take(fds.on_exit)).map(|(kept, program)| OnExit::inherited(kept, program));
    let terminal = match fds.terminal.map(take) {
        [Some(master), Some(side)] => {
            let mut terminal = Terminal::new(master, side, custody.size(Word::OwnSize));
            terminal.answers.set_program(take(fds.answers));
            Some(terminal)
        }
        _ => None,
    };
    spawn::adopt_orphans();
    let (id, level) = (custody.main()?, custody.level()?);
    let mut containment = Containment::inherited(level, groups, nested);
    containment.began(id, Handle::open(id));
    if !is_parent {
        containment.search_below(id);
    }
    let recorder = Recorder::resume(&dir, index, options.output_cap_bytes, custody).ok()?;
    let common = Common {
        custody,
        transit,
        listener: custody.inherit(Word::Listener),
        notices: custody.inherit(Word::Notices),
        child_ends: ChildEnds::new().ok()?,
        buffer: Region::new(BUFFER).ok()?,
    };
    let held = Held {
        lock,
        done: custody.inherit(Word::Done),
        dir,
        outcome,
        recorder,
        outputs: Output::inherit(custody, terminal.is_some()),
        input: Input::inherit(custody),
        terminal,
    };
    let owner = meta.owner.or(meta.keeper)?;
    let main = Main {
        id,
        owner: ProcessId { pid: owner.pid, start_time: owner.start_time },
        started: Timestamp(custody.get(Word::Started)),
        started_boot_us: custody.get(Word::StartedBoot),
        containment,
        kept: OrNewer::known(&meta.kept).copied().unwrap_or_default(),
    };
    let launch = Launch {
        job: meta.job.clone(),
        nonce: meta.nonce,
        live_mark,
        candidates: Vec::new(),
        argv: Vec::new(),
        environment: Vec::new(),
        cwd: b"",
        options,
        sync,
        completion: Vec::new(),
        next_run: Vec::new(),
        is_watching: false,
        due_boot_us: 0,
        after: Vec::new(),
    };
    let (mut keeper, buffer) = Keeper::of(held, common, &launch, main, guard, on_exit);
    keeper.is_parent = is_parent;
    keeper.main = take(fds.main).map(Handle::inherited);
    custody.set(Word::KeeperPid, std::process::id().into());
    Some((keeper, buffer))
}
