//! What an agent needs to know of the servers it starts: ports, what holds a port, what runs already, and whose exit code it sees.

use std::path::{Path, PathBuf};

use outlive::{Job, Listeners, State};

use super::Call;
use crate::jobs;

/// Filters at the end of a pipeline, whose exit code says nothing of what they read.
const FILTERS: [&str; 12] =
    ["tail", "head", "tee", "cat", "grep", "sed", "awk", "wc", "sort", "uniq", "cut", "less"];

/// Says what a live job listens on, unless the text says so already.
pub(super) fn ports(call: &Call<'_>, job: &Job, state: &State, text: &str) -> Option<String> {
    let tree = if state.is_live() { job.tree(call.store, state)? } else { return None };
    let mut ports: Vec<u16> = tree.ports(&mut Listeners::new()).iter().map(|port| port.port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports.retain(|port| !text.contains(&format!(":{port}")));
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    (!ports.is_empty()).then(|| format!("listens on {}", ports.join(", ")))
}

/// Says which job holds the port that a job could not listen on, and how to end it.
pub(super) fn port_conflict(call: &Call<'_>, job: &Job, output: &str) -> Option<String> {
    let line = output.lines().find(|line| is_in_use(line))?;
    // Python does not say which: then it is the one that was asked for.
    let asked = || job.spec().ready().and_then(|ready| ready.port);
    let port = port_of(line).or_else(asked).or_else(|| port_in(&job.spec().command_line()))?;
    Some(match call.store.find_by_port(port, call.scope.seen()) {
        Ok(holder) if holder.id() == job.id() => return None,
        Ok(holder) => format!("port {port} is held by {}: kill port={port} ends it", holder.id()),
        Err(_) => format!("port {port} is held by no job of this project"),
    })
}

fn is_in_use(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    ["eaddrinuse", "address already in use", "address in use"].iter().any(|words| lower.contains(words))
        || (lower.contains("port ") && (lower.contains("in use") || lower.contains("already allocated")))
}

/// Returns the port that a line names.
fn port_of(line: &str) -> Option<u16> {
    let lower = line.to_ascii_lowercase();
    // A number after a colon, as in an address, or after the word; the first may be a line of source.
    let numbers = lower.match_indices(':').map(|(at, _)| at + 1);
    let numbers = numbers.chain(lower.match_indices("port ").map(|(at, word)| at + word.len()));
    let read = |at: usize| {
        let digits = lower[at..].split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u16>().ok().filter(|port| *port >= 80)
    };
    numbers.filter_map(read).last()
}

/// Returns the port that a command line names: a word that is a number, or ends with one after `:` or `=`.
fn port_in(command: &str) -> Option<u16> {
    let number = |word: &str| word.rsplit([':', '=']).next().and_then(|number| number.parse::<u16>().ok());
    let words = command.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '&'));
    words.filter_map(number).rfind(|port| *port >= 80)
}

/// Finds the newest live job of the same command in the same directory.
pub(super) fn running_already(call: &Call<'_>, line: &str, cwd: Option<&Path>) -> Option<Job> {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let cwd = whole(cwd.or(call.scope.directory.as_deref()).unwrap_or(&call.scope.here));
    let is_same = |job: &Job| {
        let spec = job.spec();
        spec.shell_line.is_some()
            && spec.command_line() == line
            && whole(&PathBuf::from(spec.cwd.to_lossy())) == cwd
            && !job.state(call.store).status.has_ended()
    };
    jobs::list(call).ok()?.into_iter().rev().find(is_same)
}

/// Says whose exit code a success is, where a filter at the end of a pipeline hides the others and these are not known.
pub(super) fn pipeline(job: &Job) -> Option<String> {
    let line = job.spec().command_line();
    let last = outlive::end_of_pipe(&line)?.split_whitespace().next()?.trim_end_matches(')');
    let is_known = job.pipe_codes().is_some_and(|codes| codes.len() > 1) || line.contains("pipefail");
    (!is_known && FILTERS.contains(&last))
        .then(|| format!("exit 0 is that of {last}, the end of a pipe; the codes before it are not known"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_are_read_from_what_servers_print() {
        for (line, port) in [
            ("Error: listen EADDRINUSE: address already in use :::3000", Some(3000)),
            ("OSError: [Errno 98] Address already in use: ('127.0.0.1', 8000)", None),
            ("bind(): Address already in use 127.0.0.1:5432", Some(5432)),
            ("Port 5173 is in use, trying another one...", Some(5173)),
            ("server.js:12 port 8080 is already in use", Some(8080)),
            ("listening on :3000", None),
        ] {
            assert_eq!(port_of(line).filter(|_| is_in_use(line)), port, "{line}");
        }
    }

    #[test]
    fn ports_are_read_from_command_lines() {
        for (line, port) in [
            ("python3 -m http.server 8000 --bind 127.0.0.1", Some(8000)),
            ("python3 -m http.server --bind 127.0.0.1 8000", Some(8000)),
            ("vite --port=5173 --host 0.0.0.0", Some(5173)),
            ("PORT=3000 npm start", Some(3000)),
            ("gunicorn -b 127.0.0.1:8080 app:app -w 4", Some(8080)),
            ("sleep 5; npm run dev", None),
        ] {
            assert_eq!(port_in(line), port, "{line}");
        }
    }
}
