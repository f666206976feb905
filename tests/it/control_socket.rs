//! Clients of a keeper's socket that pipeline, flood, stop half-way or send garbage cost neither the job nor its keeper:
//! requests are answered in order, memory stays bounded, and a keeper that is asked nothing uses no processor.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use outlive_core::control::{Hello, MAX_INPUT, Place, Reply, Request};
use outlive_sys::identity::{ProcessId, Stat};
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_tests::{Home, LIMIT, Random, end, pid, report, until};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// The longest contents of a request that a keeper takes: a full piece of input and its framing.
const LONGEST: usize = MAX_INPUT + 64;

/// How much memory a keeper may have resident with every connection that it takes in use: two full buffers for each of 64
/// clients, and as much again for everything else.
const RESIDENT_LIMIT: u64 = 32 << 20;

/// Connects to the keeper of a job; its greeting is read.
fn connect(home: &Home, job: &str) -> UnixStream {
    let mut stream = UnixStream::connect(home.job_dir(job).join("ctl")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    Hello::parse(&read_frame(&mut stream).unwrap()).unwrap();
    stream
}

/// Reads a frame's contents; `None` if the keeper has closed the connection.
fn read_frame(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut header = [0; 4];
    match stream.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            return None;
        }
        Err(error) => panic!("{error}"),
    }
    let mut contents = vec![0; u32::from_le_bytes(header) as usize];
    stream.read_exact(&mut contents).unwrap();
    Some(contents)
}

fn reply(stream: &mut UnixStream) -> Reply {
    Reply::parse(&read_frame(stream).expect("the keeper answers")).unwrap()
}

/// Writes a frame with a header that claims this length.
fn frame(claimed: usize, contents: &[u8]) -> Vec<u8> {
    let claimed = u32::try_from(claimed).unwrap();
    [&claimed.to_le_bytes()[..], contents].concat()
}

fn refusal(reply: Reply) -> String {
    match reply {
        Reply::Refused { code, .. } => code,
        other => panic!("it is not refused: {other:?}"),
    }
}

/// Writes requests that are each answered with a refusal, without reading one, until the keeper takes no more of them;
/// returns how many bytes it took.
fn flood(stream: &mut UnixStream, most: usize) -> usize {
    let requests = Request::Signal { signal: 0, by: String::new() }.to_frame().repeat(500);
    stream.set_nonblocking(true).unwrap();
    let (mut taken, mut at) = (0, 0);
    while taken < most {
        match stream.write(&requests[at..]) {
            Ok(count) => (taken, at) = (taken + count, (at + count) % requests.len()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(&*stream, PollFlags::OUT)];
                if poll(&mut fds, Some(Duration::from_secs(1))).unwrap() == 0 {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    taken
}

/// Returns the processor time that a process has used, in clock ticks.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 1..].split_ascii_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Waits until a keeper uses no processor for a second; one that spins never does.
fn rests(keeper: i32) {
    until("the keeper rests", || {
        let before = ticks(keeper);
        std::thread::sleep(Duration::from_secs(1));
        ticks(keeper) == before
    });
}

/// Lets this program open so many files.
fn allow_files(count: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.current.map(|current| current.max(count));
    limit.maximum = limit.maximum.map(|maximum| maximum.max(count));
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn a_keeper_that_may_open_no_more_files_rests_and_is_still_heard() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    let keeper = pid(&home.show(&job), "keeper_pid");
    let open = fs::read_dir(format!("/proc/{keeper}/fd")).unwrap().count() as u64;
    let most = Some(open + 3);
    let limit = Rlimit { current: most, maximum: most };
    prlimit(Pid::from_raw(keeper), Resource::Nofile, limit).unwrap();
    let path = home.job_dir(&job).join("ctl");
    let connected: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    rests(keeper);
    home.run(["send", &job, "still there"]).ok();
    home.wait_for_output(&job, "still there");
    drop(connected);
    home.run(["kill", &job]).ok();
    assert_eq!(home.wait(&job)["status"], "killed");
}

#[test]
fn a_keeper_whose_poll_fails_rests_and_goes_on_when_it_can() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    let keeper = pid(&home.show(&job), "keeper_pid");
    // The kernel polls no more descriptors than a process may open.
    let limit = Rlimit { current: Some(1), ..getrlimit(Resource::Nofile) };
    let before = prlimit(Pid::from_raw(keeper), Resource::Nofile, limit).unwrap();
    // Wakes the keeper, which polls again.
    let waiting = UnixStream::connect(home.job_dir(&job).join("ctl")).unwrap();
    rests(keeper);
    prlimit(Pid::from_raw(keeper), Resource::Nofile, before).unwrap();
    home.run(["send", &job, "still there"]).ok();
    home.wait_for_output(&job, "still there");
    drop(waiting);
    home.run(["kill", &job]).ok();
    assert_eq!(home.wait(&job)["status"], "killed");
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let home = Home::new();
    // One that prints nothing: nothing but the requests wakes its keeper.
    let quiet = home.start_with(&["--stdin", "open"], ["sleep", "300"]);
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    [&quiet, &job].into_iter().for_each(|job| pipeline(&home, job));
    assert_eq!(home.wait(&job)["exit_code"], 0);
    assert_eq!(home.logs(&job), b"one two\n");
}

fn pipeline(home: &Home, job: &str) {
    let mut client = connect(home, job);
    let requests = [
        Request::Input(b"one ".to_vec(), Place::default()).to_frame(),
        frame(1, &[200]),
        Request::Input(b"two\n".to_vec(), Place::default()).to_frame(),
        frame(0, &[]),
        Request::Signal { signal: 0, by: String::new() }.to_frame(),
        Request::Eof(Place::default()).to_frame(),
        Request::Input(b"three".to_vec(), Place::default()).to_frame(),
    ];
    client.write_all(&requests.concat()).unwrap();
    assert_eq!(reply(&mut client), Reply::Accepted);
    assert_eq!(refusal(reply(&mut client)), "unknown_request");
    assert_eq!(reply(&mut client), Reply::Accepted);
    assert_eq!(refusal(reply(&mut client)), "unknown_request");
    assert_eq!(refusal(reply(&mut client)), "bad_signal");
    assert_eq!(reply(&mut client), Reply::Accepted);
    assert_eq!(refusal(reply(&mut client)), "stdin_closed");
}

#[test]
fn what_is_asked_after_a_kill_with_survivors_is_answered() {
    let home = Home::new();
    let line = "setsid sleep 300 >/dev/null 2>&1 & echo $!";
    let job = home.start_with(&["--containment", "group"], ["sh", "-c", line]);
    home.wait(&job);
    let survivor: i32 = String::from_utf8(home.logs(&job)).unwrap().trim().parse().unwrap();
    until("it has left the group", || Stat::read(survivor).is_some_and(|stat| stat.session == survivor));
    let mut client = connect(&home, &job);
    let kill = Request::Kill { signal: 9, grace_ms: None, by: "a test".into() }.to_frame();
    client.write_all(&[kill, Request::Resume.to_frame()].concat()).unwrap();
    let Reply::Signalled { survivors, .. } = reply(&mut client) else { panic!("it is a kill's answer") };
    assert_eq!(survivors[0].pid, survivor, "{survivors:?}");
    assert_eq!(reply(&mut client), Reply::Accepted);
    end(ProcessId::of(survivor).unwrap());
}

#[test]
fn ten_thousand_requests_at_once_are_all_answered() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let mut client = connect(&home, &job);
    let mut writer = client.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(&Request::Resume.to_frame().repeat(10_000)).unwrap());
        for _ in 0..10_000 {
            assert_eq!(reply(&mut client), Reply::Accepted);
        }
    });
    assert_eq!(home.show(&job)["status"], "running");
}

#[test]
fn hostile_clients_cost_neither_the_job_nor_its_keeper() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    let keeper = pid(&home.show(&job), "keeper_pid");
    let resident = || outlive_sys::tree::resident(keeper).unwrap();
    // All stay connected to the end, so that each has its chance to make the keeper spin.
    let mut connected = Vec::new();

    // Half a frame, and silence; half a header; nothing at all.
    for part in [&Request::Input(vec![b'x'; 1000], Place::default()).to_frame()[..500], &[1, 0], &[]] {
        let mut client = connect(&home, &job);
        client.write_all(part).unwrap();
        connected.push(client);
    }
    // What claims to be longer than any request is not waited for.
    for claimed in [u32::MAX as usize, (16 << 20) + 1, 16 << 20, LONGEST + 1] {
        let mut client = connect(&home, &job);
        client.write_all(&frame(claimed, &[18])).unwrap();
        assert!(read_frame(&mut client).is_none(), "a frame of {claimed} bytes is not taken");
        let mut client = connect(&home, &job);
        // As much as the keeper may hold of one request, and a little more once it has that.
        let sent = client.write_all(&frame(claimed, &vec![18; LONGEST - 4]));
        rests(keeper);
        let sent = sent.and_then(|()| client.write_all(&[18]));
        assert!(sent.is_err() || read_frame(&mut client).is_none());
        connected.push(client);
    }
    // Garbage, which is answered or ends the connection.
    let seed = Random::seed();
    report(&format!("seed {seed}"));
    let mut random = Random::new(seed);
    for _ in 0..20 {
        let mut client = connect(&home, &job);
        let garbage: Vec<u8> = (0..5000).map(|_| random.below(256) as u8).collect();
        client.write_all(&garbage).ok();
        connected.push(client);
    }
    // A client that is gone in the middle of its request, before its answer, or has closed one direction.
    for _ in 0..20 {
        connect(&home, &job)
            .write_all(&Request::Input(vec![b'x'; 1000], Place::default()).to_frame()[..500])
            .unwrap();
        connect(&home, &job).write_all(&Request::Resume.to_frame().repeat(100)).unwrap();
        let mut client = connect(&home, &job);
        client.write_all(&Request::Resume.to_frame()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reply(&mut client), Reply::Accepted);
        let client = connect(&home, &job);
        client.shutdown(Shutdown::Read).unwrap();
        connected.push(client);
    }
    // Requests without end, and no answer is ever read.
    const MOST: usize = 32 << 20;
    for _ in 0..4 {
        let mut client = connect(&home, &job);
        let taken = flood(&mut client, MOST);
        assert!(taken < MOST, "the keeper takes no more requests than it can answer");
        connected.push(client);
    }
    assert!(resident() < RESIDENT_LIMIT, "{} bytes are resident", resident());
    // More connections than the keeper has room for.
    allow_files(2000);
    for _ in 0..1000 {
        connected.push(connect(&home, &job));
    }
    assert!(resident() < RESIDENT_LIMIT, "{} bytes are resident", resident());

    rests(keeper);
    home.run(["send", &job, "still there"]).ok();
    home.wait_for_output(&job, "still there");
    assert_eq!(home.show(&job)["status"], "running");
    home.run(["pause", &job]).ok();
    home.run(["resume", &job]).ok();
    home.run(["kill", &job]).ok();
    assert_eq!(home.wait(&job)["status"], "killed");
    assert_eq!(home.logs(&job), b"still there\n");
}
