//! The objects of jobs as they were written last: a page asks for all of them again and again, and few have changed.
//!
//! An object is written anew when anything that it is made of has: the job's state, name, session or output, which are looked at for every
//! answer. What depends on more than that ([`JobObject::depends_on_state_alone`]) is never kept.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use outlive::{Job, JobId, JobObject, OutputObject, State};

/// So many objects are kept, of about 1 KiB: as many as an answer can have.
const MOST: usize = 2000;

/// Precedes the one figure that changes by itself.
const RUNTIME: &str = ",\"runtime_ms\":";

/// The objects that were written last.
#[derive(Debug, Default)]
pub(crate) struct Written(Mutex<HashMap<JobId, Object>>);

#[derive(Debug)]
struct Object {
    name: Option<String>,
    session: String,
    state: State,
    output: OutputObject,
    /// Up to the figure, and what comes after it, without the last brace.
    parts: (String, String),
}

impl Object {
    fn is_of(&self, job: &Job, state: &State, output: OutputObject) -> bool {
        self.output == output
            && self.name.as_deref() == job.name()
            && self.session == job.session().as_str()
            && self.state == *state
    }

    fn write(&self, runtime_ms: Option<u64>, to: &mut Vec<u8>) -> io::Result<()> {
        to.extend_from_slice(self.parts.0.as_bytes());
        match runtime_ms {
            Some(ms) => write!(to, "{ms}")?,
            None => to.extend_from_slice(b"null"),
        }
        to.extend_from_slice(self.parts.1.as_bytes());
        Ok(())
    }
}

impl Written {
    /// Writes the object of a job as it is now, without its last brace.
    pub(crate) fn write(
        &self,
        job: &Job,
        state: &State,
        output: OutputObject,
        to: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = objects.get(job.id()).filter(|object| object.is_of(job, state, output)) {
            return object.write(state.runtime_ms(), to);
        }
        let text = serde_json::to_string(&JobObject::with_output(job, state, output))?;
        let text = text.strip_suffix('}').unwrap_or(&text);
        to.extend_from_slice(text.as_bytes());
        objects.remove(job.id());
        if JobObject::depends_on_state_alone(job, state)
            && let Some(parts) = split(text)
        {
            if objects.len() >= MOST {
                objects.clear();
            }
            let (name, session) = (job.name().map(str::to_owned), job.session().to_string());
            let object = Object { name, session, state: state.clone(), output, parts };
            objects.insert(job.id().clone(), object);
        }
        Ok(())
    }
}

/// Takes the figure out of an object. A label may have the same name, and comes before it; no text can have it, for its quotes are escaped.
fn split(text: &str) -> Option<(String, String)> {
    let at = text.rfind(RUNTIME)? + RUNTIME.len();
    let end = at + text[at..].find(',')?;
    Some((text[..at].to_owned(), text[end..].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_taken_out_and_nothing_else() {
        let text = r#"{"labels":{"a":"1","runtime_ms":"x"},"command":"echo ,\"runtime_ms\":3","runtime_ms":12,"output":{"bytes":0}"#;
        let (before, after) = split(text).expect("it is there");
        assert_eq!(format!("{before}12{after}"), text);
        assert!(before.ends_with(r#"3","runtime_ms":"#) && after.starts_with(r#","output""#), "{before}");
        assert_eq!(split("{"), None);
    }
}
