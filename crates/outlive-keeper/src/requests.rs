//! Requests of clients, carried out.

use outlive_core::control::{MAX_SECRET, NOT_HIDDEN, Place, Reply, Request, STILL_STOPPING};
use outlive_core::outcome::Cause;
use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;
use outlive_sys::clock;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::signal::Signal;

use crate::clients::Waiting;
use crate::guard::Word;
use crate::start::Keeper;
use crate::terminal::typed;
use crate::terminal::viewers::Viewer;

impl Keeper {
    /// Exchanges bytes with the clients that are ready, and carries out what they ask for.
    pub(crate) fn serve(&mut self, ready: &[(usize, bool)]) {
        for &(index, is_hung_up) in ready {
            if let Some(client) = self.clients.get_mut(index) {
                client.exchange(is_hung_up);
            }
        }
        // One request of each: a client that pipelines many holds up neither the output nor other clients.
        for index in 0..self.clients.len() {
            if let Some(request) = self.clients[index].next_request() {
                fault::around(Point::ClientServe, || self.carry_out(index, request));
            }
        }
        // A key is read at the size of the window in which it was typed: what the command draws in answer to it stays on the screen.
        self.fit_viewers();
        self.take_waiting_input();
        self.clients.retain(|client| !client.is_finished());
        // Those that are left may suit another size.
        self.fit_viewers();
    }

    fn carry_out(&mut self, index: usize, request: Request) {
        let reply = match request {
            Request::Signal { signal, by } => match Signal::from_number(signal) {
                Some(signal) => {
                    self.custody.note_signal(signal.number(), &by);
                    self.ending.last_signal = Some((signal.number(), by));
                    let sent = self.containment.send(signal);
                    Reply::Signalled { count: sent.reached.len() as u32, survivors: sent.refused }
                }
                None => Reply::refused("bad_signal", "there is no such signal"),
            },
            Request::Kill { signal, grace_ms, by } => match Signal::from_number(signal) {
                Some(signal) => {
                    self.kill(signal, grace_ms, Cause::Kill { by });
                    self.clients[index].waiting = Waiting::Killed;
                    return;
                }
                None => Reply::refused("bad_signal", "there is no such signal"),
            },
            Request::Input(bytes, place) if self.input.is_open() => {
                self.clients[index].waiting = Waiting::Room(bytes, place);
                return;
            }
            Request::Keys(bytes, place) if self.input.is_open() => {
                let client = &mut self.clients[index];
                client.waiting = Waiting::Room(bytes, place);
                if let Some(viewer) = &mut client.viewer {
                    viewer.used_us = clock::boot_us();
                }
                return;
            }
            Request::Secret { bytes, place, is_masked } if self.input.is_open() => {
                self.type_secret(&bytes, place, is_masked)
            }
            Request::View { .. } if self.terminal.is_none() => no_terminal(),
            Request::View { size, sizing } => {
                let viewer = &mut self.clients[index].viewer;
                *viewer = Some(Viewer::seen(*viewer, size, sizing));
                Reply::Accepted
            }
            Request::Upgrade(order) => match self.take_order(order) {
                Ok(()) => {
                    self.clients[index].waiting = Waiting::Upgraded;
                    return;
                }
                Err(refused) => refused,
            },
            Request::Leads if self.leads(index) => Reply::Accepted,
            Request::Leads => Reply::refused("not_leading", "a person typed last at another viewer"),
            Request::Eof(place) if self.input.is_open() => {
                self.input_wait.note_input(b"\n");
                if let Some(terminal) = &self.terminal {
                    let end = terminal.end_of_file();
                    self.clients[index].waiting = Waiting::Room(vec![end], place);
                    return;
                }
                self.input.end();
                Reply::Accepted
            }
            Request::Resize(size) => {
                let reply = self.set_size(size);
                if let (Reply::Accepted, Some(terminal)) = (&reply, &mut self.terminal) {
                    terminal.own_size = size;
                    self.custody.note_size(Word::OwnSize, size);
                }
                reply
            }
            Request::Clear => {
                self.recorder.clear(&self.dir, Timestamp(clock::wall_us()));
                match if self.records_input { typed::clear(&self.dir) } else { Ok(()) } {
                    Ok(()) => Reply::Accepted,
                    Err(error) => {
                        Reply::refused("not_cleared", format!("what was typed cannot be removed: {error}"))
                    }
                }
            }
            Request::Pause => {
                let paused = self.containment.pause();
                self.note_pause();
                match paused {
                    Ok(true) => Reply::Accepted,
                    Ok(false) => Reply::refused(STILL_STOPPING.0, STILL_STOPPING.1),
                    Err(why) => Reply::refused("not_paused", why),
                }
            }
            Request::Resume => {
                self.containment.resume();
                self.note_pause();
                Reply::Accepted
            }
            Request::Awaits => Reply::Described(self.with_input_wait().to_bytes()),
            Request::Snapshot => Reply::Described(self.meta.to_bytes()),
            Request::LiftTimeout if self.ending.cause.is_some() => {
                Reply::refused("ending", "the job is being ended")
            }
            Request::LiftTimeout => {
                self.lift_timeout();
                self.meta.untimed = true;
                self.write_meta(Replacing::META_START);
                Reply::Accepted
            }
            Request::Input(..) | Request::Keys(..) | Request::Secret { .. } | Request::Eof(..) => {
                Reply::refused("stdin_closed", "the command's standard input is not open")
            }
        };
        self.clients[index].reply(&reply);
    }

    pub(crate) fn set_size(&mut self, size: TerminalSize) -> Reply {
        let Some(terminal) = &mut self.terminal else { return no_terminal() };
        // First: what the command prints in answer to it comes after it in the log.
        self.recorder.resize(size, Timestamp(clock::wall_us()));
        self.custody.note_size(Word::Size, size);
        match terminal.resize(size) {
            Ok(()) => Reply::Accepted,
            Err(error) => {
                self.recorder.resize(terminal.size(), Timestamp(clock::wall_us()));
                Reply::refused("no_terminal", error.to_string())
            }
        }
    }

    /// Takes the input that clients wait to write, as far as there is room.
    fn take_waiting_input(&mut self) {
        for client in &mut self.clients {
            let Waiting::Room(bytes, place) = &mut client.waiting else { continue };
            if self.input.is_open() {
                let terminal = self.terminal.as_ref().filter(|_| self.records_input);
                // Asked before it is typed: it may be the answer after which a program asks for a password.
                let is_recorded = terminal.is_some_and(|terminal| !terminal.hides_input());
                let before = self.input.taken_before(*place, bytes.len());
                let taken = self.input.push(bytes, *place);
                if is_recorded && taken > before {
                    typed::record(&self.dir, self.recorder.end(), &bytes[before..taken]);
                }
                if taken > 0 {
                    self.input_wait.note_input(&bytes[..taken]);
                }
                bytes.drain(..taken);
                place.offset += taken as u64;
            }
            // Writing may have shown that the command has closed its end.
            if !self.input.is_open() {
                client.reply(&closed());
            } else if bytes.is_empty() {
                client.reply(&Reply::Accepted);
            }
        }
    }

    /// Types a secret at once, while nothing shows it, or not at all: later the terminal may have other modes.
    fn type_secret(&mut self, bytes: &[u8], place: Place, is_masked: bool) -> Reply {
        let Some(terminal) = &self.terminal else { return no_terminal() };
        // A keeper that died may have typed it.
        if self.input.taken_before(place, bytes.len()) == bytes.len() {
            return Reply::Accepted;
        }
        let why = match self.input.holds() {
            true => Some("what was sent before is not typed yet"),
            false => terminal.shows_secret(is_masked),
        };
        if let Some(why) = why.or((bytes.len() > MAX_SECRET).then_some("it is too long for a line")) {
            return Reply::refused(NOT_HIDDEN, why);
        }
        let taken = self.input.push(bytes, place);
        self.input_wait.note_input(&bytes[..taken]);
        match taken == bytes.len() {
            true => Reply::Accepted,
            false if self.input.is_open() => Reply::refused(NOT_HIDDEN, "its terminal takes no input now"),
            false => closed(),
        }
    }

    /// Writes into the snapshot whether the job is paused.
    pub(crate) fn note_pause(&mut self) {
        if self.meta.paused != self.containment.is_paused {
            self.meta.paused = self.containment.is_paused;
            self.write_meta(Replacing::META_START);
        }
    }
}

fn no_terminal() -> Reply {
    Reply::refused("no_terminal", "the command runs on pipes, not in a terminal")
}

fn closed() -> Reply {
    Reply::refused("stdin_closed", "the command has closed its standard input")
}
