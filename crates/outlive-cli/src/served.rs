//! This program as the process of a verb that another machine called (`docs/design/host.md`): for whom it acts, what it may do, and the
//! marks in what it prints, from which a client goes on after its connection broke off.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use outlive::{Code, SessionName, Stream};
use outlive_http::Scope;
use outlive_sys::fault::{self, Point};
use serde::Deserialize;

use crate::args::{Arguments, REACHED, Reach};
use crate::failure::Failure;
use crate::render::give_up;

/// The hidden word after which the terms stand, and then the words of the caller.
pub(crate) const WORD: &str = "served";

/// What the server says of the caller.
#[derive(Debug, Deserialize)]
struct Terms {
    scope: Scope,
    session: Option<SessionName>,
    caller: String,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    reader: Option<SessionName>,
    #[serde(default)]
    mark: Option<String>,
    #[serde(default)]
    places: [Option<String>; 2],
    #[serde(default)]
    elapsed_ms: u64,
    #[serde(default)]
    notice: Option<String>,
}

static TERMS: OnceLock<Terms> = OnceLock::new();

/// Takes the terms, and the terminal that the server made.
pub(crate) fn accept(terms: &OsStr) -> Result<(), Failure> {
    let hint = "it is run by `outlive serve` and `outlive rpc`";
    let terms = terms.to_str().and_then(|terms| serde_json::from_str(terms).ok());
    let terms: Terms = terms.ok_or_else(|| Failure::usage("served: there are no terms", hint))?;
    let is_secret = |mark: &String| !mark.is_empty() && mark.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !terms.mark.iter().all(is_secret) {
        return Err(Failure::usage("served: a mark begins with letters and digits", hint));
    }
    TERMS.set(terms).ok();
    let taken = if io::stdin().is_terminal() {
        outlive_sys::terminal::take(io::stdin())
    } else if io::stdout().is_terminal() {
        outlive_sys::terminal::take(io::stdout())
    } else if io::stderr().is_terminal() {
        outlive_sys::terminal::take(io::stderr())
    } else {
        Ok(())
    };
    taken.map_err(|error| Failure::other("served", &error))
}

/// Tells whether another machine called.
pub(crate) fn is_called() -> bool {
    TERMS.get().is_some()
}

/// Keeps the call to what its caller may do, and fills in what the caller's machine knows.
pub(crate) fn admit(arguments: &mut Arguments) -> Result<(), Failure> {
    let Some(terms) = TERMS.get() else { return Ok(()) };
    let verb = arguments.verb_name();
    let reach = match arguments.reach() {
        Reach::There(reach) => reach,
        Reach::Here(hint) => {
            return Err(Failure::usage(format!("{verb}: not over --host"), hint));
        }
        Reach::Own => {
            return Err(Failure::usage(format!("{verb}: not over --host"), "run it on that machine"));
        }
    };
    if terms.scope < reach.scope {
        let (needed, has) = (reach.scope.word(), terms.scope.word());
        return Err(Failure::new(
            Code::Forbidden,
            format!("{verb}: this needs a token of scope {needed}, and {} has {has}", terms.caller),
        )
        .hint(format!("on that machine: outlive token create NAME --scope {needed}")));
    }
    let common = &mut arguments.common;
    if let Some(own) = &terms.session {
        let is_other = common.session.as_ref().is_some_and(|session| session != own);
        if is_other || !reach.keeps_to_session {
            let message = format!("{verb}: this token is for session {own} alone");
            return Err(Failure::new(Code::Forbidden, message).hint("use a token without a session"));
        }
        common.session = Some(own.clone());
    }
    // A caller that may only look does not move the positions of other readers.
    let as_reader = match terms.scope {
        Scope::View => Some(outlive::reader_name(&format!("view {}", terms.caller))),
        _ => common.reader.take().or_else(|| terms.reader.clone()),
    };
    common.reader = as_reader;
    common.host = None;
    arguments.leave_host(terms.host.as_deref());
    Ok(())
}

/// Returns what the caller calls this machine, for `HOST/JOB`; none where it is no name.
pub(crate) fn host_name() -> Option<&'static str> {
    TERMS.get()?.host.as_deref().filter(|host| !host.contains("://"))
}

/// Lets the commands in a hint be those that the caller can type.
pub(crate) fn addressed(text: &str) -> Cow<'_, str> {
    let Some(host) = TERMS.get().and_then(|terms| terms.host.as_deref()) else { return text.into() };
    let mut parts = text.split("outlive ");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let word = part.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        whole += "outlive ";
        if REACHED.contains(&word) {
            whole += &format!("--host {host} ");
        }
        whole += part;
    }
    whole.into()
}

/// Returns what a viewer shows its user first.
pub(crate) fn notice() -> Option<String> {
    TERMS.get()?.notice.clone()
}

/// Returns the time that the caller has waited already.
pub(crate) fn elapsed() -> Duration {
    Duration::from_millis(TERMS.get().map_or(0, |terms| terms.elapsed_ms))
}

/// Tells whether this goes on where an earlier call was cut off.
pub(crate) fn is_resumed() -> bool {
    TERMS.get().is_some_and(|terms| terms.places.iter().any(Option::is_some))
}

/// Returns the place of a name in the last mark of a stream that the caller received.
pub(crate) fn place(stream: Stream, name: &str) -> Option<u64> {
    places(stream).into_iter().find(|(known, _)| *known == name).map(|(_, place)| place)
}

/// Returns all names and places of the last mark of a stream that the caller received.
pub(crate) fn places(stream: Stream) -> Vec<(&'static str, u64)> {
    let text = TERMS.get().and_then(|terms| terms.places[stream.index()].as_deref()).unwrap_or_default();
    let place =
        |part: &'static str| part.rsplit_once(' ').and_then(|(name, at)| Some((name, at.parse().ok()?)));
    text.split(',').filter_map(place).collect()
}

/// Returns the secret of the caller's marks, and its last ones, for a verb that is passed on; none: it wants no marks.
pub(crate) fn passed_on() -> Option<(&'static str, [Option<String>; 2])> {
    let terms = TERMS.get()?;
    Some((terms.mark.as_deref()?, terms.places.clone()))
}

/// Tells whether the caller wants marks.
pub(crate) fn is_marked() -> bool {
    TERMS.get().is_some_and(|terms| terms.mark.is_some())
}

/// Marks a place in a stream: all that comes before it was printed before it. Names are ids of jobs or of sessions.
pub(crate) fn mark<'a>(stream: Stream, places: impl IntoIterator<Item = (&'a str, u64)>) {
    let Some(secret) = TERMS.get().and_then(|terms| terms.mark.as_deref()) else { return };
    let places: Vec<String> = places.into_iter().map(|(name, at)| format!("{name} {at}")).collect();
    let mark = format!("\x1b]7717;{secret};{};{}\x07", stream.index() + 1, places.join(","));
    let written = fault::write(Point::Mark, mark.as_bytes(), |part| match stream {
        Stream::Stdout => io::stdout().write_all(part).and_then(|()| io::stdout().flush()),
        Stream::Stderr => io::stderr().write_all(part),
    });
    // Half of a mark may be in the stream: what came after it would be taken for the rest.
    if let Err(error) = written {
        give_up(&error);
    }
}
