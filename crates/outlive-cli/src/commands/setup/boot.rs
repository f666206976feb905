//! `outlive setup boot`: lets what must come back do so after a restart of the machine, by a unit of the user's systemd, else by a line in
//! the user's crontab. Both run `outlive boot`.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use outlive::BOOT_UNIT;
use serde_json::json;

use super::client::{directory, shown};
use super::entry::{NAME, in_path, quoted};
use super::file::Settings;
use super::{diff, failure, indented, repeated_with_write};
use crate::args::Setup;
use crate::failure::{Failure, chain};
use crate::render::answer;

/// Ends our line in a crontab.
const MARK: &str = "# outlive setup boot";

pub(super) fn run(arguments: &Setup, is_json: bool) -> Result<ExitCode, Failure> {
    let place = Place::of_this_machine()?;
    if arguments.print {
        let text = place.text()?;
        return answer(is_json, &json!({ "place": place.name(), "text": text }), || text.clone());
    }
    let old = place.read()?;
    let wanted = if arguments.remove { place.without(&old) } else { place.with(&old)? };
    let is_changed = wanted != old || place.is_enabled() == Some(arguments.remove);
    if arguments.write && is_changed {
        place.write(&old, &wanted)?;
    }
    let diff = diff::diff(&old, &wanted);
    let object = json!({
        "place": place.name(), "changed": is_changed, "written": is_changed && arguments.write, "diff": diff,
    });
    let name = place.name();
    answer(is_json, &object, || match (is_changed, arguments.write, arguments.remove) {
        (false, _, true) => format!("nothing to do: {name} has nothing of {NAME}\n"),
        (false, _, false) => format!("nothing to do: {name} lets {NAME} come back already\n"),
        (true, false, _) => {
            format!(
                "this changes {name}:\n\n{}\nto have it done: {}\n",
                indented(&diff),
                repeated_with_write()
            )
        }
        (true, true, true) => format!("{NAME} no longer comes back after a restart: removed from {name}\n"),
        (true, true, false) => {
            let hint = place.hint().map(|hint| format!("{hint}\n")).unwrap_or_default();
            format!(
                "schedules and jobs with --restart always come back after a restart: {name}\n{hint}to take it out again: {NAME} setup boot --remove --write\n"
            )
        }
    })
}

/// Where it is said what runs after a restart.
enum Place {
    /// A unit of the user's systemd.
    Unit {
        file: PathBuf,
        /// The link by which it is wanted.
        link: PathBuf,
    },
    /// The user's crontab, changed by this program.
    Crontab(PathBuf),
}

impl Place {
    fn of_this_machine() -> Result<Self, Failure> {
        let units = directory("systemd", "XDG_CONFIG_HOME", ".config")?.join("systemd/user");
        let file = units.join(BOOT_UNIT);
        // What was set up is found again, whatever runs now.
        if Path::new("/run/systemd/system").exists() || file.exists() {
            let link = units.join("default.target.wants").join(BOOT_UNIT);
            return Ok(Self::Unit { file, link });
        }
        in_path("crontab").map(Self::Crontab).ok_or_else(|| {
            failure(
                "there is neither systemd nor crontab on this machine",
                "let what starts your services run `outlive boot` once, as your user",
            )
        })
    }

    fn name(&self) -> String {
        match self {
            Self::Unit { file, .. } => shown(file),
            Self::Crontab(_) => "your crontab".to_owned(),
        }
    }

    /// What is to be there, for a person who puts it there.
    fn text(&self) -> Result<String, Failure> {
        let program = std::env::current_exe().and_then(|path| path.canonicalize());
        let program = program.map_err(|error| {
            failure(format!("cannot tell where this program is: {}", chain(&error)), "run it again")
        })?;
        let home = std::env::var("OUTLIVE_HOME").ok().filter(|home| !home.is_empty());
        Ok(match self {
            Self::Unit { .. } => {
                let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
                let home = home.map(|home| format!("Environment=\"OUTLIVE_HOME={}\"\n", escaped(&home)));
                // What it starts stays when it has ended.
                format!(
                    "[Unit]\nDescription=Jobs of outlive that come back after a restart\n\n[Service]\nType=oneshot\n\
                     RemainAfterExit=yes\nKillMode=process\n{}ExecStart=\"{}\" boot\n\n[Install]\nWantedBy=default.target\n",
                    home.unwrap_or_default(),
                    escaped(&program.to_string_lossy())
                )
            }
            Self::Crontab(_) => {
                let home = home.map(|home| format!("OUTLIVE_HOME={} ", quoted([home])));
                // A per cent sign ends a command of a crontab.
                let line = format!("{}{} boot", home.unwrap_or_default(), quoted([program]));
                format!("@reboot {} {MARK}\n", line.replace('%', "\\%"))
            }
        })
    }

    fn read(&self) -> Result<String, Failure> {
        match self {
            Self::Unit { file, .. } => Ok(Settings::read(file)?.text),
            Self::Crontab(program) => {
                let output = Command::new(program).arg("-l").stdin(Stdio::null()).output();
                let output = output
                    .map_err(|error| failure(format!("crontab: {}", chain(&error)), "run crontab -l"))?;
                let said = String::from_utf8_lossy(&output.stderr);
                match String::from_utf8(output.stdout) {
                    Ok(text) if output.status.success() => Ok(text),
                    // A user without a crontab has an empty one. What fails otherwise may hold lines that must not be replaced.
                    Ok(_) if said.contains("no crontab") => Ok(String::new()),
                    Ok(_) => Err(failure(format!("crontab -l fails: {}", said.trim()), "run crontab -l")),
                    Err(_) => Err(failure(
                        "your crontab is not UTF-8".to_owned(),
                        "add the line of --print yourself: crontab -e",
                    )),
                }
            }
        }
    }

    /// Tells whether a unit that is there is wanted at boot; `None` of a crontab.
    fn is_enabled(&self) -> Option<bool> {
        match self {
            Self::Unit { link, .. } => Some(link.is_symlink()),
            Self::Crontab(_) => None,
        }
    }

    fn without(&self, old: &str) -> String {
        match self {
            Self::Unit { .. } => String::new(),
            Self::Crontab(_) => {
                old.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(MARK)).collect()
            }
        }
    }

    fn with(&self, old: &str) -> Result<String, Failure> {
        let mut kept = self.without(old);
        if !kept.is_empty() && !kept.ends_with('\n') {
            kept.push('\n');
        }
        Ok(kept + &self.text()?)
    }

    fn write(&self, old: &str, text: &str) -> Result<(), Failure> {
        match self {
            Self::Unit { file, link } => {
                let settings = Settings::read(file)?;
                let failed = |error: std::io::Error| {
                    failure(format!("{}: {}", shown(link), chain(&error)), "nothing was enabled")
                };
                if link.is_symlink() {
                    std::fs::remove_file(link).map_err(failed)?;
                }
                if text.is_empty() {
                    return if old.is_empty() { Ok(()) } else { settings.remove() };
                }
                settings.replace(text)?;
                std::fs::create_dir_all(link.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
                symlink(file, link).map_err(failed)
            }
            Self::Crontab(program) => {
                let failed = |why: String| failure(format!("crontab: {why}"), "nothing was changed");
                let child = Command::new(program).arg("-").stdin(Stdio::piped()).spawn();
                let mut child = child.map_err(|error| failed(chain(&error)))?;
                let mut input = child.stdin.take().ok_or_else(|| failed("it takes no input".to_owned()))?;
                input.write_all(text.as_bytes()).map_err(|error| failed(chain(&error)))?;
                drop(input);
                let status = child.wait().map_err(|error| failed(chain(&error)))?;
                if status.success() { Ok(()) } else { Err(failed(status.to_string())) }
            }
        }
    }

    /// What else is needed.
    fn hint(&self) -> Option<String> {
        let lingers = outlive_sys::scope::lingers(outlive_sys::socket::own_uid());
        let is_unit = matches!(self, Self::Unit { .. });
        (is_unit && !lingers).then(|| {
            "they come with your first login; to have them come at once: loginctl enable-linger".to_owned()
        })
    }
}
