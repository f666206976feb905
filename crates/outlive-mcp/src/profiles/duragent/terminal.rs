//! Processes in a terminal, where that design has a session of tmux.
//!
//! The process runs in a terminal of its own whether or not tmux is there. The session of tmux has one window, with a viewer in it, so
//! it may be closed, and a person may type there.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use outlive::{Job, keys};

use crate::jobs::UNREAD;
use crate::reply::{Failure, Reply};
use crate::tools::Call;

/// Returns the name of the session that shows a process.
fn session_name(job: &Job) -> String {
    format!("duragent-{}", job.id())
}

/// Opens a session with a viewer in it; returns its name, or why there is none.
pub(super) fn open_session(call: &Call<'_>, job: &Job) -> Result<String, String> {
    let name = session_name(job);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut home = OsString::from("OUTLIVE_HOME=");
    home.push(call.store.root());
    let size = job.spec().options.size.unwrap_or_default();
    let mut command = Command::new("tmux");
    command.args(["new-session", "-d", "-s", &name]);
    command.args(["-x", &size.columns().to_string(), "-y", &size.rows().to_string()]);
    // Tmux has a prefix of its own.
    command.arg("env").arg(home).arg(program).args(["attach", job.id().as_str(), "--prefix", "none"]);
    let done = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "it is not installed".to_owned(),
        _ => error.to_string(),
    })?;
    if done.status.success() {
        Ok(name)
    } else {
        Err(outlive::one_line(&String::from_utf8_lossy(&done.stderr)))
    }
}

/// Returns the session that shows a process now.
pub(super) fn session(job: &Job) -> Option<String> {
    let name = session_name(job);
    let mut command = Command::new("tmux");
    command.args(["has-session", "-t", &format!("={name}")]);
    let asked = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success()).then_some(name)
}

/// Answers with the text on the screen.
pub(super) fn capture(call: &Call<'_>, job: &Job) -> Result<Reply, Failure> {
    if !job.spec().options.pty {
        return Err(Failure::new(
            "process was not started with tmux: true, so there is no screen to capture. Use the log action to read its output.",
        ));
    }
    let screen = call
        .store
        .screen_apart(job, None)
        .map_err(|error| Failure::of("the screen cannot be captured", &error))?;
    let text = screen.rows.join("\n");
    Ok(Reply::plain(text.trim_end_matches('\n')))
}

/// Tells whether words can be names of keys: letters with blanks between them are a text, and so is what has quotes.
fn is_names(typed: &str) -> bool {
    let mut words = typed.split_whitespace();
    !typed.contains('"') && (words.clone().count() == 1 || words.all(|word| word.chars().count() > 1))
}

/// Presses keys: as `tmux send-keys` does, names of keys where all words are that, and else the text as it stands.
pub(super) fn send_keys(call: &mut Call<'_>, job: &Job, typed: &str) -> Result<Reply, Failure> {
    if !job.spec().options.pty {
        return Err(Failure::new(
            "process was not started with tmux: true, so it takes no keys. Use the write action to send text to its stdin.",
        ));
    }
    if job.state(call.store).status.has_ended() {
        return Err(Failure::new("process is not running"));
    }
    let enters = call.arguments.choice_of_two("press_enter")?.unwrap_or(true);
    let screen =
        call.store.screen_apart(job, None).map_err(|error| Failure::of("keys were not sent", &error))?;
    let named = keys::parse(typed, &screen.key_modes()).ok().filter(|_| is_names(typed));
    let mut bytes = named.unwrap_or_else(|| typed.replace('\n', "\r").into_bytes());
    bytes.extend(enters.then_some(b'\r'));
    call.store.write_stdin(job, &bytes, UNREAD).map_err(|error| Failure::of("keys were not sent", &error))?;
    Ok(Reply::plain(format!("Sent keys to {}", job.id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_not_taken_for_names() {
        for names in ["n", "C-c", "Up Up Enter", "F5"] {
            assert!(is_names(names), "{names}");
        }
        for text in ["y n", "a Tab", "say \"Up\""] {
            assert!(!is_names(text), "{text}");
        }
    }
}
