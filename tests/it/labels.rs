//! Labels: given at the start, kept with the job, and asked for in a list.
//!
//! What a caller gives is in `spec.json`, in `show` and found by `list --label`; outlive's own names are refused.

use outlive_tests::Home;
use serde_json::json;

#[test]
fn a_list_is_narrowed_by_labels() {
    let home = Home::new();
    let web =
        home.start_with(&["--label", "team=web", "--label", "tier=", "--label", "team=web=1"], ["true"]);
    let api = home.start_with(&["--label", "team=api"], ["true"]);
    let bare = home.start(["true"]);
    for job in [&web, &api, &bare] {
        home.wait(job);
    }
    // Of a name that was given twice the last value counts.
    assert_eq!(home.show(&web)["labels"], json!({"team": "web=1", "tier": ""}));
    assert_eq!(home.show(&bare)["labels"], json!({}));
    assert!(home.run(["show", &web]).ok().text().contains("team=web=1"));
    let listed = |labels: &[&str]| -> Vec<String> {
        let options = labels.iter().flat_map(|label| ["--label", label]);
        let rows = home.json(["list"].into_iter().chain(options));
        rows.as_array()
            .into_iter()
            .flatten()
            .map(|row| row["job"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(listed(&["team"]), [web.clone(), api.clone()]);
    assert_eq!(listed(&["team=api"]), [api]);
    assert_eq!(listed(&["team", "tier="]), [web]);
    assert!(listed(&["team=web"]).is_empty());
}

#[test]
fn a_label_that_cannot_be_is_refused_with_the_reason() {
    let home = Home::new();
    for (label, words) in [
        ("outlive.profile=duragent", "names that begin with outlive. are outlive's own"),
        ("a b=c", "cannot be the name of a label"),
        ("a=b\nc", "without control characters"),
        ("a", "write NAME=VALUE"),
    ] {
        let refused = home.run(["run", "--label", label, "--", "true"]).code(2);
        assert!(refused.error().contains(words), "{label}: {}", refused.error());
    }
    let refused = home.run(["list", "--label", "=x"]).code(2);
    assert!(refused.error().contains("cannot be the name of a label"), "{}", refused.error());
    assert_eq!(home.json(["list"]), json!([]));
}
