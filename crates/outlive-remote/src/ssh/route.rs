//! What `ssh` makes of a name of a machine: which shared connection leads there, and what goes with a command. `ssh` itself is asked, and
//! its answer holds for a minute, unless one of the files that it has read is another one by then.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use outlive_sys::durable;
use outlive_sys::fault::Replacing;
use outlive_sys::stamp::Stamp;
use serde::{Deserialize, Serialize};

/// How long an answer holds: what a configuration asks another program for (`Match exec`) is not seen in any file.
const LIFETIME: Duration = Duration::from_secs(60);

/// What `ssh` says, remembered in a file.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Route {
    /// What it was asked for, and where it looks.
    asked: Vec<String>,
    /// The file name of the shared connection; none: each command is a matter for `ssh`.
    pub(crate) connection: Option<String>,
    pub(crate) with_agent: bool,
    /// Patterns of variables that go with a command.
    sends: Vec<String>,
    /// Variables that go with each command, as `NAME=value`.
    sets: Vec<String>,
    /// The files that were read, and the directories that they are in, as they were.
    files: Vec<(PathBuf, u64)>,
}

impl Route {
    /// Returns the last answer, if it still holds.
    pub(crate) fn known(directory: &Path, words: &[String]) -> Option<Self> {
        let asked = asked(words);
        let path = directory.join(file_name(words));
        let written = fs::symlink_metadata(&path).ok()?.modified().ok()?;
        if SystemTime::now().duration_since(written).ok()? >= LIFETIME {
            return None;
        }
        let route: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let is_same = |(path, stamp): &(PathBuf, u64)| stamp_of(path).is_some_and(|now| now == *stamp);
        (route.asked == asked && route.files.iter().all(is_same)).then_some(route)
    }

    /// Asks `ssh`, in the words of a call without its command, and remembers the answer; beside what the caller does.
    pub(crate) fn learn(directory: PathBuf, words: Vec<String>) {
        // One that is cut short because this program ends is asked for again by the next.
        let learn = move || {
            let told =
                Command::new(&words[0]).args(["-G", "-v"]).args(&words[1..]).stdin(Stdio::null()).output();
            let told = told.map(|told| (String::from_utf8(told.stdout), String::from_utf8(told.stderr)));
            let Ok((Ok(settings), Ok(said))) = told else { return };
            let route = Self::of(&directory, asked(&words), &settings, &said);
            let text = serde_json::to_vec(&route).unwrap_or_default();
            // One that cannot be remembered is asked for again.
            let replace =
                |directory| durable::replace(Replacing::ROUTE, directory, &file_name(&words), &text);
            fs::File::open(&directory).and_then(replace).ok();
        };
        std::thread::Builder::new().name("route".to_owned()).spawn(learn).ok();
    }

    fn of(directory: &Path, asked: Vec<String>, settings: &str, said: &str) -> Self {
        let mut route = Self {
            asked,
            connection: None,
            with_agent: false,
            sends: Vec::new(),
            sets: Vec::new(),
            files: files(said),
        };
        let mut is_plain = true;
        for (name, value) in settings.lines().filter_map(|line| line.split_once(' ')) {
            match name {
                "controlpath" => {
                    let name = Path::new(value).strip_prefix(directory).ok().and_then(Path::to_str);
                    route.connection = name.filter(|name| is_connection(name)).map(str::to_owned);
                }
                "forwardagent" => route.with_agent = value != "no",
                "sendenv" => route.sends.push(value.to_owned()),
                "setenv" => route.sets.push(value.to_owned()),
                // What a command needs that is not asked for here.
                "forwardx11" | "stdinnull" | "forkafterauthentication" => is_plain &= value == "no",
                "sessiontype" => is_plain &= value == "default",
                "remotecommand" => is_plain &= value == "none",
                _ => {}
            }
        }
        if !is_plain {
            route.connection = None;
        }
        route
    }

    /// Returns the variables that go with a command, as `ssh` chooses them from its own environment.
    pub(crate) fn variables(&self) -> Vec<Vec<u8>> {
        self.variables_of(std::env::vars_os())
    }

    fn variables_of(&self, own: impl Iterator<Item = (OsString, OsString)>) -> Vec<Vec<u8>> {
        let is_sent =
            |name: &OsString| self.sends.iter().any(|pattern| is_match(pattern.as_bytes(), name.as_bytes()));
        let sent = own.filter(|(name, _)| is_sent(name));
        let sent = sent.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        sent.chain(self.sets.iter().map(|variable| variable.as_bytes().to_vec())).collect()
    }
}

/// What decides which machine is meant: the words, which `ssh` is found, and whose configuration it reads.
fn asked(words: &[String]) -> Vec<String> {
    let own = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let own = ["PATH", "HOME"].map(|name| own(name).unwrap_or_default());
    words.iter().cloned().chain(own).collect()
}

fn file_name(words: &[String]) -> String {
    format!("route-{:016x}", outlive::hash(words.join("\0").as_bytes()))
}

/// Tells whether this is a name that `ssh` makes of `%C`.
fn is_connection(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the files that `ssh` says it has read, and their directories: another file may be added there.
fn files(said: &str) -> Vec<(PathBuf, u64)> {
    const READING: &str = "Reading configuration data ";
    let read = said.lines().filter_map(|line| Some(PathBuf::from(line.split_once(READING)?.1)));
    let users = std::env::home_dir().map(|home| home.join(".ssh"));
    let paths = read.flat_map(|path| [path.parent().map(Path::to_owned), Some(path)]).chain([users]);
    paths.flatten().filter_map(|path| stamp_of(&path).map(|stamp| (path, stamp))).collect()
}

fn stamp_of(path: &Path) -> Option<u64> {
    // What a link leads to is what was read.
    let stamp = Stamp::at(&path.canonicalize().ok()?).ok()?;
    Some(outlive::hash(&stamp.to_bytes()))
}

/// Tells whether a name is of a pattern with `*` and `?`.
fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| is_match(rest, &name[skipped..])),
        ([b'?', pattern @ ..], [_, name @ ..]) => is_match(pattern, name),
        ([first, pattern @ ..], [byte, name @ ..]) if first == byte => is_match(pattern, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECTION: &str = "14cba0ce045cd04246bb159a8b8a2048d51759c0";

    fn route(settings: &str) -> Route {
        Route::of(Path::new("/run/o"), Vec::new(), settings, "")
    }

    #[test]
    fn a_connection_is_one_that_ssh_names_in_our_directory() {
        let named = |path: &str| route(&format!("host a\ncontrolpath {path}\n")).connection;
        assert_eq!(named(&format!("/run/o/{CONNECTION}")).as_deref(), Some(CONNECTION));
        for other in [
            format!("/run/other/{CONNECTION}"),
            format!("/run/o/../{CONNECTION}"),
            format!("/run/o/x/{CONNECTION}"),
            "/run/o/%C".to_owned(),
            "none".to_owned(),
        ] {
            assert_eq!(named(&other), None, "{other}");
        }
    }

    #[test]
    fn what_else_a_command_needs_is_left_to_ssh() {
        let plain =
            format!("controlpath /run/o/{CONNECTION}\nforwardx11 no\nsessiontype default\nstdinnull no\n");
        assert!(route(&plain).connection.is_some());
        for line in ["forwardx11 yes", "remotecommand tmux", "sessiontype subsystem", "stdinnull yes"] {
            assert_eq!(route(&format!("{plain}{line}\n")).connection, None, "{line}");
        }
        assert!(!route("forwardagent no").with_agent);
        assert!(route("forwardagent $SSH_AUTH_SOCK").with_agent);
    }

    #[test]
    fn variables_go_with_a_command_as_with_ssh() {
        let route = route("sendenv LANG\nsendenv LC_*\nsendenv ?X\nsetenv A=b c\n");
        let own = ["LANG", "LANGUAGE", "LC_ALL", "LC_", "XLC_", "AX", "X"];
        let own = own.map(|name| (OsString::from(name), OsString::from("v")));
        let sent = route.variables_of(own.into_iter());
        let sent: Vec<_> = sent.iter().map(|variable| String::from_utf8_lossy(variable)).collect();
        assert_eq!(sent, ["LANG=v", "LC_ALL=v", "LC_=v", "AX=v", "A=b c"]);
    }

    #[test]
    fn an_answer_holds_while_the_files_that_were_read_are_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let (config, words) = (directory.path().join("c/config"), ["ssh".to_owned()]);
        fs::create_dir(directory.path().join("c")).unwrap();
        fs::write(&config, "Host a\n").unwrap();
        let write = || {
            let said = format!("debug1: Reading configuration data {}\r\n", config.display());
            let route = Route::of(directory.path(), asked(&words), "", &said);
            fs::write(directory.path().join(file_name(&words)), serde_json::to_vec(&route).unwrap()).unwrap();
        };
        let is_known = || Route::known(directory.path(), &words).is_some();
        assert!(!is_known());
        write();
        assert!(is_known());
        assert!(Route::known(directory.path(), &["other".to_owned()]).is_none());
        let other = directory.path().join("other");
        fs::write(&other, "Host b\n").unwrap();
        fs::rename(&other, &config).unwrap();
        assert!(!is_known(), "it is another one");
        write();
        assert!(is_known());
        // Times of a directory advance in steps.
        let began = SystemTime::now();
        for name in (0..).map(|number| format!("c/more-{number}")) {
            fs::write(directory.path().join(name), "").unwrap();
            if !is_known() {
                break;
            }
            assert!(began.elapsed().unwrap() < Duration::from_secs(5), "another one may be read");
        }
        write();
        let file = fs::File::open(directory.path().join(file_name(&words))).unwrap();
        file.set_modified(SystemTime::now() - LIFETIME).unwrap();
        assert!(!is_known(), "it is old");
    }
}
