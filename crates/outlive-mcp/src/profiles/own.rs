//! Which jobs a profile started, and when it removes them.

use std::time::{Duration, SystemTime};

use outlive::{Job, JobId, OwnLabel, State};

use crate::reply::chain;
use crate::tools::Call;

/// When a profile removes an ended job that it started, before the store's own retention would.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// Tells whether the time of a job that ended then is over.
    pub(crate) is_due: fn(&Call<'_>, &Job, ended: SystemTime) -> bool,
    /// Removes the files that the profile made for a job outside the store.
    pub(crate) remove_files: fn(&Call<'_>, &Job),
}

/// Which front end started a job, as far as profiles have to know.
#[derive(Debug, PartialEq, Eq)]
struct Origin<'a> {
    profile: Option<&'a str>,
    is_foreground: bool,
}

fn origin(job: &Job) -> Origin<'_> {
    let spec = job.spec();
    match spec.labels {
        None => origin_before_labels(job),
        Some(_) => Origin {
            profile: spec.own_label(OwnLabel::Profile),
            is_foreground: spec.own_label(OwnLabel::Foreground).is_some(),
        },
    }
}

/// Tells the origin of a job that a version without labels started: each profile has a form of id.
fn origin_before_labels(job: &Job) -> Origin<'static> {
    // D, H and X stand for a digit of base 10, 16 and 36; ids have no capital letters.
    let forms = [
        ("macos-shell", "HHHHHHHH-HHHH-HHHH-HHHH-HHHHHHHHHHHH"),
        ("claude-code", "shell-DDDDDDDDDDDDD-XXXX"),
        ("deepchat", "bg_XXXXXXXXXXXX"),
        ("duragent", "proc-XXXXXXXX"),
    ];
    let profile = forms.into_iter().find(|(_, form)| has_form(job.id(), form)).map(|(profile, _)| profile);
    let is_foreground = match profile {
        Some("macos-shell") => job.spec().options.group.as_deref() == Some("run_command"),
        Some("claude-code") => job.is_delivered(&outlive::reader_name("claude-code-foreground")),
        _ => false,
    };
    Origin { profile, is_foreground }
}

fn has_form(id: &JobId, form: &str) -> bool {
    let fits = |(c, form): (char, char)| match form {
        'D' => c.is_ascii_digit(),
        'H' => c.is_ascii_hexdigit(),
        'X' => c.is_ascii_alphanumeric(),
        form => c == form,
    };
    id.as_str().len() == form.len() && id.as_str().chars().zip(form.chars()).all(fits)
}

/// Tells whether the profile of this call started a job.
pub(crate) fn is_own(call: &Call<'_>, job: &Job) -> bool {
    origin(job).profile == Some(call.profile.name)
}

/// Tells whether the profile of this call ran a job in the foreground and answered with its end: it never was in the background.
pub(crate) fn is_answered(call: &Call<'_>, job: &Job, state: &State) -> bool {
    let was_waited_for = |runtime_ms| Duration::from_millis(runtime_ms) < call.longest();
    !state.is_live()
        && state.runtime_ms().is_some_and(was_waited_for)
        && job.is_seen()
        && origin(job) == Origin { profile: Some(call.profile.name), is_foreground: true }
}

/// Finds a job that the caller sees by its whole id. A job whose time is over is removed and not found.
pub(crate) fn find(call: &Call<'_>, id: &str) -> Option<Job> {
    let id = JobId::parse(id).ok()?;
    let job = call.store.find(id.as_str(), call.scope.seen()).ok().filter(|job| *job.id() == id)?;
    if is_expired(call, &job, &job.state(call.store)) {
        discard(call, &job);
        return None;
    }
    Some(job)
}

/// Removes the jobs of this profile, in all sessions, whose time is over.
pub(crate) fn sweep(call: &Call<'_>) {
    let jobs = call.store.list(None).map(|listing| listing.jobs).unwrap_or_default();
    for job in jobs.iter().filter(|job| is_own(call, job) && is_expired(call, job, &job.state(call.store))) {
        discard(call, job);
    }
}

/// Tells whether the time of a job is over. A live job, or a job that this profile did not start, stays.
pub(crate) fn is_expired(call: &Call<'_>, job: &Job, state: &State) -> bool {
    let Some(expiry) = &call.profile.expiry else { return false };
    let Some(outcome) = state.outcome.as_ref().filter(|_| !state.is_live()) else { return false };
    let ended = SystemTime::UNIX_EPOCH + Duration::from_micros(outcome.ended.0);
    is_own(call, job) && (expiry.is_due)(call, job, ended)
}

/// Removes a job with its files; what cannot be removed stays until the next sweep.
pub(crate) fn discard(call: &Call<'_>, job: &Job) {
    if let Some(expiry) = &call.profile.expiry {
        (expiry.remove_files)(call, job);
    }
    if let Err(error) = call.store.remove(job) {
        crate::log(&format!("{} stays: {}", job.id(), chain(&error)));
    }
}

/// Tells whether a time is at least this long ago.
pub(crate) fn is_past(time: SystemTime, by: Duration) -> bool {
    time.elapsed().is_ok_and(|age| age >= by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_a_form_or_not() {
        let has = |id: &str, form: &str| has_form(&JobId::parse(id).expect("it is an id"), form);
        assert!(
            has("proc-buy8q086", "proc-XXXXXXXX")
                && has("shell-1794776180980-egrn", "shell-DDDDDDDDDDDDD-XXXX")
        );
        for id in ["proc-worker-7zsw", "proc-3f9c", "proc-buy8q08_", "proc-buy8q0861", "prok-buy8q086"] {
            assert!(!has(id, "proc-XXXXXXXX"), "{id}");
        }
        assert!(!has("0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0g", "HHHHHHHH-HHHH-HHHH-HHHH-HHHHHHHHHHHH"));
    }
}
