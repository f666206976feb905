//! The official client of the protocol's authors.
//!
//! Proves that PyPI's `mcp` drives every tool over standard input and output, in both eras. `./test` installs it.

use outlive_tests::{Home, finish, python_client, workspace};

#[test]
fn the_official_python_client_drives_every_tool() {
    let Some(python) = python_client() else { return };
    let driver = workspace().join("tests/clients/python/drive.py");
    for mode in ["legacy", "auto"] {
        let home = Home::new();
        let mut command = home.command(&python);
        command.arg(&driver).arg(home.program("outlive")).arg(mode);
        let done = finish(command, b"").ok();
        assert_eq!(done.text(), "every answer is right\n", "{}", done.error());
    }
}
