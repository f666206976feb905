//! The examples of each design's own text, call by call through the official client.
//!
//! What they run is not on every machine, so that `npm` and `claude` are programs of the home that print what the examples show.

use std::os::unix::fs::PermissionsExt;

use outlive_tests::Home;

const NPM: &str = "#!/bin/sh
echo npm \"$@\"
case $* in
test) echo all tests passed ;;
*)
    echo Server running on http://localhost:3000
    # After the line before it, whichever of the streams is read first.
    sleep 0.3
    echo watching for changes >&2
    exec sleep 300
    ;;
esac
";

const CLAUDE: &str = "#!/bin/sh
printf '{\"type\":\"result\",\"prompt\":\"%s\"}\\n' \"$2\"
read answer
";

/// A home with the programs and directories of the examples.
fn home() -> Home {
    let home = Home::new();
    let programs = home.make_dir("bin");
    for (name, text) in [("npm", NPM), ("claude", CLAUDE)] {
        let file = programs.join(name);
        std::fs::write(&file, text).expect("the home is there");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("it is ours");
    }
    std::fs::create_dir_all(home.path().join("path/to/project")).expect("the home is there");
    home
}

fn examples(profile: &str) {
    super::hold(&home(), profile, &format!("examples/{profile}.json"));
}

#[test]
fn macos_shell() {
    examples("macos-shell");
}

#[test]
fn claude_code() {
    examples("claude-code");
}

#[test]
fn deepchat() {
    examples("deepchat");
}

#[test]
fn duragent() {
    examples("duragent");
}

#[test]
fn neovate() {
    examples("neovate");
}
