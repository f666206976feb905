//! Completion: jobs, names, groups, sessions and labels with their states, in real shells.
//!
//! What `outlive complete` answers, what bash, zsh and fish make of it where the tab key is pressed, and that `outlive setup shell`
//! installs it and takes it out again.

use std::fs;

use outlive_tests::{Done, Home, finish, until};

use crate::terminals::Tmux;

/// Asks what may stand at the last of these words.
fn complete(home: &Home, words: &[&str]) -> Vec<(String, String)> {
    let place = words.len().to_string();
    let done = home.run([&["complete", &place, "--", "outlive"], words].concat()).ok().text();
    let pair = |line: &str| line.split_once('\t').map(|(value, help)| (value.to_owned(), help.to_owned()));
    done.lines().map(|line| pair(line).expect("a value and what it is")).collect()
}

fn values(home: &Home, words: &[&str]) -> Vec<String> {
    complete(home, words).into_iter().map(|(value, _)| value).collect()
}

/// Starts jobs of each kind: `api` and a job without a name live, `web` has ended.
fn jobs(home: &Home) -> [String; 3] {
    let web = home.start_with(&["--name", "web", "--group", "front", "--label", "team=x"], ["false"]);
    home.wait(&web);
    let session = ["--session", "shop", "run", "--name", "api", "--group", "back", "--", "sleep", "600"];
    let api = home.run(session).ok().text().trim().to_owned();
    [web, api, home.start(["sleep", "600"])]
}

#[test]
fn what_there_is_is_offered_with_its_state() {
    let home = Home::new();
    let [web, api, unnamed] = jobs(&home);
    let all = complete(&home, &["logs", ""]);
    let names: Vec<&str> = all.iter().map(|(value, _)| value.as_str()).collect();
    assert_eq!(
        names,
        [unnamed.as_str(), "api", "web"],
        "the newest first, and those that live before those that ended"
    );
    assert!(all[1].1.starts_with("running ") && all[1].1.ends_with(": sleep 600"), "{all:?}");
    assert!(all[2].1.starts_with("failed "), "{all:?}");
    assert_eq!(values(&home, &["kill", ""]), [unnamed.as_str(), "api"], "only what lives");
    assert_eq!(values(&home, &["rm", ""]), ["web"], "only what has ended");
    assert_eq!(values(&home, &["wait", "api", "a"]), ["api"], "one after the other");
    assert_eq!(values(&home, &["show", &web[..4]]), [web.as_str()], "an id, where that was begun");
    assert_eq!(values(&home, &["--session", "shop", "logs", ""]), ["api"]);
    assert_eq!(complete(&home, &["list", "--group", ""]).len(), 2);
    assert_eq!(
        complete(&home, &["list", "--group", "f"]),
        [("front".to_owned(), "0 live, 1 ended".to_owned())]
    );
    assert_eq!(values(&home, &["list", "--group=f"]), ["--group=front"]);
    assert_eq!(values(&home, &["list", "--group", "=", "f"]), ["front"], "as bash takes it apart");
    assert_eq!(values(&home, &["list", "--label", ""]), ["team=x"]);
    assert_eq!(values(&home, &["logs", "--session", ""]), ["default", "shop"]);
    assert_eq!(values(&home, &["session", "close", "s"]), ["shop"]);
    assert_eq!(values(&home, &["completions", "b"]), ["bash"]);
    assert_eq!(values(&home, &["kill", "--signal", "HU"]), ["HUP"]);
    assert_eq!(values(&home, &["resu"]), ["resume"]);
    assert!(values(&home, &["logs", "--co"]).contains(&"--color".to_owned()));
    home.run(["complete", "2", "--", "outlive", "run", "ma"]).code(1);
    home.run(["kill", &api, &unnamed]).ok();
    // A new store has nothing to offer.
    let nowhere = home.path().join("nowhere");
    let mut command = home.outlive(["complete", "2", "--", "outlive", "logs", ""]);
    command.env("OUTLIVE_HOME", &nowhere);
    assert_eq!(finish(command, b"").ok().text(), "");
}

fn shell(home: &Home, shell: &str, script: &str) -> Done {
    let mut command = home.command(shell);
    let directory = home.program("outlive").parent().expect("a directory").to_owned();
    command.env("PATH", format!("{}:/usr/bin:/bin", directory.display())).args(["-c", script]);
    finish(command, b"")
}

#[test]
fn bash_and_fish_complete_jobs_with_their_states() {
    let home = Home::new();
    let [_, api, unnamed] = jobs(&home);
    let in_bash = r#"eval "$(outlive completions bash)"; COMP_LINE="outlive logs "; COMP_POINT=13; COMP_TYPE=63
        _outlive outlive "" logs; printf '%s\n' "${COMPREPLY[@]}"
        COMP_LINE="outlive logs ap"; COMP_POINT=15; _outlive outlive ap logs; printf '<%s>\n' "${COMPREPLY[@]}""#;
    let shown = shell(&home, "bash", in_bash).ok().text();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with("api ") && lines[1].contains("(running "), "{shown}");
    assert!(lines[2].starts_with("web ") && lines[2].contains("(failed "), "{shown}");
    assert!(lines.iter().all(|line| line.len() < 80), "{shown}");
    assert_eq!(lines[3], "<api>", "what is inserted is not explained");
    let in_fish =
        "outlive completions fish | source; complete -C 'outlive logs '; complete -C 'outlive --session sh'";
    let shown = shell(&home, "fish", in_fish).ok().text();
    assert!(shown.contains("\napi\trunning ") && shown.contains("\nweb\tfailed "), "{shown}");
    assert!(shown.contains("\nshop\topen, 1 live"), "{shown}");
    home.run(["kill", &api, &unnamed]).ok();
}

/// What a shell takes for more than text.
const COMMAND: &str = "zed$(touch PWNED)";
const QUOTES: &str = r#"it's "a" `b` $HOME \ !x*"#;

/// A name that is inserted is one word and runs nothing, whatever it has in it and whatever quote was typed before it.
#[test]
fn names_are_inserted_as_one_word_in_each_shell() {
    let home = Home::new();
    let start =
        |name: &str, group: &str| home.start_with(&["--name", name, "--group", group], ["sleep", "600"]);
    let jobs = ["my app", "app", COMMAND, QUOTES, "ns:web", "ns:db", "eq=x"].map(|name| start(name, "plain"));
    let grouped = start("one", "my group;touch PWNED");
    for (shell, begin) in
        [("bash", "bash --norc --noprofile -i"), ("zsh", "zsh -f -i"), ("fish", "fish --no-config")]
    {
        let tmux = Tmux::open(&home, 100, 40);
        tmux.line("one", begin);
        let installs = if shell == "fish" {
            "outlive completions fish | source"
        } else {
            "eval \"$(outlive completions SHELL)\""
        };
        tmux.line("one", &installs.replace("SHELL", shell));
        tmux.line("one", "clear; echo 'shell ''is up'");
        tmux.shows("one", "shell is up");
        // Types a line, presses the tab key, and returns what outlive was given and told.
        let complete = |begun: &str| {
            let (inserted, printed) = (home.path().join("inserted"), home.path().join("printed"));
            drop((fs::remove_file(&inserted), fs::remove_file(&printed)));
            tmux.tell(&["send-keys", "-t", "one", "-l", &format!("clear; {begun}")]);
            // What is typed after it waits until the shell has completed the word.
            tmux.tell(&["send-keys", "-t", "one", "Tab"]);
            tmux.line("one", ">printed 2>&1; echo done >inserted");
            until(&format!("{shell} runs {begun}"), || inserted.is_file());
            assert!(!home.path().join("PWNED").exists(), "{shell}: {begun}");
            fs::read_to_string(&printed).expect("it was run")
        };
        for (begun, name) in [
            ("my", "my app"),
            ("my\\ a", "my app"),
            ("'my", "my app"),
            ("\"my", "my app"),
            ("zed", COMMAND),
            ("'zed", COMMAND),
            ("\"zed", COMMAND),
            ("it", QUOTES),
            ("it\\'", QUOTES),
            ("\"it", QUOTES),
            ("'it", QUOTES),
            ("ns:w", "ns:web"),
            ("'ns:w", "ns:web"),
            ("eq=", "eq=x"),
        ] {
            let printed = complete(&format!("outlive --json show {begun}"));
            let shown = serde_json::from_str::<serde_json::Value>(&printed);
            let shown = shown.unwrap_or_else(|error| panic!("{shell}: {begun}: {error}: {printed}"));
            assert_eq!(shown["name"], name, "{shell}: {begun}");
        }
        for begun in ["--group my", "--group=my", "--group 'my"] {
            let printed = complete(&format!("outlive --json list {begun}"));
            assert!(printed.contains(&grouped), "{shell}: {begun}: {printed}");
        }
    }
    home.run(["kill", &grouped]).ok();
    home.run([&["kill"][..], &jobs.each_ref().map(String::as_str)].concat()).ok();
}

/// A person presses the tab key in each shell, with what `outlive setup shell` has installed; afterwards it is as it was.
#[test]
fn setup_installs_completion_and_takes_it_out_again() {
    let home = Home::new();
    let [_, api, unnamed] = jobs(&home);
    let setup = |arguments: &[&str]| {
        let mut command = home.outlive([&["setup", "shell"], arguments].concat());
        let directory = home.program("outlive").parent().expect("a directory").to_owned();
        command.env("PATH", format!("{}:/usr/bin:/bin", directory.display())).env("SHELL", "/usr/bin/zsh");
        finish(command, b"")
    };
    let own = "# mine\nPS1='> '\n";
    for (name, file, start) in [
        ("bash", ".bashrc", "bash -i"),
        ("zsh", ".zshrc", "zsh -i"),
        ("fish", ".config/fish/completions/outlive.fish", "fish"),
    ] {
        let path = home.path().join(file);
        let is_fish = name == "fish";
        if !is_fish {
            fs::write(&path, own).expect("a file");
        }
        assert!(!setup(&["--shell", name, "--print"]).ok().text().is_empty());
        let said = setup(&["--shell", name]).ok().text();
        assert!(said.contains(&format!("added to ~/{file}")) && said.contains("--remove"), "{said}");
        let written = fs::read_to_string(&path).expect("it was written");
        assert!(is_fish || written.starts_with(own), "{written}");
        assert!(setup(&["--shell", name]).ok().text().starts_with("nothing to do"));
        let tmux = Tmux::open(&home, 100, 40);
        tmux.line(
            "one",
            &format!(
                "PATH={}:$PATH {start}",
                home.program("outlive").parent().expect("a directory").display()
            ),
        );
        tmux.line("one", "echo 'shell ''is up'");
        tmux.shows("one", "shell is up");
        tmux.tell(&["send-keys", "-t", "one", "-l", "outlive show ap"]);
        tmux.tell(&["send-keys", "-t", "one", "Tab"]);
        tmux.shows("one", "outlive show api");
        tmux.tell(&["send-keys", "-t", "one", "Enter"]);
        tmux.shows("one", "sleep 600");
        tmux.tell(&["send-keys", "-t", "one", "-l", "clear; outlive logs "]);
        until("the jobs are listed with their states", || {
            tmux.tell(&["send-keys", "-t", "one", "Tab"]);
            let screen = tmux.screen("one");
            screen.contains("api") && screen.contains("running") && screen.contains("failed")
        });
        drop(tmux);
        assert!(setup(&["--shell", name, "--remove"]).ok().text().contains("removed from"));
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), if is_fish { "" } else { own });
        assert!(setup(&["--shell", name, "--remove"]).ok().text().starts_with("nothing to do"));
    }
    assert!(setup(&[]).ok().text().contains("~/.zshrc"), "the shell that the user has");
    let mut command = home.outlive(["setup", "shell"]);
    command.env("SHELL", "/bin/dash");
    assert!(finish(command, b"").code(1).error().contains("--shell bash"));
    home.run(["kill", &api, &unnamed]).ok();
}
