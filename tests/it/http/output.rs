//! Output that is read while the job prints and ends.
//!
//! Proves: an answer that says that no more will come has all that came.

use outlive_tests::Home;

use super::Server;

#[test]
fn an_answer_that_is_the_last_has_everything() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    // Long enough that the job ends while some of the answers are made.
    let job =
        home.start_with(&["--stdin", "open"], ["sh", "-c", "yes | head -c 400000; read line; echo more"]);
    let ask = || loop {
        let page = server.get(&format!("/v1/jobs/{job}/output?search=more")).ok();
        if page["live"] == false {
            return page;
        }
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        home.run(["send", &job, "go"]).ok();
        for reader in readers {
            let page = reader.join().expect("it reads");
            assert_eq!((page["end"].as_u64(), page["total_lines"].as_u64()), (Some(400_005), Some(200_001)));
            assert_eq!(page["lines"][0]["text"], "more", "{page}");
        }
    });
}

#[test]
fn the_end_of_a_log_of_long_lines_is_its_end() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let job = server.run("for i in 1 2 3 4 5 6 7 8; do head -c 800000 /dev/zero | tr '\\0' $i; echo; done");
    home.wait(&job);
    let page = |query: &str| server.get(&format!("/v1/jobs/{job}/output?{query}")).ok();
    let numbers = |page: &serde_json::Value| -> Vec<u64> {
        page["lines"]
            .as_array()
            .expect("lines")
            .iter()
            .map(|line| line["line"].as_u64().unwrap_or(0))
            .collect()
    };
    // An answer has at most 4 MiB.
    let last = page("tail=8");
    assert_eq!((numbers(&last), last["more"].as_bool()), (vec![4, 5, 6, 7, 8], Some(false)));
    let first = page("from_line=1");
    assert_eq!((numbers(&first), first["more"].as_bool()), (vec![1, 2, 3, 4, 5], Some(true)));
    // Where lines are cut, more of them fit.
    for query in ["tail=8&cut=1000", "from_line=1&cut=1000", "search=8$|1$|[2-7]$&cut=1000"] {
        let cut = page(query);
        assert_eq!((numbers(&cut), cut["more"].as_bool()), ((1..=8).collect(), Some(false)), "{query}");
        assert_eq!(cut["lines"][7]["text"], "8".repeat(1000));
        assert_eq!(cut["lines"][7]["cut_bytes"], 799_000);
    }
}
