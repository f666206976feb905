//! Many jobs at once, under output: those of this version are upgraded, those of earlier ones are named and left, and none loses a byte.
//!
//! `OUTLIVE_TEST_UPGRADE=50` has so many; `OUTLIVE_TEST_OLD` names a directory with the programs of a version before upgrades, of which
//! as many are started.

use std::path::PathBuf;
use std::process::Stdio;

use outlive_tests::{Home, LIMIT, end_within, finish, report, until};

use super::{PRINTING, assert_ends_whole};

/// overmind#58: no output after an upgrade.
#[test]
fn jobs_under_output_lose_nothing() {
    let count = std::env::var("OUTLIVE_TEST_UPGRADE").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let old = std::env::var_os("OUTLIVE_TEST_OLD").map(PathBuf::from);
    let home = Home::new();
    home.configure("[limits]\nsession = 500\ntotal = 500\n");
    let start = |program: PathBuf| {
        let mut command = home.command(program);
        command.args(["run", "--", "sh", "-c", PRINTING]);
        finish(command, b"").ok().text().trim().to_owned()
    };
    let old: Vec<String> =
        old.iter().flat_map(|place| (0..count).map(|_| start(place.join("outlive")))).collect();
    let new: Vec<String> = (0..count).map(|_| start(home.program("outlive"))).collect();
    let mut waiters: Vec<_> = old
        .iter()
        .chain(&new)
        .map(|job| home.outlive(["wait", job]).stdout(Stdio::null()).spawn().unwrap())
        .collect();
    let said = home.json(["upgrade", "--force"]);
    let result = |job: &str| {
        let mut jobs = said["jobs"].as_array().unwrap().iter();
        jobs.find(|said| said["job"] == job).map(|said| said["result"].as_str().unwrap().to_owned())
    };
    let results: Vec<_> = new.iter().map(|job| result(job)).collect();
    assert!(results.iter().all(|result| result.as_deref() == Some("upgraded")), "{said}");
    assert!(old.iter().all(|job| result(job).as_deref() == Some("too_old")), "{said}");
    assert_ends_whole(&home, &[&old[..], &new].concat());
    for waiter in &mut waiters {
        assert_eq!(end_within(waiter, LIMIT), Some(7));
    }
    report(&format!("{} old and {} new jobs lost nothing", old.len(), new.len()));
    until("no process is left", || home.processes().is_empty());
}
