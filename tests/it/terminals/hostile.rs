//! Output that is made to break terminals, through everything that reads it: the keeper, a viewer in a real window, `screen` and an
//! MCP server.
//!
//! Every process goes on, none takes memory for it, and the log has every byte.

use outlive_tests::{Era, Home, Mcp, Random, binary, finish, is_running, pid, report, until};
use serde_json::json;

use super::attach::{Tmux, viewers};
use super::start;

/// Whatever was begun is cancelled and reset, and this is shown.
const END: &str = "\x18\x1b\\\x1bcall of it is printed";

/// The most memory of a process that shows the output, in KiB: half of what the shortest of the long sequences takes.
const MEMORY: u64 = 32 << 10;

/// How much is printed in a second where it is to take longer.
const A_SECOND: usize = 2 << 20;

/// Prints a file as it is, in so many seconds at least, and then what is typed: first the answers to what the last of the file asks. Those of
/// a whole minute would fill the screen: they are read and forgotten.
fn prints(seconds: usize) -> String {
    let forgets = "read -r -t 1 -N 1000000 answers < /dev/tty";
    let slowly = format!("for second in $(seq {seconds}); do head -c {A_SECOND}; {forgets}; done");
    format!("stty raw -echo; {{ {slowly}; cat; }} < hostile; stty sane -icanon -echo; exec cat -v")
}

fn long(begin: &str, bytes: usize) -> Vec<u8> {
    let mut output = begin.as_bytes().to_vec();
    output.resize(bytes, b'a');
    output
}

fn numbered(count: usize, each: impl Fn(usize) -> String) -> Vec<u8> {
    (0..count).map(each).collect::<String>().into_bytes()
}

fn endure(hostile: &[u8]) {
    endure_for(0, hostile);
}

/// Prints this in a job, with a viewer, and looks at everything meanwhile and afterwards.
fn endure_for(seconds: usize, hostile: &[u8]) {
    let home = Home::new();
    let printed = [hostile, END.as_bytes()].concat();
    std::fs::write(home.path().join("hostile"), &printed).expect("the home can be written");
    home.configure("[job]\noutput_cap = \"off\"\n");
    let tmux = Tmux::open(&home, 100, 30);
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = format!("read -r go; {}", prints(seconds));
    let job = client.call("run", json!({ "command": line, "pty": true, "wait_ms": 0 })).ok().job();
    tmux.outlive("one", &format!("attach --size latest {job}"));
    until("there is a viewer", || home.json(["screen", &job])["size"] == "100x30");
    let keeper = pid(&home.show(&job), "keeper_pid");
    home.run(["send", &job, ""]).ok();
    until("all is printed", || {
        home.run(["screen", &job]).ok();
        home.show(&job)["output"]["bytes"].as_u64() >= Some(printed.len() as u64)
    });
    tmux.shows("one", "all of it is printed");
    assert!(home.run(["screen", &job]).ok().text().contains("all of it is printed"));
    let answer = client.call("read_screen", json!({ "job": job })).ok().body().join("\n");
    assert!(answer.contains("all of it is printed"), "{answer}");
    // Both ways of typing still work.
    tmux.line("one", "");
    tmux.line("one", "this was typed");
    tmux.shows("one", "\nthis was typed");
    home.run(["send", &job, "this was sent"]).ok();
    tmux.shows("one", "\nthis was sent");
    let viewer = viewers(&home)[0];
    for (who, pid) in [("keeper", keeper), ("viewer", viewer)] {
        assert!(is_running(pid), "the {who} is gone");
        let most = most_memory(pid);
        report(&format!("the {who} had {most} KiB at most"));
        assert!(most < MEMORY, "the {who} had {most} KiB");
    }
    let logged = home.logs(&job);
    assert!(logged.windows(printed.len()).any(|window| window == printed), "every byte is in the log");
    // A process that may not have more shows it, too.
    let mut limited = home.command("sh");
    limited.args(["-c", "ulimit -v $0; exec \"$@\"", &(8 * MEMORY).to_string()]);
    limited.arg(binary("outlive")).args(["screen", &job]);
    assert!(finish(limited, b"").ok().text().contains("this was sent"));
    home.run(["kill", &job]).ok();
    tmux.shows("one", "killed");
}

/// Returns the most memory that a process had so far, in KiB.
fn most_memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn strings_without_end() {
    let strings = ["\x1b]0;", "\x1bP1;2|"].map(|begin| long(begin, 64 << 20));
    endure(&strings.concat());
}

#[test]
fn stacks_tables_and_pictures() {
    let pieces = [
        numbered(5_000, |_| "\x1b[>1u".to_owned()),
        numbered(5_000, |number| format!("\x1b[22;0t\x1b]0;title {number}\x07")),
        numbered(10_000, |number| {
            format!("\x1b]8;id={number};http://host/{number}\x1b\\link\x1b]8;;\x1b\\ ")
        }),
        // A picture in sixels, one of kitty's, one of iTerm's.
        [b"\x1bPq#0;2;0;0;0".to_vec(), b"#0!200~-".repeat(1 << 17), b"\x1b\\".to_vec()].concat(),
        [b"\x1b_Gf=32,s=1000,v=1000;".to_vec(), b"AAAA".repeat(1 << 18), b"\x1b\\".to_vec()].concat(),
        [b"\x1b]1337;File=inline=1:".to_vec(), b"AAAA".repeat(1 << 18), b"\x07".to_vec()].concat(),
        // One cell with many marks.
        [b"e".to_vec(), "\u{301}".as_bytes().repeat(100_000)].concat(),
    ];
    endure(&pieces.concat());
}

#[test]
fn sizes_of_nothing_and_of_everything() {
    let numbers = ["", "0", "1", "65535", "65536", "4294967295", "99999999999999999999"];
    let finals = "ABCDEFGHIJKLMPSTXZ`abdefghlmnrstu@";
    let pairs = numbers.iter().flat_map(|one| numbers.iter().map(move |other| format!("{one};{other}")));
    let sequences = pairs.flat_map(|pair| finals.chars().map(move |last| format!("\x1b[{pair}{last}x")));
    let resizes =
        numbers.iter().flat_map(|one| numbers.iter().map(move |other| format!("\x1b[8;{one};{other}t")));
    let output: String = sequences.chain(resizes).collect();
    endure(output.as_bytes());
}

/// Half of it are bytes, and half what sequences are made of: these are rare among bytes.
fn chance(random: &mut Random, bytes: usize) -> Vec<u8> {
    let parts: &[&[u8]] = &[
        b"\x1b",
        b"\x1b[",
        b"\x1b]",
        b"\x1bP",
        b"\x1b\\",
        b"?",
        b";",
        b"1",
        b"49",
        b"h",
        b"l",
        b"m",
        b"H",
        b"J",
        b"r",
        b"b",
        b"\x18",
        b"\x07",
        b"\r",
        b"\n",
        b"\t",
        "世".as_bytes(),
        "\u{301}".as_bytes(),
        b"\xff",
    ];
    let mut chance: Vec<u8> = (0..bytes / 16).flat_map(|_| random.draw().to_le_bytes()).collect();
    while chance.len() < bytes {
        chance.extend_from_slice(random.one_of::<&[u8]>(parts));
    }
    chance
}

/// `OUTLIVE_TEST_CHANCE` lets it go on for so many seconds.
#[test]
fn bytes_of_chance() {
    let seed = Random::seed();
    report(&format!("OUTLIVE_TEST_SEED={seed}"));
    let mut random = Random::new(seed);
    let seconds = std::env::var("OUTLIVE_TEST_CHANCE").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let parts = (0..=seconds).map(|_| chance(&mut random, A_SECOND)).collect::<Vec<_>>();
    endure_for(seconds, &parts.concat());
}

#[test]
fn a_terminal_of_one_cell_and_of_the_largest() {
    let home = Home::new();
    let job = start(&home, &[], "stty -echo; while read -r line; do echo \"$line 世界 is here\"; done");
    for size in ["1x1", "1x500", "1000x1", "1000x500", "2x2", "80x24"] {
        home.run(["resize", &job, size]).ok();
        home.run(["send", &job, size]).ok();
        home.wait_for_output(&job, &format!("{size} 世界 is here"));
        home.run(["screen", &job]).ok();
    }
    assert!(home.run(["screen", &job]).ok().text().contains("80x24 世界 is here"));
    home.run(["kill", &job]).ok();
}
