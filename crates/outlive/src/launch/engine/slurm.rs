//! Slurm, by its own commands: `sbatch`, `squeue`, `scancel`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlive_core::file;
use outlive_core::placement::Placement;
use outlive_core::spec::quote;

use crate::job::Job;
use crate::store::Store;

/// A command of Slurm's that takes longer has no controller to talk to.
const LIMIT: Duration = Duration::from_secs(20);

/// How often to look whether a command has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Variables that a job on a node gets from its submitter, beside those that were named; all others are the node's own.
const PASSED_ON: &str = "PATH,HOME,USER,LOGNAME,SHELL,LANG";

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Its command cannot be run.
    #[error("{0} cannot be run")]
    Command(&'static str, #[source] io::Error),
    /// Its command said no.
    #[error("{0}: {1}")]
    Refused(&'static str, String),
    /// Its command did not end.
    #[error("{0} has not ended within {limit} s", limit = LIMIT.as_secs())]
    Silent(&'static str),
}

/// How far the engine is with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Waits,
    Runs,
    /// It has ended, and its processes are gone.
    Over,
    /// Its node cannot be reached, and it may go on there.
    Unsure,
}

/// The engine's word on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) number: String,
    pub(super) name: String,
    pub(super) stage: Stage,
    pub(super) word: String,
    pub(super) reason: String,
    /// Where it runs or ran; empty: it was not begun.
    pub(super) node: String,
}

/// Names a job for the engine: by what is never used again.
pub(super) fn name(job: &Job) -> String {
    format!("outlive-{}", job.spec().nonce)
}

/// Returns what the engine calls the node that this process runs on.
pub(super) fn own_node() -> String {
    std::env::var("SLURMD_NODENAME").unwrap_or_default()
}

/// Returns what the engine calls the job that this process runs in.
pub(super) fn own_number() -> Option<String> {
    std::env::var("SLURM_JOB_ID").ok()
}

/// Tells whether the engine has started the job that this process runs in before.
pub(super) fn is_started_again() -> bool {
    std::env::var("SLURM_RESTART_COUNT").is_ok_and(|count| count != "0")
}

/// Submits a job; returns its number. What reads the script holds the lock of the file `submitted`, as this process does.
pub(super) fn submit(store: &Store, job: &Job, mut submitted: &File) -> Result<String, EngineError> {
    let failed = |error| EngineError::Command("sbatch", error);
    let refused = |what: &str| EngineError::Refused("sbatch", what.to_owned());
    let placement = job.spec().placement.as_ref().ok_or_else(|| refused("it is not asked for"))?;
    let program = std::env::current_exe().map_err(failed)?;
    let words = store.placed_arguments(job);
    let words: Vec<String> = std::iter::once(program.as_os_str().as_bytes())
        .chain(words.iter().skip(1).map(Vec::as_slice))
        .map(|word| quote(&String::from_utf8_lossy(word)))
        .collect();
    let mut script = format!("#!/bin/sh\nexec {}", words.join(" "));
    if job.node_store().is_some() {
        // The node has no other way to know the job. Not as a word: what programs are started with, others can see.
        let spec = serde_json::to_string(job.spec()).map_err(|error| failed(error.into()))?;
        let end = name(job);
        script += &format!(" --given <<'{end}'\n{spec}\n{end}");
    }
    script.push('\n');
    submitted.write_all(script.as_bytes()).and_then(|()| submitted.rewind()).map_err(failed)?;
    let mut command = Command::new("sbatch");
    command.args(["--parsable", "--no-requeue", "--chdir=/"]);
    command.arg(format!("--job-name={}", name(job))).arg(format!("--export={PASSED_ON}"));
    let mut output = OsStr::new("--output=").to_owned();
    output.push(match job.node_store() {
        // A node without the directory starts nothing.
        Some(_) => PathBuf::from("/dev/null"),
        None => job.path().join(file::ENGINE_LOG),
    });
    command.arg(output).args(options(placement));
    command.stdin(submitted.try_clone().map_err(failed)?);
    let said = run("sbatch", &mut command)?;
    // NUMBER, or NUMBER;CLUSTER.
    let number = said.trim().split(';').next().unwrap_or_default().to_owned();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { Ok(number) } else { Err(refused(&line_of(&said))) }
}

fn options(placement: &Placement) -> Vec<String> {
    let Placement { engine: _, cpus, memory_bytes, gpus, partition, time_ms, cutoff_ms: _, node_store: _ } =
        placement;
    let mut options = Vec::new();
    options.extend(cpus.map(|cpus| format!("--cpus-per-task={cpus}")));
    options.extend(memory_bytes.map(|bytes| format!("--mem={}K", bytes.div_ceil(1024))));
    options.extend(gpus.map(|gpus| format!("--gpus={gpus}")));
    options.extend(partition.as_ref().map(|partition| format!("--partition={partition}")));
    options.extend(time_ms.map(|millis| {
        let seconds = millis.div_ceil(1000);
        format!("--time={}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }));
    options
}

/// Looks for jobs by their names, ended ones too as long as the engine remembers them.
pub(super) fn look(names: &[String]) -> Result<Vec<Look>, EngineError> {
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--states=all", "--format=%i|%j|%T|%r|%N"]);
    command.arg(format!("--name={}", names.join(",")));
    Ok(run("squeue", command.stdin(Stdio::null()))?.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Look> {
    let mut fields = line.trim().split('|').map(str::to_owned);
    let (number, name, word, reason) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let stage = match word.as_str() {
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"
        | "RESV_DEL_HOLD" => Stage::Waits,
        "RUNNING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "RESIZING" | "SIGNALING" | "STAGE_OUT" => {
            Stage::Runs
        }
        "COMPLETED" | "FAILED" | "CANCELLED" | "TIMEOUT" | "OUT_OF_MEMORY" | "DEADLINE" | "PREEMPTED"
        | "BOOT_FAIL" => Stage::Over,
        _ => Stage::Unsure,
    };
    let node = fields.next().filter(|node| node != "(null)").unwrap_or_default();
    Some(Look { number, name, stage, word, reason, node })
}

/// Cancels a job: by its name, and by its number where that is known, so that no other job is ever meant.
pub(super) fn cancel(job: &Job) -> Result<(), EngineError> {
    let mut command = Command::new("scancel");
    command.arg(format!("--name={}", name(job)));
    command.args(job.placed().map(|placed| placed.engine_job).or_else(|| job.engine_job()));
    run("scancel", command.stdin(Stdio::null())).map(drop)
}

/// Runs a command of the engine's, and returns what it printed.
fn run(name: &'static str, command: &mut Command) -> Result<String, EngineError> {
    let failed = |error| EngineError::Command(name, error);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    // Both are read at once, so that none of them fills its pipe.
    let readers = [reader(child.stdout.take()), reader(child.stderr.take())];
    let status = end_of(name, &mut child)?;
    let [said, error] = readers.map(|reader| reader.join().unwrap_or_default());
    if status { Ok(said) } else { Err(EngineError::Refused(name, line_of(&error))) }
}

fn reader(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // What was read until it broke is all that there is.
            from.read_to_end(&mut bytes).ok();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn end_of(name: &'static str, child: &mut Child) -> Result<bool, EngineError> {
    let until = Instant::now() + LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) => {
                child.kill().and_then(|()| child.wait()).ok();
                return Err(EngineError::Silent(name));
            }
            Err(error) => return Err(EngineError::Command(name, error)),
        }
    }
}

/// Returns a text as one line.
fn line_of(text: &str) -> String {
    crate::notify::notice::one_line(text.trim())
}

#[cfg(test)]
mod tests {
    use outlive_core::placement::Engine;

    use super::*;

    #[test]
    fn options_are_those_of_sbatch() {
        let placement = Placement {
            cpus: Some(4),
            memory_bytes: Some(8 << 30),
            gpus: Some(1),
            partition: Some("long".to_owned()),
            time_ms: Some(7_200_000),
            ..Placement::by(Engine::Slurm)
        };
        let expected =
            ["--cpus-per-task=4", "--mem=8388608K", "--gpus=1", "--partition=long", "--time=2:00:00"];
        assert_eq!(options(&placement), expected);
        assert!(options(&Placement::by(Engine::Slurm)).is_empty());
    }

    #[test]
    fn a_node_that_is_gone_is_no_end() {
        let stage = |line| parse(line).map(|look| look.stage);
        assert_eq!(stage("7|outlive-a|PENDING|Resources"), Some(Stage::Waits));
        assert_eq!(stage("7|outlive-a|RUNNING|None"), Some(Stage::Runs));
        assert_eq!(stage("7|outlive-a|TIMEOUT|TimeLimit"), Some(Stage::Over));
        assert_eq!(stage("7|outlive-a|NODE_FAIL|None"), Some(Stage::Unsure));
        assert_eq!(stage("nothing"), None);
        let node = |line| parse(line).map(|look| look.node);
        assert_eq!(node("7|outlive-a|RUNNING|None|n1").as_deref(), Some("n1"));
        assert_eq!(node("7|outlive-a|CANCELLED|None|").as_deref(), Some(""));
    }
}
