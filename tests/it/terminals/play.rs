//! A job's terminal as it was, played in a real window of tmux.
//!
//! What a person sees at each moment, pauses, seeks and leaves; the window is afterwards as it was before.

use std::time::Duration;

use outlive_tests::{Home, until};

use super::attach::Tmux;
use super::start;

/// Records a job that draws, pauses and draws again; returns the time of its first screen, too. What it asks its terminal for, a
/// mouse and other keys, is not for the window that it is played in.
fn recorded(home: &Home, pause: Duration) -> (String, String) {
    let line = "printf '\\033[?1h\\033[?1000hfirst'; read line; clear; echo second; exit 3";
    let job = start(home, &["--size", "60x10"], line);
    home.wait_for_output(&job, "first");
    let first = home.json(["screen", &job])["time"].as_str().expect("a time").to_owned();
    std::thread::sleep(pause);
    home.run(["send", &job, ""]).ok();
    home.wait(&job);
    (job, first)
}

#[test]
fn a_recording_is_played_paused_and_left() {
    let home = Home::new();
    // Longer than an arrow key goes.
    let (job, first) = recorded(&home, Duration::from_secs(6));
    let tmux = Tmux::open(&home, 80, 20);
    let before = tmux.modes("one");
    tmux.line("one", "stty -g > before");
    // A hundred times as slow: the pause is longer than any test.
    tmux.outlive("one", &format!("play {job} --speed 0.01 --from {first}"));
    tmux.shows("one", "first");
    tmux.tell(&["send-keys", "-t", "one", "?"]);
    tmux.shows("one", "q: leave   space: pause");
    tmux.tell(&["send-keys", "-t", "one", "?"]);
    until("the keys are gone", || !tmux.screen("one").contains("q: leave"));
    let [alternate, rest] = [&before[..1], &before[1..]];
    assert_eq!(alternate, "0");
    assert_eq!(tmux.modes("one"), format!("1{rest}"), "the modes of the program are not the window's");
    tmux.tell(&["send-keys", "-t", "one", "Space"]);
    tmux.shows("one", "paused at");
    tmux.tell(&["send-keys", "-t", "one", "Right", "Right"]);
    tmux.shows("one", "second");
    tmux.tell(&["send-keys", "-t", "one", "Left"]);
    tmux.shows("one", "first");
    tmux.tell(&["send-keys", "-t", "one", "q"]);
    // What is typed before it has left is for the player.
    until("it has left", || tmux.modes("one") == before);
    tmux.line("one", "stty -g | cmp - before && echo same ''settings");
    tmux.shows("one", "same settings");
    assert_eq!(tmux.modes("one"), before);
    assert!(!tmux.screen("one").contains("first"), "{}", tmux.screen("one"));
}

#[test]
fn it_ends_with_the_last_screen() {
    let home = Home::new();
    let (job, _) = recorded(&home, Duration::from_secs(1));
    let tmux = Tmux::open(&home, 80, 20);
    let before = tmux.modes("one");
    // So slow, only the limit lets it come to its end.
    tmux.outlive("one", &format!("play {job} --speed 0.01 --idle-limit 1ms; echo code $?"));
    tmux.shows("one", "second\n");
    // A program that takes the whole window leaves nothing of it behind; this says that it was played.
    tmux.shows("one", &format!("{job} failed: exited with 3"));
    tmux.shows("one", "code 0");
    assert_eq!(tmux.modes("one"), before);
    // From the end on there is nothing but the last screen.
    tmux.line("one", "clear");
    let ended = home.show(&job)["ended_at"].as_str().expect("a time").to_owned();
    tmux.outlive("one", &format!("play {job} --speed 0.01 --from {ended}; echo code $?"));
    tmux.shows("one", "code 0");
    tmux.shows("one", "second\n");
}

#[test]
fn without_a_terminal_it_is_refused() {
    let home = Home::new();
    let job = start(&home, &[], "true");
    home.wait(&job);
    let refused = home.run(["play", &job]).code(2).error();
    assert!(refused.contains("needs a terminal") && refused.contains("--cast"), "{refused}");
    home.run(["play", &job, "--speed", "0"]).code(2);
    let pipes = home.start(["true"]);
    home.wait(&pipes);
    assert_eq!(home.run(["--json", "play", &pipes]).code(1).error_json()["error"]["code"], "no_terminal");
}
