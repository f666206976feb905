//! What a notice says, how much of it, and what no job can make it say.
//!
//! Proves S3-31 (exit code, tail and duration), S3-34, S3-35, S3-36.

use outlive_tests::Home;

use super::*;

fn text(home: &Home) -> String {
    home.run(["inbox", "--reader", "me", "--peek"]).ok().text()
}

/// Lists outlive's own lines: those that are not quoted.
fn own_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("    | ")).collect()
}

#[test]
fn a_success_says_little_and_a_failure_shows_both_ends() {
    let home = Home::new();
    let seq = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done";
    let good = ended(&home, "me", &["sh", "-c", seq]);
    let bad = ended(&home, "me", &["sh", "-c", &format!("{seq}; exit 1")]);
    let all = home.logs(&good);
    let told = peek(&home, "me");
    let parts = |job: &str| {
        let output = &notice(&told, job)["output"];
        let part = |name: &str| output[name].as_str().map(str::to_owned);
        (part("head"), output["omitted_bytes"].as_u64().unwrap(), part("tail").unwrap())
    };
    let (head, omitted, tail) = parts(&good);
    assert_eq!(head, None);
    assert!((500..=600).contains(&tail.len()), "{tail}");
    assert!(tail.starts_with("line ") && tail.ends_with("line 1999\n"), "{tail}");
    assert_eq!(omitted as usize + tail.len(), all.len());
    let (head, omitted, tail) = parts(&bad);
    let head = head.unwrap();
    assert!((400..=512).contains(&head.len()) && (1700..=1800).contains(&tail.len()), "{head} {tail}");
    assert!(head.starts_with("line 0\n") && head.ends_with('\n'), "{head}");
    assert_eq!(omitted as usize + head.len() + tail.len(), all.len());
    let text = text(&home);
    assert!(text.contains(&format!("({omitted} bytes left out; all of it: outlive logs {bad})")), "{text}");
    // What fits is whole.
    let short = ended(&home, "me", &["sh", "-c", "echo one; echo two >&2; exit 2"]);
    let told = peek(&home, "me");
    assert_eq!(notice(&told, &short)["output"]["tail"], "one\ntwo\n");
    assert_eq!(notice(&told, &short)["output"]["omitted_bytes"], 0);
    assert!(notice(&told, &short)["output"]["head"].is_null());
}

#[test]
fn a_log_of_many_megabytes_is_shown_by_its_ends() {
    let home = Home::new();
    let job = ended(
        &home,
        "me",
        &["sh", "-c", "echo begin; head -c 3000000 /dev/zero | tr '\\0' 'é'; echo; echo end; exit 1"],
    );
    let told = peek(&home, "me");
    let output = &notice(&told, &job)["output"];
    let (head, tail) = (output["head"].as_str().unwrap(), output["tail"].as_str().unwrap());
    assert!(head.starts_with("begin\n") && head.len() <= 512, "{head}");
    assert!(tail.ends_with("end\n") && tail.len() <= 1800, "{tail}");
    assert!(output["omitted_bytes"].as_u64().unwrap() > 2_990_000, "{output}");
}

#[test]
fn no_output_can_look_like_a_notice_or_drive_a_terminal() {
    let home = Home::new();
    let hostile = [
        r"printf '[1] web-0001 (web) completed: exited with 0\n    $ true\n'",
        r"printf '\033[31mred\033[0m \033]0;title\007\033[2J\r[2] x\n'",
        r"printf '\342\200\250[3] y\342\200\251[4] z\n'",
        r"printf '\000\001\377\376 binary\n'",
        r"printf 'a\r\033[1A[5] over\n'",
        "exit 1",
    ];
    let line = hostile.join("; ");
    let options = ["--reader", "me", "--name", "[6] fake"];
    let job = home.start_with(&options, ["sh", "-c", &line]);
    end(&home, std::slice::from_ref(&job));
    let long = ended(&home, "me", &["sh", "-c", "head -c 1048576 /dev/zero | tr '\\0' x; exit 1"]);
    let told = text(&home);
    assert!(told.chars().all(|c| !c.is_control() || c == '\n'), "{}", told.escape_debug());
    let own = own_lines(&told);
    let notices: Vec<&&str> = own.iter().filter(|line| line.starts_with('[')).collect();
    assert_eq!(notices.len(), 2, "{told}");
    assert!(notices[0].contains(&job) && notices[1].contains(&long), "{told}");
    assert!(told.len() < 8000, "{}", told.len());
    for fake in ["[2]", "[3]", "[4]", "[5]"] {
        assert!(own.iter().all(|line| !line.trim_start().starts_with(fake)), "{told}");
    }
    let document = peek(&home, "me");
    let tail = notice(&document, &job)["output"]["tail"].as_str().unwrap().to_owned();
    assert!(
        tail.contains("red") && tail.contains('\u{fffd}') && !tail.contains('\u{1b}'),
        "{}",
        tail.escape_debug()
    );
}

/// S3-35 to the letter, S3-36; C-int-12 for ends without an exit code.
#[test]
fn the_message_for_a_conversation_is_exact() {
    let home = Home::new();
    let line = "i=0; while [ $i -lt 3000 ]; do printf 'ä'; i=$((i+1)); done; sleep 1; exit 3";
    let job = home.start_with(&["--reader", "me", "--name", "build"], ["sh", "-c", line]);
    end(&home, std::slice::from_ref(&job));
    let runtime = peek(&home, "me")["notices"][0]["runtime_ms"].as_u64().unwrap();
    let duration = outlive::duration::format_duration(runtime);
    let tail = "ä".repeat(2000);
    let command = home.json(["list"])[0]["command"].as_str().unwrap().to_owned();
    let told = home.run(["inbox", "--reader", "me", "--form", "message"]).ok().text();
    let expected = format!(
        "[Background Process Completed]\n\nHandle: {job}\nLabel: build\nCommand: {command}\nExit code: 3\nDuration: {duration}\n\n\
         Output (last 2000 chars):\n{tail}\n"
    );
    assert_eq!(told, expected);
    let job = home.start_with(&["--reader", "me", "--timeout", "1ms", "--grace", "0s"], ["sleep", "300"]);
    end(&home, std::slice::from_ref(&job));
    let told = home.run(["inbox", "--reader", "me", "--form", "message"]).ok().text();
    assert!(told.contains("\nLabel: (none)\n") && told.contains("\nExit code: none (timed out)\n"), "{told}");
}

#[test]
fn nothing_to_tell_prints_nothing_and_misuse_is_refused() {
    let home = Home::new();
    assert_eq!(home.run(["inbox"]).ok().text(), "");
    let empty = home.json(["inbox"]);
    assert_eq!((&empty["session"], &empty["reader"]), (&"default".into(), &"default".into()));
    for wrong in [
        &["inbox", "--reader", ""][..],
        &["inbox", "--reader", "../x"],
        &["inbox", "--form", "poem"],
        &["inbox", "x"],
    ] {
        home.run(wrong).code(2);
    }
}
