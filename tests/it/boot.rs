//! What comes back after a restart of the machine: schedules and jobs with `--restart always`, by `outlive boot`, which a unit of systemd or a
//! line of a crontab runs. A restart is played by jobs whose processes are all killed, and whose files name another boot.

use std::process::Command;

use outlive_tests::{Done, Home, finish, kill_with_guard, pid, until};
use serde_json::{Value, json};

fn setup(home: &Home, path: &str, arguments: &[&str]) -> Done {
    let mut command = home.outlive([&["setup", "boot"], arguments].concat());
    command.env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path().join("config")).env("PATH", path);
    finish(command, b"")
}

#[test]
fn a_unit_is_shown_written_and_taken_out_again() {
    let home = Home::new();
    let units = home.path().join("config/systemd/user");
    std::fs::create_dir_all(&units).expect("it can be made");
    let unit = units.join("outlive-boot.service");
    // On a machine without systemd, one that is there is still taken care of.
    std::fs::write(&unit, "[Unit]\n").expect("it can be written");
    let shown = setup(&home, "/usr/bin:/bin", &[]).ok().text();
    assert!(shown.contains("+ ExecStart=") && shown.contains("setup boot --write"), "{shown}");
    assert_eq!(std::fs::read_to_string(&unit).expect("it is there"), "[Unit]\n", "nothing was changed");
    let printed = setup(&home, "/usr/bin:/bin", &["--print"]).ok().text();
    assert!(printed.contains("/outlive\" boot\n") && printed.contains("KillMode=process"), "{printed}");
    setup(&home, "/usr/bin:/bin", &["--write"]).ok();
    let link = units.join("default.target.wants/outlive-boot.service");
    assert_eq!(std::fs::read_to_string(&link).expect("it is wanted"), printed);
    let again = setup(&home, "/usr/bin:/bin", &["--write"]).ok().text();
    assert!(again.contains("nothing to do"), "{again}");
    let mut doctor = home.outlive(["doctor"]);
    doctor.env("XDG_CONFIG_HOME", home.path().join("config"));
    let survives = finish(doctor, b"").text();
    assert!(survives.contains("come back (outlive setup boot)"), "{survives}");
    setup(&home, "/usr/bin:/bin", &["--remove", "--write"]).ok();
    assert!(!unit.exists() && !link.is_symlink());
}

#[test]
fn without_systemd_a_line_of_the_crontab_does_it() {
    if std::path::Path::new("/run/systemd/system").exists() {
        return outlive_tests::lacks("a machine without systemd");
    }
    let home = Home::new();
    let bin = home.make_dir("bin");
    let (program, tab) = (bin.join("crontab"), home.path().join("tab"));
    // As crontab(1) speaks: -l prints it, - replaces it.
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -l ]; then cat {0} || {{ echo no crontab for me >&2; exit 1; }}; else cat > {0}; fi\n",
        tab.display()
    );
    std::fs::write(&program, script).expect("it can be written");
    Command::new("chmod").arg("755").arg(&program).status().expect("chmod runs");
    std::fs::write(&tab, "0 5 * * * mine\n").expect("it can be written");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    setup(&home, &path, &["--write"]).ok();
    let text = std::fs::read_to_string(&tab).expect("it is there");
    assert!(text.starts_with("0 5 * * * mine\n@reboot ") && text.contains("outlive boot"), "{text}");
    assert!(setup(&home, &path, &["--write"]).ok().text().contains("nothing to do"));
    setup(&home, &path, &["--remove", "--write"]).ok();
    assert_eq!(std::fs::read_to_string(&tab).expect("it is there"), "0 5 * * * mine\n");
    // One that cannot be read is not replaced.
    let script =
        format!("#!/bin/sh\n[ \"$1\" = -l ] && {{ echo broken >&2; exit 1; }}\ncat > {}\n", tab.display());
    std::fs::write(&program, script).expect("it can be written");
    assert!(setup(&home, &path, &["--write"]).code(1).error().contains("crontab -l fails: broken"));
    assert_eq!(std::fs::read_to_string(&tab).expect("it is there"), "0 5 * * * mine\n");
    let refused = setup(&home, "/nowhere", &[]).error();
    assert!(refused.contains("neither systemd nor crontab"), "{refused}");
}

/// Ends a job as a restart of the machine does.
fn restart_machine(home: &Home, job: &str) {
    until("it has a keeper", || home.show(job)["keeper_pid"].is_i64());
    let shown = home.show(job);
    kill_with_guard(pid(&shown, "keeper_pid"));
    if let Some(command) = shown["pid"].as_i64() {
        outlive_tests::signal(command as i32, "KILL");
    }
    let spec = home.job_dir(job).join("spec.json");
    let mut text: Value = serde_json::from_slice(&std::fs::read(&spec).expect("it is there")).expect("JSON");
    text["host"]["boot"] = json!("00000000-0000-0000-0000-000000000000");
    std::fs::write(&spec, text.to_string()).expect("it can be written");
}

#[test]
fn schedules_and_services_come_back_and_others_do_not() {
    let home = Home::new();
    let plan = home.start_with(&["--name", "plan", "--at", "03:00"], ["true"]);
    let service = home.start_with(&["--name", "service", "--restart", "always"], ["sleep", "300"]);
    let other = home.start_with(&["--name", "other", "--restart", "on-failure"], ["sleep", "300"]);
    for job in [&plan, &service, &other] {
        restart_machine(&home, job);
    }
    home.run(["boot"]).ok();
    let newest = |name: &str| {
        let jobs = home.json(["list"]);
        let jobs = jobs.as_array().expect("a list").iter().filter(|job| job["name"] == name);
        jobs.cloned().collect::<Vec<_>>()
    };
    until("the schedule goes on", || newest("plan").last().is_some_and(|job| job["status"] == "queued"));
    assert_eq!(newest("plan").len(), 2);
    let runs = newest("service");
    assert_eq!((runs.len(), runs[1]["status"].as_str()), (2, Some("running")), "{runs:#?}");
    assert_eq!(runs[1]["previous"], json!(service));
    assert_eq!(newest("other").len(), 1);
    assert_eq!(newest("other")[0]["status"], "lost");
    // A second time there is nothing to do.
    assert_eq!(home.json(["boot"])["jobs"], json!([]));
    assert_eq!((newest("plan").len(), newest("service").len()), (2, 2));
}
