//! The library calls back.
//!
//! Proves of the design: a callback in the library is given each ending once; if it panics, the next listener is.

use std::sync::mpsc;
use std::time::Duration;

use outlive::Notice;
use outlive_tests::{Home, LIMIT, until};

use super::*;

fn heard(from: &mpsc::Receiver<Vec<String>>, count: usize) -> Vec<String> {
    let mut heard = Vec::new();
    while heard.len() < count {
        heard.extend(from.recv_timeout(LIMIT).unwrap());
    }
    heard
}

fn ids(notices: &[Notice]) -> Vec<String> {
    notices.iter().map(|notice| notice.job.to_string()).collect()
}

#[test]
fn a_callback_hears_of_each_ending_once_before_and_after_it_was_set() {
    let home = Home::new();
    let store = home.open();
    let before = ended(&home, "me", &["true"]);
    let (tell, told) = mpsc::channel();
    let listen = |tell: mpsc::Sender<Vec<String>>| {
        let listener =
            store.on_endings(&name("default"), &name("me"), move |notices| tell.send(ids(notices)).unwrap());
        listener.unwrap()
    };
    let listener = listen(tell.clone());
    assert_eq!(heard(&told, 1), [before]);
    let mut after: Vec<String> = (0..10).map(|_| start(&home, "me", &["sh", "-c", "exit 1"])).collect();
    after.push(start(&home, "me", &["sleep", "300"]));
    assert_eq!(sorted(heard(&told, 10)), sorted(after[..10].to_vec()));
    // A killed keeper tells nothing; the listener finds out.
    kill_with_keeper(&home, &after[10]);
    assert_eq!(heard(&told, 1), after[10..]);
    drop(listener);
    assert_eq!(jobs(&peek(&home, "me")), nothing());
    // While there was no listener:
    let away = ended(&home, "me", &["true"]);
    let listener = listen(tell);
    assert!(heard(&told, 1).contains(&away));
    drop(listener);
    assert!(
        told.recv_timeout(Duration::ZERO).is_err(),
        "nothing is told twice, and a callback that is dropped is not called"
    );
}

#[test]
fn a_callback_that_panics_has_heard_nothing() {
    let home = Home::new();
    let store = home.open();
    let job = ended(&home, "me", &["true"]);
    let listener = store.on_endings(&name("default"), &name("me"), |_| panic!("this one is meant")).unwrap();
    until("it has panicked", || listener.is_finished());
    drop(listener);
    assert_eq!(jobs(&inbox(&home, "me")), [job]);
}
