//! `fulmar bench`: measurements of the smallest kind, what is missing, its end, and the page.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use fulmar_tests::process::{Process, eventually, fulmar, peer, run, text};
use rustix::process::Signal;
use serde_json::Value;

/// `fulmar bench` where the programs of `path` are installed, and others are not.
fn bench(dir: &Path, path: &[&str], arguments: &[&str]) -> Command {
    let installed = dir.join("installed");
    if !installed.exists() {
        fs::create_dir(&installed).unwrap();
        for name in path {
            symlink(peer(name).get_program(), installed.join(name)).unwrap();
        }
    }
    let mut command = Command::new(fulmar());
    command.arg("bench").args(arguments).env("PATH", &installed).env("TMPDIR", dir);
    command
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// What the compiler calls, too.
const COMPILER: &[&str] = &["cc", "as", "ld"];

#[test]
fn one_active_transfer_among_some() {
    let dir = tempfile::tempdir().unwrap();
    let (data, page) = (dir.path().join("r.json"), dir.path().join("r.html"));
    let arguments = ["idle", "-c", "21,41", "-d", "10ms", "-r", "1", "--json", "r.json"];
    let mut command = bench(dir.path(), COMPILER, &arguments);
    let output = run(command.args(["--html", "r.html"]).current_dir(dir.path()));
    let report = json(&data);
    let outcome = &report["experiments"][0];
    let missing = ["instructions per event: install valgrind"];
    assert_eq!(outcome["missing"][0], missing[0], "{outcome}");
    assert_eq!(outcome["failure"], Value::Null);
    let tables = outcome["tables"].as_array().unwrap();
    let calls = tables.iter().find(|it| it["unit"] == "calls per event").unwrap();
    let names: Vec<_> = calls["columns"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["libcurl multi_perform", "libcurl multi_socket", "fulmar"]);
    for row in calls["rows"].as_array().unwrap() {
        let [all, one, ours] = [0, 1, 2].map(|at| row["cells"][at]["value"].as_f64().unwrap());
        assert!(all > one && one > ours && ours == 2.0, "a wait and a receive: {row}");
    }
    // The kernel has as much to do for each: none of them is spared acknowledgements.
    let (_, told) = calls["note"].as_str().unwrap().split_once("kernel sends: ").unwrap();
    let told = told.trim_end_matches('.').split(", ").map(|it| it.rsplit_once(' ').unwrap().1);
    let told: Vec<f64> = told.map(|it| it.parse().unwrap()).collect();
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|each| (0.95..1.05).contains(each)), "{told:?}");
    for table in tables.iter().filter(|it| it["unit"] == "µs per event") {
        let cells = table["rows"].as_array().unwrap().iter().flat_map(|it| it["cells"].as_array());
        let values = cells.flatten().filter_map(|cell| cell["value"].as_f64());
        assert!(values.clone().count() >= 6 && values.into_iter().all(|us| us > 0.0), "{table}");
    }
    assert!(text(&output.stdout).contains("fulmar is ahead in "));
    let again = run(Command::new(fulmar()).args(["bench", "--from"]).arg(&data));
    assert_eq!(text(&again.stdout), text(&output.stdout), "a report is read as it was written");
    assert!(fs::read_to_string(page).unwrap().contains("</html>"));
}

#[test]
fn peers_that_are_missing_are_told_and_fulmar_is_measured_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["urls", "-c", "9,4", "-r", "1", "--json", "r.json"];
    let output = run(bench(dir.path(), &[], &arguments).current_dir(dir.path()));
    assert!(text(&output.stdout).contains("not measured: libcurl: no compiler: install gcc"));
    let report = json(&dir.path().join("r.json"));
    let cells = &report["experiments"][0]["tables"][0]["rows"][0]["cells"];
    assert_eq!(cells[1]["absent"], "not installed");
    assert!(cells[3]["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_command_line_that_is_wrong_is_told() {
    let status = |arguments: &[&str]| {
        let output = Command::new(fulmar()).arg("bench").args(arguments).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(status(&[]).0, Some(2));
    assert_eq!(status(&["idle", "-c", "0"]).0, Some(2));
    let (code, complaint) = status(&["nonsense"]);
    assert_eq!(code, Some(2));
    assert!(complaint.contains("no experiment is called nonsense"), "{complaint}");
    let (code, complaint) = status(&["--from", "Cargo.toml"]);
    assert_eq!(code, Some(1));
    assert!(complaint.contains("Cargo.toml: "), "{complaint}");
}

#[test]
fn nothing_is_left_of_a_run_that_is_interrupted() {
    for signal in [Signal::INT, Signal::TERM] {
        let dir = tempfile::tempdir().unwrap();
        let arguments = ["idle", "-c", "101", "-d", "10m", "-r", "1"];
        let process = Process::start(&mut bench(dir.path(), &[], &arguments));
        let children = format!("/proc/{0}/task/{0}/children", process.id());
        let mut seen = Vec::new();
        eventually("a server and a client run", || {
            let text = fs::read_to_string(&children).unwrap_or_default();
            seen = text.split_whitespace().map(str::to_owned).collect();
            seen.len() == 2
        });
        process.signal(signal);
        let ended = process.wait();
        assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
        for pid in seen {
            assert!(!Path::new("/proc").join(&pid).exists(), "{pid} is still there");
        }
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().flatten().map(|it| it.file_name()).collect();
        assert_eq!(left, ["installed"], "its directory is gone");
    }
}

/// A page as a browser lays it out: `measure` is JavaScript that a copy of it ends with, and puts what
/// it finds into the title.
fn browse(dir: &Path, page: &str, arguments: &[&str]) -> Value {
    let script = "<script>document.title = JSON.stringify((() => { MEASURE })())</script></body>"
        .replace("MEASURE", MEASURE);
    let path = dir.join("page.html");
    fs::write(&path, page.replace("</body>", &script)).unwrap();
    let mut browser = peer("timeout");
    browser.arg("--kill-after=5").arg("60").arg(peer("chromium").get_program());
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    browser.args(["--no-first-run", "--hide-scrollbars", "--dump-dom"]).args(arguments);
    browser.arg(format!("--user-data-dir={}", dir.join("profile").display()));
    let output: Output = run(browser.arg(format!("file://{}", path.display())));
    let dom = text(&output.stdout);
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap();
    serde_json::from_str(&title.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
        .unwrap()
}

/// Colours, what sticks out of the page or of a plot, labels that lie on each other.
const MEASURE: &str = "
    const shade = element => getComputedStyle(element).backgroundColor;
    const plots = [...document.querySelectorAll('.plot svg')];
    const out = plots.flatMap(svg => {
      const box = svg.getBoundingClientRect();
      return [...svg.querySelectorAll('text')].filter(text => {
        const own = text.getBoundingClientRect();
        return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1;
      }).map(text => text.textContent);
    });
    const on = plots.flatMap(svg => {
      const texts = [...svg.querySelectorAll('text.label, text.name, text.total, text.key')];
      const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
      return boxes.flatMap(([a, one], at) => boxes.slice(at + 1).filter(([b, two]) =>
        one.left < two.right - 1 && two.left < one.right - 1 &&
        one.top < two.bottom - 4 && two.top < one.bottom - 4).map(([b]) => a + ' / ' + b));
    });
    return {
      ground: shade(document.body), card: shade(document.querySelector('.panel')),
      plots: plots.length, described: document.querySelectorAll('.plot svg > desc').length,
      wide: document.documentElement.scrollWidth > innerWidth, out, on,
    };";

#[test]
fn the_page_is_laid_out_in_light_and_in_dark_and_on_a_small_screen() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--from", concat!(env!("CARGO_MANIFEST_DIR"), "/data/bench.json"), "--html"];
    let path = dir.path().join("report.html");
    run(Command::new(fulmar()).arg("bench").args(arguments).arg(&path));
    let page = fs::read_to_string(path).unwrap();
    let light = "--blink-settings=preferredColorScheme=1";
    let light = browse(dir.path(), &page, &[light, "--window-size=1200,900"]);
    let dark = "--blink-settings=preferredColorScheme=0";
    let dark = browse(dir.path(), &page, &[dark, "--window-size=500,900"]);
    assert_eq!(light["ground"], "rgb(246, 248, 250)");
    assert_eq!(dark["ground"], "rgb(13, 18, 24)");
    for found in [&light, &dark] {
        assert_eq!(found["wide"], false, "nothing sticks out: {found}");
        assert_eq!(
            (&found["out"], &found["on"]),
            (&Value::from([(); 0].to_vec()), &Value::from([(); 0].to_vec()))
        );
        assert_eq!(found["plots"], found["described"]);
        assert!(found["plots"].as_u64().unwrap() > 5, "{found}");
    }
}
