//! The statistics page in a real browser.

use std::process::Command;

use fulmar_tests::gateway::{ProxyFolder, end};
use fulmar_tests::process::{peer, text};
use fulmar_tests::statistics::{StatsSite, live, page};
use rustix::process::Signal;

/// The output of a browser for a page, and its error messages.
fn visit(url: &str, more: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let mut browser: Command = peer("timeout");
    browser.arg("--kill-after=5").arg("180").arg(peer("chromium").get_program());
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    browser.args(["--no-first-run", "--enable-logging=stderr", "--hide-scrollbars"]);
    browser.arg(format!("--user-data-dir={}", profile.path().display()));
    let output = browser.args(more).arg(url).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let complaints = text(&output.stderr);
    let complaints = complaints.lines().filter(|line| line.contains("CONSOLE"));
    (text(&output.stdout), complaints.map(|line| format!("{line}\n")).collect())
}

#[test]
fn the_page_refreshes_from_its_json() {
    let site = StatsSite::start(live(), page());
    let (seen, complaints) = visit(&site.url(), &["--dump-dom", "--virtual-time-budget=20000"]);
    assert_eq!(complaints, "", "the browser complains");
    assert!(seen.contains("live, every 3 s"), "it has refreshed");
    let points = seen.split("<polyline points=\"").skip(1);
    let points = points.filter(|rest| !rest.starts_with('"')).count();
    assert!(points >= 10, "{points} lines of rates are drawn");
    for (name, state) in [("web1", "up"), ("web2", "down"), ("web3", "maint"), ("web4", "drain")] {
        let row = seen.split("<tr ").find(|row| row.contains(&format!("data-name=\"{name}\"")));
        let row = row.unwrap();
        assert!(row.contains(&format!("class=\"pill\" data-s=\"{state}\"")), "{name}: {row}");
    }
    assert!(seen.contains("blog\"&lt;&amp;&gt;</a>"), "names are text");
}

#[test]
fn the_page_of_a_running_proxy_shows_its_traffic() {
    let place = ProxyFolder::new();
    let path = place.configure("", "");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace(
        "frontend fe\n",
        "frontend fe\n stats enable\n stats uri /stats\n stats admin if TRUE\n stats refresh 1s\n",
    );
    std::fs::write(&path, text).unwrap();
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    (0..30).for_each(|_| drop(place.send_request().unwrap()));
    let url = format!("http://{}/stats", place.address);
    let (seen, complaints) = visit(&url, &["--dump-dom", "--virtual-time-budget=10000"]);
    assert_eq!(complaints, "", "the browser complains");
    assert!(seen.contains("live, every 1 s"), "it has refreshed");
    let row = seen.split("<tr ").find(|row| row.contains("data-name=\"s1\"")).unwrap();
    assert!(row.contains(">30<") || row.contains(">31<"), "its sessions are counted: {row}");
    assert!(seen.contains("<form"), "an authorized user can change servers");
    end(process, Signal::TERM);
}
