//! `bash`: run a command, and move it to the background if it takes long.

use std::time::{Duration, Instant};

use outlive::{
    AutoBackground, Cause, ControlError, Foreground, Job, Request, StartError, State, Until, WaitStatus,
};

use super::output::{initial, merged, streams};
use super::task::GRACE;
use crate::jobs::{await_leftovers, delivers};
use crate::profiles::{known_pid, random_digits};
use crate::reply::{Failure, Reply, chain};
use crate::starting;
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

/// The longest timeout in the foreground, and the default.
const MAX_TIMEOUT: u64 = 600_000;

/// How much of a command's output is kept.
const OUTPUT_CAP: u64 = 100 << 20;

/// How long a call waits for a command whose timeout is just ending it.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// Declares the commands that are not run, and the description that names them.
macro_rules! declare {
    ($first:literal $($other:literal)*) => {
        const BANNED: &[&str] = &[$first, $($other),*];

        const DESCRIPTION: &str = concat!(
            "Run shell commands in the terminal, with support for long-running background tasks.

Background Execution:
- Commands matching development patterns (npm/pnpm/yarn, dev servers, build watchers) automatically move to background after 2 seconds if producing output
- Set run_in_background=true to force background execution
- Background tasks return a task_id for use with bash_output and kill_bash tools
- Initial output shown when moved to background
- A command that takes longer than this client waits (45 seconds to 10 minutes) moves to background, too; only a timeout that was given ends a background task

Before using this tool:
- Verify command is not banned: ", $first, $(", ", $other,)* "
- Quote file paths with spaces
- Capture command output

Notes:
- Command argument required
- Optional timeout in milliseconds (max 600000ms / 10 minutes), default 10 minutes
- IMPORTANT: Avoid search commands like `find` and `grep`. Use grep and glob tools instead
- Avoid read tools like `cat`, `head`, `tail`, `ls`. Use `read` and `ls` tools
- For `grep`, use ripgrep at `rg` (pre-installed)
- Separate multiple commands with ';' or '&&', not newlines
- Maintain working directory using absolute paths, avoid `cd`
- Don't add `<command>` wrapper

<good-example>
pytest /foo/bar/tests
</good-example>
<bad-example>
cd /foo/bar && pytest tests
</bad-example>
<bad-example>
<command>pytest /foo/bar/tests</command>
</bad-example>"
        );
    };
}

declare! {
    "alias" "aria2c" "axel" "bash" "chrome" "curl" "curlie" "eval" "firefox" "fish" "http-prompt" "httpie" "links" "lynx"
    "nc" "rm" "safari" "sh" "source" "telnet" "w3m" "wget" "xh" "zsh"
}

/// Names that the design does not list, and that are the same as one that it does: other shells, and the dot, which is `source`.
const ALIKE: [&str; 11] =
    [".", "ash", "busybox", "csh", "dash", "ksh", "mksh", "pwsh", "rbash", "tcsh", "toybox"];

pub(crate) static BASH: Tool = Tool {
    name: "bash",
    title: "Run a command",
    description: DESCRIPTION,
    parameters: &[
        Parameter::required("command", Kind::Text, "The command to execute"),
        Parameter::new("timeout", Kind::Number, "Optional timeout in milliseconds (max 600000)")
            .with(r#"{"type": ["number", "null"]}"#),
        Parameter::new(
            "run_in_background",
            Kind::Flag,
            "Set to true to run this command in the background. Use bash_output to read output later.",
        ),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call: bash,
};

fn bash(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let empty = || Failure::new("Error: Command cannot be empty.");
    let line = call.arguments.text("command")?.ok_or_else(empty)?;
    // 0 and null mean the default.
    let timeout = call.arguments.number("timeout", 0..=MAX_TIMEOUT)?.filter(|&millis| millis > 0);
    let is_background = call.arguments.flag("run_in_background")?;
    validate(&line).map_err(Failure::new)?;
    let limit = Limit { given: timeout.map(Duration::from_millis), is_background };
    run(call, &line, limit)
        .map_err(|error| Failure::new(format!("Command execution failed: {}", chain(error.as_ref()))))
}

/// Tells why a command is not run at all.
fn validate(line: &str) -> Result<(), String> {
    if line.trim().is_empty() {
        return Err("Command cannot be empty.".to_owned());
    }
    let read = outlive::read_shell_line(line);
    // What a name expands to is not known before the shell runs it.
    let is_unknown = |root: &&String| has_expansion(root);
    if read.is_empty {
        return Err("Could not identify command root.".to_owned());
    }
    let is_banned = |root: &&String| {
        let root = root.to_lowercase();
        BANNED.contains(&root.as_str()) || ALIKE.contains(&root.as_str())
    };
    if let Some(root) = read.roots.iter().find(|root| is_banned(root) || is_unknown(root)) {
        return Err(format!("Command '{root}' is not allowed for security reasons."));
    }
    if read.has_substitution {
        return Err("Command substitution is not allowed for security reasons.".to_owned());
    }
    Ok(())
}

/// Tells whether the shell would make another name of a word, or several.
fn has_expansion(word: &str) -> bool {
    let has_brackets =
        |open: char, close: char| word.len() > 2 && word.contains(open) && word.contains(close);
    word.contains(['$', '*', '?', '`']) || has_brackets('[', ']') || has_brackets('{', '}')
}

/// How long a command may run.
#[derive(Clone, Copy)]
struct Limit {
    given: Option<Duration>,
    is_background: bool,
}

impl Limit {
    /// Returns the timeout: what was given, else the longest in the foreground and none in the background.
    fn timeout(self) -> Option<Duration> {
        let longest = Some(Duration::from_millis(MAX_TIMEOUT));
        self.given.or(if self.is_background { None } else { longest })
    }
}

/// Starts a command, and waits for it unless it was asked for in the background.
fn run(call: &Call<'_>, line: &str, limit: Limit) -> Result<Reply, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let job = start(call, line, limit.timeout())?;
    if limit.is_background {
        return Ok(moved(&job)?);
    }
    let rule = AutoBackground::of(&job);
    let longest = Duration::from_millis(call.longest_ms);
    let left = || longest.saturating_sub(began.elapsed());
    let came = call.store.wait_in_foreground(&job, rule, left(), call.stop())?;
    // The timeout of a cancelled call stays: the command was not moved to the background. So does one that was given.
    if came != Foreground::Ended && !call.is_cancelled() && limit.given.is_none() {
        match call.store.lift_timeout(&job) {
            // Its timeout is ending it just now.
            Err(ControlError::Refused { code, .. }) if code == "ending" => {
                let limit = left().max(KILLED_WITHIN);
                call.store.wait(std::slice::from_ref(&job), Until::All, Some(limit));
            }
            // It has ended since, or there is no keeper that could end it.
            Ok(()) | Err(_) => {}
        }
    }
    let state = job.state(call.store);
    if !state.status.has_ended() {
        return Ok(moved(&job)?);
    }
    await_leftovers(call, &job);
    let state = job.state(call.store);
    let text = result(call, &job, &state)?;
    let reply = Reply::plain(text).meta("returnDisplay", display(&job, &state)?);
    Ok(delivers(call, reply, job, &state))
}

fn start(call: &Call<'_>, line: &str, timeout: Option<Duration>) -> Result<Job, StartError> {
    let request = Request::shell(line).timeout(timeout).grace(GRACE).output_cap(Some(OUTPUT_CAP));
    let draw = || format!("task_{}", random_digits(12, 16));
    starting::start_drawn(call, &starting::fill(call, request), draw)
}

/// Tells that a command goes on in the background.
fn moved(job: &Job) -> std::io::Result<Reply> {
    let output = initial(&merged(job, false)?);
    let id = job.id().as_str();
    let command = job.spec().command_line();
    let lines = [
        "Command has been moved to background execution.",
        &format!("Task ID: {id}"),
        &format!("Command: {command}"),
        "",
        "Initial output:",
        &output,
        "",
        "Use bash_output tool with task_id to read further output.",
        "Use kill_bash tool with task_id to terminate the task.",
    ];
    Ok(Reply::plain(lines.join("\n")).meta("backgroundTaskId", id))
}

/// Returns what a person is shown of a command that was waited for: what it printed, else how it ended.
fn display(job: &Job, state: &State) -> std::io::Result<String> {
    let output = merged(job, true)?;
    if !output.trim().is_empty() {
        return Ok(initial(&output));
    }
    let outcome = state.outcome.as_ref();
    Ok(match outcome.map(|outcome| (&outcome.cause, outcome.wait_status)) {
        Some((Cause::Timeout, _)) => "Command execution timed out and was cancelled.".to_owned(),
        Some((_, WaitStatus::Signaled { signal, .. })) => {
            format!("Command execution was terminated by signal {}.", outlive::signal_name(signal))
        }
        Some((Cause::Natural, WaitStatus::Exited { code: 0 })) => "Command executed successfully.".to_owned(),
        Some((Cause::Natural, WaitStatus::Exited { code })) => format!("Command exited with code: {code}"),
        _ => format!("Command failed: {}", outlive::reason(state).unwrap_or_default()),
    })
}

/// Tells how a command that was waited for has ended.
fn result(call: &Call<'_>, job: &Job, state: &State) -> std::io::Result<String> {
    let outcome = state.outcome.as_ref();
    let [stdout, stderr] = streams(job)?;
    if outcome.is_some_and(|outcome| outcome.cause == Cause::Timeout) {
        let output = if stderr.is_empty() { stdout } else { format!("{stdout}\n{stderr}") };
        let output = if output.trim().is_empty() {
            " There was no output before it was cancelled.".to_owned()
        } else {
            format!(" Below is the output (on stdout and stderr) before it was cancelled:\n{output}")
        };
        return Ok(format!("Command execution timed out and was cancelled.{output}"));
    }
    let or = |text: Option<String>, none: &str| text.unwrap_or_else(|| none.to_owned());
    let full = |text: String| Some(text).filter(|text| !text.is_empty());
    let signal = outcome.and_then(|outcome| match outcome.wait_status {
        WaitStatus::Signaled { signal, .. } => Some(outlive::signal_name(signal)),
        _ => None,
    });
    // A failed command is no error of its execution; an end by outlive, or an unknown end, is.
    let error = outcome.filter(|outcome| !matches!(outcome.cause, Cause::Natural));
    let error = error.and_then(|_| outlive::reason(state));
    let left: Vec<String> = job
        .tree(call.store, state)
        .map(|tree| tree.pids().map(|pid| pid.to_string()).collect())
        .unwrap_or_default();
    let directory = job.spec().cwd.to_lossy();
    Ok([
        format!("Command: {}", job.spec().command_line()),
        format!("Directory: {}", or(full(directory), "(root)")),
        format!("Stdout: {}", or(full(stdout), "(empty)")),
        format!("Stderr: {}", or(full(stderr), "(empty)")),
        format!("Error: {}", or(error, "(none)")),
        format!("Exit Code: {}", or(state.exit_code().map(|code| code.to_string()), "(none)")),
        format!("Signal: {}", or(signal, "(none)")),
        format!("Background PIDs: {}", or(full(left.join(", ")), "(none)")),
        format!("Process Group PGID: {}", or(known_pid(state).map(|pid| pid.to_string()), "(none)")),
    ]
    .join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_run_is_told_by_its_name() {
        assert_eq!(validate("npm run dev && ls"), Ok(()));
        assert_eq!(validate("  "), Err("Command cannot be empty.".to_owned()));
        assert_eq!(validate("&& ()"), Err("Could not identify command root.".to_owned()));
        for line in
            ["rm -rf x", "cd x && RM y", "ls | /bin/sh", "env A=1 'cu'rl x", "(wget x)", "true; \\eval x"]
        {
            let refusal = validate(line).expect_err(line);
            assert!(refusal.ends_with("' is not allowed for security reasons."), "{refusal}");
        }
        for line in [
            "A=curl; $A x",
            "A=cu; ${A}rl x",
            "$EDITOR x",
            "find . -name x -exec rm {} ;",
            "find . -execdir /bin/rm {} +",
            "trap 'curl x' EXIT",
            "f() { wget x; }; f",
            "function f() { wget x; }",
            "dash <<EOF\nls\nEOF",
            ". ./script",
            "$'\\x63url' x",
            "/bin/cur? x",
            "{curl,x}",
            "env -S 'curl x'",
            "watch curl x",
            "ssh host rm x",
            "docker exec -it web curl x",
            "flock lock -c 'rm x'",
            "su me -c 'rm x'",
            "ls | xargs -I{} rm {}",
            "coproc curl x",
            "while read A; do $A; done",
            "time -p curl x",
            "ls <(curl x)",
            "case x in x) curl;; esac",
        ] {
            let refusal = validate(line).expect_err(line);
            assert!(refusal.ends_with("' is not allowed for security reasons."), "{line}: {refusal}");
        }
        for line in [
            "cat <<EOF > note\nrm -rf x; curl y\nEOF",
            "cat <<'EOF'\n$(curl x)\nEOF",
            "find . -name '*.rm' -print",
            "trap - EXIT; trap 'echo bye' INT",
            "A=curl; echo $A",
            "[ -f x ] && [[ $y == z ]] && echo ok",
            "f() { echo x; }; f",
            "for x in *.rs; do wc -l \"$x\"; done",
            "docker exec web ls",
            "git commit -m 'rm curl'",
        ] {
            assert_eq!(validate(line), Ok(()), "{line}");
        }
        let substitution = "Command substitution is not allowed for security reasons.".to_owned();
        assert_eq!(validate("echo $(ls)"), Err(substitution.clone()));
        assert_eq!(validate("echo \"`ls`\""), Err(substitution));
        assert_eq!(validate("echo '$(ls) `ls`' rm; echo $((1+1))"), Ok(()));
    }

    #[test]
    fn the_description_names_all_that_is_not_run() {
        assert_eq!(BANNED.len(), 24);
        assert!(DESCRIPTION.contains(&format!("not banned: {}\n", BANNED.join(", "))), "{DESCRIPTION}");
        assert!(DESCRIPTION.contains(&MAX_TIMEOUT.to_string()));
    }
}
