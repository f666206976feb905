//! The profile macos-shell.

#[test]
fn the_dialogue_is_as_the_design_has_it() {
    super::dialogue("macos-shell");
}
