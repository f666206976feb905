//! What each key does.

use std::sync::Arc;

use outlive::Search;

use crate::actions::Action;
use crate::app::{App, Next, Page, Prompt};
use crate::clipboard;
use crate::draw;
use crate::jobs::Row;
use crate::keys::Key;
use crate::text;
use crate::theme::Theme;

/// How far the wheel of a mouse goes.
const WHEEL: i64 = 3;

/// How far lines are moved sideways.
const SIDEWAYS: usize = 8;

/// The most lines that are copied at once.
const MOST_LINES: u64 = 10_000;

impl App {
    /// Does what a key asks for.
    pub(crate) fn type_key(&mut self, key: Key) -> Next {
        if key == Key::Control('c') {
            return Next::Leave;
        }
        if let Some(prompt) = self.prompt.take() {
            self.answer(prompt, key);
            return Next::Stay;
        }
        self.message = None;
        if self.is_help {
            self.is_help = false;
            return Next::Stay;
        }
        match key {
            Key::Char('?') => self.is_help = true,
            Key::Char('a') => return self.may_attach(),
            Key::Char('x') => self.ask_to(Action::Kill),
            Key::Char('X') => self.ask_to(Action::KillHard),
            Key::Char('p') => self.pause_or_resume(),
            Key::Char('r') => self.ask_to(Action::Restart),
            Key::Char('y') => self.copy(),
            Key::Char('m') => {
                self.has_mouse = !self.has_mouse;
                self.to_write.push_str(self.mouse_mode());
                self.tell(if self.has_mouse { "mouse on" } else { "mouse off: select text as ever" });
            }
            // Draws all anew, should another program have written to the terminal.
            Key::Control('l') => self.is_spoiled = true,
            key => match self.page {
                Page::List => return self.type_at_list(key),
                Page::Job => self.type_at_job(key),
            },
        }
        Next::Stay
    }

    fn type_at_list(&mut self, key: Key) -> Next {
        let half = i64::from(draw::list_height(self.area, self.jobs.shown_count()) / 2).max(1);
        match key {
            Key::Char('q') => return Next::Leave,
            Key::Char('j') | Key::Down => self.move_by(1),
            Key::Char('k') | Key::Up => self.move_by(-1),
            Key::Char('g') | Key::Home => self.jobs.choose(0),
            Key::Char('G') | Key::End => self.jobs.choose(usize::MAX),
            Key::Control('d') => self.move_by(half),
            Key::Control('u') => self.move_by(-half),
            Key::PageDown | Key::Control('f') => self.move_by(2 * half),
            Key::PageUp | Key::Control('b') => self.move_by(-2 * half),
            Key::WheelDown => self.move_by(WHEEL),
            Key::WheelUp => self.move_by(-WHEEL),
            Key::Click(_, row) => self.click(row),
            Key::Char(' ') => {
                self.jobs.toggle_mark();
                self.move_by(1);
            }
            Key::Char('/') => self.prompt = Some(Prompt::Filter(self.jobs.filter().to_owned())),
            Key::Enter | Key::Char('l') if self.jobs.chosen().is_some() => self.page = Page::Job,
            Key::Tab => self.toggle_screen(),
            // One thing at a time, the last first.
            Key::Escape if self.jobs.mark_count() > 0 => self.jobs.clear_marks(),
            Key::Escape => self.jobs.set_filter(String::new()),
            _ => {}
        }
        Next::Stay
    }

    fn move_by(&mut self, rows: i64) {
        let place = i64::try_from(self.jobs.cursor()).unwrap_or(i64::MAX).saturating_add(rows).max(0);
        self.jobs.choose(usize::try_from(place).unwrap_or(usize::MAX));
    }

    fn click(&mut self, row: u16) {
        let height = draw::list_height(self.area, self.jobs.shown_count());
        if (draw::LIST_TOP..draw::LIST_TOP + height).contains(&row) {
            self.jobs.choose(self.jobs.top() + usize::from(row - draw::LIST_TOP));
        }
    }

    fn type_at_job(&mut self, key: Key) {
        if matches!(key, Key::Char('q') | Key::Enter) {
            return self.leave_job();
        }
        if key == Key::Char('/') {
            self.prompt = Some(Prompt::Find(String::new()));
            return;
        }
        if key == Key::Tab {
            return self.toggle_screen();
        }
        let Some((_, log)) = &mut self.log else { return };
        match key {
            Key::Char('j') | Key::Down => log.scroll(1),
            Key::Char('k') | Key::Up => log.scroll(-1),
            Key::Char('g') | Key::Home => log.go_to_start(),
            Key::Char('G') | Key::End => log.go_to_end(),
            Key::Control('d') => log.half_page(1),
            Key::Control('u') => log.half_page(-1),
            Key::PageDown | Key::Control('f') | Key::Char(' ') => log.page(1),
            Key::PageUp | Key::Control('b') => log.page(-1),
            Key::WheelDown => log.scroll(WHEEL),
            Key::WheelUp => log.scroll(-WHEEL),
            Key::Char('f') => log.toggle_follow(),
            Key::Char('w') => (log.is_wrapped, log.left) = (!log.is_wrapped, 0),
            Key::Right if !log.is_wrapped => log.left += SIDEWAYS,
            Key::Left => log.left = log.left.saturating_sub(SIDEWAYS),
            Key::Char('v') => log.toggle_selection(),
            Key::Char('n') => self.find_next(false),
            Key::Char('N') => self.find_next(true),
            Key::Escape if log.selection.is_some() => log.selection = None,
            Key::Escape if log.search.include.is_some() => {
                (log.search, log.found) = (Search::default(), None)
            }
            Key::Escape => self.leave_job(),
            _ => {}
        }
    }

    /// Back to the list, where the end of the output is shown.
    fn leave_job(&mut self) {
        (self.page, self.log) = (Page::List, None);
    }

    fn toggle_screen(&mut self) {
        if let Some((_, log)) = &mut self.log {
            log.shows_lines = !log.shows_lines || log.screen.is_none();
        }
    }

    /// Takes a key of a prompt; while it is not answered, it stays.
    fn answer(&mut self, prompt: Prompt, key: Key) {
        match prompt {
            Prompt::Confirm(action, _) => {
                if matches!(key, Key::Char('y' | 'Y')) {
                    self.act(action);
                }
            }
            Prompt::Filter(mut text) => match key {
                Key::Enter => {}
                Key::Escape => self.jobs.set_filter(String::new()),
                key => {
                    edit(&mut text, key);
                    self.jobs.set_filter(text.clone());
                    self.prompt = Some(Prompt::Filter(text));
                }
            },
            Prompt::Find(mut text) => match key {
                Key::Enter => self.find(&text),
                Key::Escape => {}
                key => {
                    edit(&mut text, key);
                    self.prompt = Some(Prompt::Find(text));
                }
            },
        }
    }

    /// Searches the output; capital letters count where the pattern has one.
    fn find(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let ignores_case = !text.chars().any(char::is_uppercase);
        let pattern = match outlive::pattern(text, ignores_case) {
            Ok(pattern) => pattern,
            Err(error) => return self.fail(error.to_string()),
        };
        let Some((_, log)) = &mut self.log else { return };
        log.shows_lines = true;
        match log.find(Search { include: Some(pattern), ..Search::default() }) {
            Ok(true) => {}
            Ok(false) => self.fail(format!("{text:?} is not in the output")),
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn find_next(&mut self, is_back: bool) {
        let Some((_, log)) = &mut self.log else { return };
        if log.search.include.is_none() {
            return self.fail("nothing was searched for yet: press /");
        }
        match log.find_next(is_back) {
            Ok(true) => {}
            Ok(false) => self.fail(if is_back { "no match before" } else { "no match after" }),
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn may_attach(&mut self) -> Next {
        match self.jobs.chosen() {
            None => return Next::Stay,
            Some(row) if !row.state.is_live() => self.fail(format!("{} has ended", row.job.id())),
            Some(row) if !row.job.spec().options.pty => {
                self.fail(format!("{} has no terminal: start it with outlive run -t", row.job.id()));
            }
            Some(_) => return Next::Attach,
        }
        Next::Stay
    }

    /// Asks once before jobs are ended or started again.
    fn ask_to(&mut self, action: Action) {
        let ids: Vec<&str> = self.targets(action).iter().map(|row| row.job.id().as_str()).collect();
        let jobs = match ids[..] {
            [] if action == Action::Restart => return,
            [] => return self.fail("nothing of it runs any more"),
            [job] => job.to_owned(),
            [first, ref rest @ ..] => format!("{} jobs, {first} and {} more,", ids.len(), rest.len()),
        };
        self.prompt = Some(Prompt::Confirm(action, action.question(&jobs)));
    }

    /// Returns the jobs that something can be done to: what has ended can only be started again.
    fn targets(&self, action: Action) -> Vec<&Row> {
        if action == Action::Restart { self.jobs.targets() } else { self.live_targets() }
    }

    fn live_targets(&self) -> Vec<&Row> {
        self.jobs.targets().into_iter().filter(|row| row.state.is_live()).collect()
    }

    fn pause_or_resume(&mut self) {
        let live = self.live_targets();
        match live.iter().any(|row| !row.is_paused()) {
            _ if live.is_empty() => self.fail("nothing of it runs any more"),
            true => self.act(Action::Pause),
            false => self.act(Action::Resume),
        }
    }

    /// Begins to do something to the marked jobs, or to the chosen one.
    fn act(&mut self, action: Action) {
        let targets = self.targets(action);
        let is_wanted = |row: &&&Row| action != Action::Pause || !row.is_paused();
        let wanted: Vec<_> = targets
            .iter()
            .filter(is_wanted)
            .map(|row| (row.job.id().clone(), row.job.spec().nonce))
            .collect();
        let (store, count) = (Arc::clone(&self.store), wanted.len());
        self.tell(match &wanted[..] {
            [(id, _)] => format!("{} {id} …", action.beginning()),
            _ => format!("{} {count} jobs …", action.beginning()),
        });
        // By id and nonce: a job that took the id meanwhile is another.
        for job in wanted.iter().filter_map(|(id, nonce)| store.find_exactly(id, *nonce)) {
            self.actions.start(&store, job, action);
        }
        self.jobs.clear_marks();
    }

    /// Copies the lines of the output, or the ids of jobs.
    fn copy(&mut self) {
        let text = match (self.page, &mut self.log) {
            (Page::Job, Some((_, log))) if log.shows_lines => {
                let lines = log.lines_to_copy(MOST_LINES).unwrap_or_default();
                log.selection = None;
                let plain = |line: &outlive::Line| {
                    let characters = text::read(&line.text, Theme { is_coloured: false });
                    characters.into_iter().map(|(character, _)| character).chain(['\n']).collect::<String>()
                };
                lines.iter().map(plain).collect::<String>()
            }
            (Page::Job, Some((_, log))) => {
                log.screen.as_ref().map(|screen| screen.screen().text()).unwrap_or_default()
            }
            _ => {
                let ids: Vec<&str> = self.jobs.targets().iter().map(|row| row.job.id().as_str()).collect();
                ids.join("\n")
            }
        };
        if text.is_empty() {
            return self.fail("there is nothing to copy");
        }
        if text.len() > clipboard::MOST {
            return self.fail(format!(
                "{} are too much for a terminal to copy",
                outlive::duration::format_size(text.len() as u64)
            ));
        }
        self.to_write.push_str(&clipboard::copy(&text));
        let what = match text.lines().count() {
            1 => outlive::one_line(text.trim_end()),
            lines => format!("{lines} lines"),
        };
        self.tell(format!("copied {what}"));
    }
}

/// Changes a text as a key says.
fn edit(text: &mut String, key: Key) {
    match key {
        Key::Char(character) => text.push(character),
        Key::Paste(pasted) => text.push_str(&outlive::one_line(pasted.trim_end())),
        Key::Backspace => {
            text.pop();
        }
        Key::Control('u') => text.clear(),
        Key::Control('w') => {
            let kept = text.trim_end().rfind(' ').map_or(0, |space| space + 1);
            text.truncate(kept);
        }
        _ => {}
    }
}
