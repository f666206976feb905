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
        "save" | "startup" | "resurrect" | "enable" | "daemon" => {
            "there is no daemon: jobs go on by themselves until they end or the machine is restarted"
        }
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
        "list" => format!("outlive show {word} tells of one job"),
        "show" => format!("one job at a time: outlive show {word}"),
        _ => return None,
    })
}

/// Tells whether a word that is no verb is a command to run: a line for the shell, a path or a program.
pub(crate) fn is_command(word: &str) -> bool {
    let is_in_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(word).is_file())
    };
    word.contains([' ', '/']) || is_in_path()
}
