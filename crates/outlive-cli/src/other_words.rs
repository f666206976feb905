//! Verbs of other tools, and the command that does here what they do there.

/// Returns what to write in place of a verb of docker, tmux, pueue, pm2, systemctl or a shell.
pub(crate) fn instead_of(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "start" | "add" | "create" | "spawn" | "launch" | "enqueue" | "nohup" | "exec" | "bg" => {
            "outlive run COMMAND starts a command in the background"
        }
        "new" | "new-session" | "new-window" | "shell" | "bash" | "sh" => {
            "outlive run -t bash starts one in a terminal of its own; outlive attach shows it"
        }
        "reload" | "respawn" => "outlive restart JOB ends it and starts it again",
        "tail" | "follow" | "output" | "cat" => "outlive logs JOB shows what it printed; -f follows it",
        "fg" | "a" | "attach-session" | "join" => {
            "outlive attach JOB, for a job in a terminal (run -t); outlive logs -f JOB for any other"
        }
        "detach" | "detach-client" => "C-\\ d leaves a terminal that outlive attach shows; the job goes on",
        "send-keys" | "type" => "outlive send JOB TEXT; with --keys for keys such as C-c",
        "capture-pane" => "outlive screen JOB shows what stands on its terminal",
        "state" | "jobs" => "outlive list shows all jobs, outlive show JOB one of them",
        "inspect" | "info" | "describe" | "get" => "outlive show JOB",
        "monit" | "stats" | "monitor" => {
            "outlive top shows them all; outlive list --usage --watch is plainer"
        }
        "web" | "ui" | "dashboard" | "browser" => "outlive open shows all jobs in a browser",
        "delete" | "del" | "forget" => "outlive rm JOB; outlive kill ends one that still runs",
        "prune" | "clean" | "cleanup" | "reset" | "flush" => {
            "outlive rm --ended removes all ended jobs; outlive clear JOB only forgets what one printed"
        }
        "end" | "terminate" | "signal" | "interrupt" | "kill-session" | "kill-window" => "outlive kill JOB",
        "killall" | "kill-server" => "outlive kill --all",
        "unpause" | "continue" | "cont" | "unfreeze" => "outlive resume JOB",
        "suspend" | "freeze" => "outlive pause JOB",
        "save" | "startup" | "resurrect" | "enable" => {
            "outlive setup boot lets schedules and jobs with --restart always come back when the machine was restarted"
        }
        "daemon" => "there is no daemon: jobs go on by themselves until they end or the machine is restarted",
        "parallel" => "outlive queue parallel QUEUE COUNT says how many jobs of a queue run at once",
        "rename" => "a job keeps the name that it was started with: outlive run --name NAME",
        "port" | "ports" => "outlive list --ports shows where jobs listen, outlive show JOB where one does",
        "group" => "a group is a word of a job: outlive run --group NAME, outlive list --group NAME",
        _ => return None,
    })
}

/// Returns what to write where a verb was given a job that it does not take.
pub(crate) fn instead_of_argument(verb: &str, word: &str) -> Option<String> {
    if word.starts_with('-') {
        return None;
    }
    Some(match verb {
        "down" => format!("outlive kill {word} ends one job; outlive down ends all of the project"),
        "status" => format!("outlive why {word} explains how one job is doing"),
        "show" => format!("one job at a time: outlive show {word}"),
        "send" => "put the text in quotes: outlive send JOB 'print 1'".to_owned(),
        _ => return None,
    })
}

/// Returns what to write in place of an option of docker, kill, tail, grep, tmux or pueue.
pub(crate) fn instead_of_option(verb: &str, option: &str) -> Option<String> {
    let number = option.strip_prefix('-').filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(number) = number.filter(|number| !number.is_empty()) {
        return match verb {
            "logs" => Some(format!("the last {number} lines: outlive logs -n {number} JOB")),
            "list" => Some(format!("the last {number} that have ended: outlive list -n {number}")),
            "kill" if number == "9" => {
                Some("outlive kill --force JOB ends it at once, by SIGKILL".to_owned())
            }
            "kill" => Some(format!("outlive kill --signal {number} JOB sends that signal, and no more")),
            _ => None,
        };
    }
    let instead = match (verb, option) {
        ("run", "-d" | "--detach" | "--background") => {
            "not needed: it runs in the background, and `run` returns at once; --wait waits for it"
        }
        ("run", "-e") => "--env NAME=VALUE adds a variable",
        ("run", "-i" | "--interactive" | "--tty" | "-it") => {
            "-t gives it a terminal; outlive run -t --wait COMMAND also shows it at once"
        }
        ("run", "--rm") => {
            "not needed: ended jobs go by themselves after 7 days; outlive rm JOB removes one now"
        }
        ("run", "-n") => "--name NAME gives it a name",
        ("run", "-w" | "--workdir" | "--working-directory") => "--cwd DIR says where it starts",
        ("run", "-p" | "--publish") => "not needed: a job listens on this machine's own ports",
        ("run", "-v" | "--volume") => "not needed: a job sees this machine's own files",
        ("run", "-g") => "--group NAME puts it into a group",
        ("run", "-a") => "--after JOB starts it when that job has ended",
        ("run", "--delay" | "--in") => {
            "--at 18:00 and --schedule start it at a time; in 5 seconds: outlive run 'sleep 5; COMMAND'"
        }
        ("list", "--running") => "--live shows those that have not ended",
        ("run", "-l") => "--label NAME=VALUE gives it a label",
        ("up", "-d" | "--detach") => {
            "not needed: the jobs run in the background; --foreground shows what they print"
        }
        ("kill", "-KILL" | "-k" | "-K") => "outlive kill --force JOB ends it at once, by SIGKILL",
        ("remove", "-f" | "--force") => "outlive kill JOB ends one that still runs; then outlive rm JOB",
        ("remove", "-a") => "outlive rm --ended removes all that have ended",
        ("logs", "-A" | "-B" | "--after-context" | "--before-context") => {
            "-C COUNT shows so many lines before and after each match of --grep"
        }
        ("logs", "-v" | "--invert-match") => "--invert shows the lines that do not match --grep",
        ("logs", "-E" | "-P" | "-e") => "--grep PATTERN takes a regular expression",
        ("logs", "--stderr") => "--stream stderr shows standard error alone",
        ("logs", "--stdout") => "--stream stdout shows standard output alone",
        ("run", "--port") => "--ready-port PORT says that it is ready when it listens there",
        ("gc", "--dry-run" | "-n") => {
            "outlive rm --ended --older 7d --dry-run shows what has ended so long ago; `outlive help configuration` tells what gc keeps"
        }
        ("logs", "-F") => "-f follows what it prints",
        ("attach", "-t") => "outlive attach JOB, without -t",
        ("wait", "-t") => "--timeout DURATION waits at most so long",
        _ => return None,
    };
    Some(instead.to_owned())
}

/// Tells whether a word that is no verb is a command to run: a line for the shell, a path or a program.
pub(crate) fn is_command(word: &str) -> bool {
    let is_in_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(word).is_file())
    };
    word.contains([' ', '/']) || is_in_path()
}
