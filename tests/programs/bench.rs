//! `fulmar bench`: short measurements, missing peers, interruption, and the HTML page.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use fulmar_tests::process::{ChildProcess, eventually, fulmar, has_ended, peer, run, text};
use rustix::process::Signal;
use serde_json::Value;

/// `fulmar bench` with only the programs of `path` on PATH.
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

/// The compiler, and what it starts.
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
    let missing = outcome["missing"].as_array().unwrap();
    assert!(
        missing.iter().any(|it| it == "valgrind is not installed: install valgrind"),
        "{outcome}"
    );
    assert_eq!(outcome["failure"], Value::Null);
    let tables = outcome["tables"].as_array().unwrap();
    let calls = tables.iter().find(|it| it["unit"] == "calls per event").unwrap();
    let title = calls["title"].as_str().unwrap();
    for name in ["21", "41"] {
        let calls = row(outcome, title, name);
        let of = |side| figure(&calls, side);
        assert!(of("libcurl multi_perform") > of("libcurl multi_socket"), "{calls:?}");
        assert_eq!(of("libcurl multi_socket"), 3.0, "a poll, too: {calls:?}");
        assert_eq!(of("libcurl multi_socket, no mask"), 4.0, "another poll: {calls:?}");
        for side in ["fulmar", "fulmar socket_action"] {
            assert_eq!(of(side), 2.0, "a wait and a receive: {side}, {calls:?}");
        }
        assert_eq!(of("fulmar socket_action, no mask"), 3.0, "and a poll: {calls:?}");
        // Where it was built.
        let library = calls.iter().find(|(side, _)| side == "fulmar's libcurl multi_socket");
        assert!(library.is_none_or(|(_, count)| *count == Some(2.0)), "{calls:?}");
    }
    // The kernel has the same work for all sides: it delays acknowledgements for none of them.
    let title = "Acknowledgements of an event of 1 byte";
    let packets = tables.iter().find(|it| it["title"] == title).unwrap();
    for values in packets["rows"].as_array().unwrap().iter().map(values) {
        assert!(values.len() >= 6, "{packets}");
        assert!(values.iter().all(|each| (0.8..1.25).contains(each)), "{packets}");
    }
    for table in tables.iter().filter(|it| it["unit"] == "us per event") {
        let values = table["rows"].as_array().unwrap().iter().flat_map(values);
        assert!(values.clone().count() >= 4 && values.into_iter().all(|us| us > 0.0), "{table}");
    }
    assert!(text(&output.stdout).contains("fulmar is ahead in "));
    let again = run(Command::new(fulmar()).args(["bench", "--from"]).arg(&data));
    assert_eq!(text(&again.stdout), text(&output.stdout), "a report is read as it was written");
    assert!(fs::read_to_string(page).unwrap().contains("</html>"));
}

/// A loop of poll visits all descriptors in one call, as any other makes one call.
#[test]
fn each_event_system_waits_once_for_an_event() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["event-systems", "-c", "1,11", "-d", "10ms", "-r", "1", "--json", "r.json"];
    let mut command = bench(dir.path(), &[], &arguments);
    run(command.args(["--html", "r.html"]).current_dir(dir.path()));
    let report = json(&dir.path().join("r.json"));
    let calls = row(&report["experiments"][0], "System calls of an event", "11");
    for side in ["fulmar", "fulmar, level-triggered epoll", "fulmar, poll"] {
        assert_eq!(figure(&calls, side), 2.0, "{calls:?}");
    }
    let page = fs::read_to_string(dir.path().join("r.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("<polyline"), "{page}");
}

#[test]
fn pipelined_requests_share_a_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["pipelining", "-d", "10ms", "-r", "1", "--json", "r.json"];
    let output = bench(dir.path(), &[], &arguments).current_dir(dir.path()).output().unwrap();
    let report = json(&dir.path().join("r.json"));
    let outcome = &report["experiments"][0];
    assert_eq!(outcome["failure"], Value::Null, "{outcome} {}", text(&output.stderr));
    let trips = row(outcome, "Round trips per request", "100 ms");
    assert!(figure(&trips, "fulmar, one at a time") > 0.9, "{trips:?}");
    assert!(figure(&trips, "fulmar") < 0.3, "{trips:?}");
}

/// The figures of a row.
fn values(row: &Value) -> Vec<f64> {
    row["cells"].as_array().unwrap().iter().filter_map(|cell| cell["value"].as_f64()).collect()
}

#[test]
fn opening_has_no_row_without_idle_connections() {
    let dir = tempfile::tempdir().unwrap();
    for (sizes, rows) in [("1", &[][..]), ("1,3", &["3"])] {
        let arguments = ["idle", "-c", sizes, "-d", "10ms", "-r", "1", "--json", "r.json"];
        run(bench(dir.path(), &[], &arguments).current_dir(dir.path()));
        let report = json(&dir.path().join("r.json"));
        let tables = report["experiments"][0]["tables"].as_array().unwrap();
        let of = |unit: &str| {
            let tables = tables.iter().filter(|it| it["unit"] == unit);
            let rows = tables.flat_map(|it| it["rows"].as_array().unwrap());
            rows.map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of("us per connection"), rows, "{sizes}: idle connections");
        let each: Vec<_> = sizes.split(',').collect();
        assert_eq!(of("events/s"), each, "{sizes}: with no idle connection, too");
        assert_eq!(of("calls per event"), each.repeat(2), "{sizes}: events of both sizes");
    }
}

#[test]
fn missing_peers_are_reported_and_fulmar_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["urls", "-c", "9,4", "-r", "1", "--json", "r.json"];
    let output = run(bench(dir.path(), &[], &arguments).current_dir(dir.path()));
    assert!(text(&output.stdout).contains("not measured: libcurl: no C compiler: install gcc"));
    let report = json(&dir.path().join("r.json"));
    let cells = &report["experiments"][0]["tables"][0]["rows"][0]["cells"];
    let columns = report["experiments"][0]["tables"][0]["columns"].as_array().unwrap();
    let at = |name: &str| columns.iter().position(|it| it["name"] == name).unwrap();
    assert_eq!(cells[at("libcurl multi_socket")]["absent"], "not installed");
    assert!(cells[at("fulmar")]["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_report_contains_each_round() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["urls", "-c", "4", "-r", "3", "--json", "r.json"];
    run(bench(dir.path(), &[], &arguments).current_dir(dir.path()));
    let report = json(&dir.path().join("r.json"));
    let table = &report["experiments"][0]["tables"][0];
    let columns = table["columns"].as_array().unwrap();
    let at = columns.iter().position(|it| it["name"] == "fulmar").unwrap();
    let cell = &table["rows"][0]["cells"][at];
    let mut rounds: Vec<_> =
        cell["rounds"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    rounds.sort_by(f64::total_cmp);
    let figures = ["low", "value", "high"].map(|name| cell[name].as_f64().unwrap());
    assert_eq!(rounds, figures);
}

/// The figures of a row, by column.
fn row(outcome: &Value, table: &str, row: &str) -> Vec<(String, Option<f64>)> {
    let find = |list: &Value, field: &str, name: &str| {
        let found = list.as_array().unwrap().iter().find(|it| it[field] == name).cloned();
        found.unwrap_or_else(|| panic!("{name} is missing in {list}"))
    };
    let table = find(&outcome["tables"], "title", table);
    let row = find(&table["rows"], "name", row);
    let columns = table["columns"].as_array().unwrap().iter().zip(row["cells"].as_array().unwrap());
    let figures =
        columns.map(|(it, cell)| (it["name"].as_str().unwrap().to_owned(), cell["value"].as_f64()));
    figures.collect()
}

fn figure(row: &[(String, Option<f64>)], column: &str) -> f64 {
    let found = row.iter().find(|(name, _)| name == column);
    found.and_then(|(_, value)| *value).unwrap_or_else(|| panic!("{column} in {row:?}"))
}

#[test]
fn responses_have_the_known_calls_of_each_server() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["responses", "-n", "10", "-r", "1", "--json", "r.json"];
    run(bench(dir.path(), COMPILER, &arguments).current_dir(dir.path()));
    let report = json(&dir.path().join("r.json"));
    let outcome = &report["experiments"][0];
    assert_eq!(outcome["failure"], Value::Null, "{outcome}");
    let calls = |scenario| row(outcome, "System calls of a response", scenario);
    let sendfile = calls("sendfile");
    assert_eq!(figure(&sendfile, "nginx"), 4.0, "the default");
    assert_eq!(figure(&sendfile, "nginx, tcp_nopush"), 6.0);
    assert_eq!(figure(&sendfile, "libmicrohttpd"), 4.0);
    for (scenario, count) in
        [("continuous", 3.0), ("tiny", 3.0), ("modest", 3.0), ("sendfile", 4.0)]
    {
        assert_eq!(figure(&calls(scenario), "fulmar"), count, "{scenario}");
    }
    let options = row(outcome, "setsockopt of a connection with one response", "tiny");
    assert_eq!(figure(&options, "libmicrohttpd before, 2019"), 9.0);
    assert_eq!(figure(&options, "fulmar"), 0.0);
}

#[test]
fn libcurl_at_its_best_has_fewer_calls() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["hyper", "-c", "3,3", "-d", "50ms", "-r", "1", "--json", "r.json"];
    run(bench(dir.path(), COMPILER, &arguments).current_dir(dir.path()));
    let report = json(&dir.path().join("r.json"));
    let outcome = &report["experiments"][0];
    assert_eq!(outcome["failure"], Value::Null, "{outcome}");
    assert_eq!(outcome["tables"][0]["rows"].as_array().unwrap().len(), 1, "each number once");
    let calls = row(outcome, "System calls per request", "3");
    let [plain, best] = ["libcurl", "libcurl, at its best"].map(|side| figure(&calls, side));
    assert!(plain > 15.0 && best < plain / 2.0, "{calls:?}");
    let polls = row(outcome, "System calls per request, by name", "poll");
    assert!(figure(&polls, "libcurl, no mask") > figure(&polls, "libcurl"), "{polls:?}");
    assert_eq!(figure(&polls, "fulmar socket_action"), 0.0, "{polls:?}");
    assert!(figure(&polls, "fulmar socket_action, no mask") >= 1.0, "{polls:?}");
    assert!(figure(&calls, "fulmar") >= 2.0, "a send and a receive: {calls:?}");
    let commands = outcome["commands"].as_array().unwrap();
    let ours = "fulmar-bench worker transfers --mode requests --clients 3 --seconds 0.05 --url \
                http://127.0.0.1:PORT/bytes/106496";
    assert!(commands.iter().any(|command| command == ours), "{commands:?}");
}

#[test]
fn forwarded_connections_count_calls_and_ring_operations() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["forward", "-c", "1,32", "-n", "32", "-r", "1", "--json", "r.json"];
    // The environment does not choose the event loop of measured processes.
    let mut command = bench(dir.path(), &[], &arguments);
    run(command.current_dir(dir.path()).env("FULMAR_DRIVER", "nonsense"));
    let report = json(&dir.path().join("r.json"));
    let outcome = &report["experiments"][0];
    assert_eq!(outcome["failure"], Value::Null, "{outcome}");
    for (case, before, after) in
        [("TCP, one client", 300_005.0, 270_036.0), ("HTTP, one client", 250_024.0, 220_023.0)]
    {
        let calls = row(outcome, "All system calls", case);
        assert_eq!(figure(&calls, "HAProxy 2013, before"), before);
        assert_eq!(figure(&calls, "HAProxy 2013, after"), after);
        for proxy in ["HAProxy", "nginx", "fulmar"] {
            let count = figure(&calls, proxy);
            assert!((100_000.0..400_000.0).contains(&count), "{proxy}, {case}: {count}");
        }
    }
    let many = row(outcome, "All system calls", "HTTP, 32 clients");
    assert_eq!(many[0], ("HAProxy 2013, before".to_owned(), None), "the document had one client");
    // Whether the proxy uses its ring depends on how many connections are ready at a time.
    let tables = outcome["tables"].as_array().unwrap();
    let named = |title: &str| tables.iter().find(|it| it["title"] == title);
    let operations = "Operations of io_uring";
    for case in ["TCP, 32 clients", "HTTP, 32 clients"] {
        let by_call = named(&format!("Call by call: {case}")).unwrap()["rows"].as_array().unwrap();
        let enters = by_call.iter().any(|it| it["name"] == "io_uring_enter");
        let done = named(operations).map_or(0.0, |table| {
            let rows = table["rows"].as_array().unwrap().iter();
            let names = rows.map(|it| it["name"].as_str().unwrap());
            let column = format!("fulmar: {case}");
            let cells = names.map(|name| row(outcome, operations, name));
            let of_case = cells.map(|cells| cells.into_iter().find(|(name, _)| *name == column));
            of_case.flatten().filter_map(|(_, count)| count).sum() // none: no column, or no cell
        });
        assert_eq!(enters, done > 0.0, "{case}: {by_call:?}");
        if enters {
            let calls = row(outcome, "All system calls", case);
            let both = figure(&calls, "fulmar, calls and operations");
            assert!(both > figure(&calls, "fulmar"), "{calls:?}");
        }
    }
}

#[test]
fn an_unwritable_report_is_an_error_before_the_run_or_after_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let ended = |arguments: &[&str]| {
        let output = bench(dir.path(), &[], arguments).current_dir(dir.path()).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let small = ["urls", "-c", "9,4", "-r", "1", "--html"];
    let (code, tables, complaint) = ended(&[&small[..], &["missing/r.html"]].concat());
    assert_eq!((code, tables.as_str()), (Some(1), ""), "nothing is measured");
    assert!(complaint.contains("missing/r.html: No such file"), "{complaint}");
    let (code, tables, complaint) = ended(&[&small[..], &["/dev/full"]].concat());
    assert_eq!(code, Some(1));
    assert!(tables.contains("A byte for each active transfer"), "{tables}");
    assert!(complaint.contains("/dev/full: No space left"), "{complaint}");
}

#[test]
fn connections_beyond_the_descriptor_limit_are_left_out_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let limited = "ulimit -n 200; exec \"$@\"";
    let inner = bench(dir.path(), &[], &["urls", "-c", "500,9", "-r", "1"]);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", limited, "sh"]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = text(&run(&mut command).stdout);
    let missing = "not measured: 500 connections: they need 1032 descriptors, the limit is 200";
    assert!(output.contains(missing), "{output}");
    assert!(output.contains("\n| 9 "), "{output}");
}

#[test]
fn the_list_has_every_scenario_and_the_readme_describes_it() {
    let output = |flag| text(&run(Command::new(fulmar()).args(["bench", flag])).stdout);
    let (list, help) = (output("--list"), output("--help"));
    assert!(help.contains("--list") && help.contains("reference"), "{help}");
    let version = concat!("fulmar bench ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!([output("--version"), output("-V")], [version, version]);
    let references = list.lines().filter(|line| line.trim_start().starts_with("after "));
    assert_eq!(references.count(), 5, "{list}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = ["bench/README.md", "docs/bench.md"];
    let pages = pages.map(|page| fs::read_to_string(root.join(page)).unwrap()).concat();
    let rows: Vec<&str> = pages.lines().filter(|line| line.starts_with("| `")).collect();
    let names = list.lines().filter(|line| !line.starts_with(' '));
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() > 60, "{list}");
    for name in names {
        // `load-nginx-64`, `-1000`: the last words alone, after a name with the same first ones.
        let is_named = |row: &&str| {
            let mut words = row.split('`').skip(1).step_by(2);
            let first = words.next().unwrap_or_default();
            let ends = |word: &str| {
                let stem = name.strip_suffix(word);
                word.starts_with('-') && stem.is_some_and(|stem| first.starts_with(stem))
            };
            first == name || words.any(ends)
        };
        assert!(rows.iter().any(is_named), "{name} is in neither page");
    }
}

#[test]
fn figures_in_the_repository_name_their_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results.md");
    let page = fs::read_to_string(path).unwrap();
    let list = text(&run(Command::new(fulmar()).args(["bench", "--list"])).stdout);
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert!(sections.len() > 5);
    for section in sections {
        let command = section.split("$ ").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let words: Vec<&str> = command.split_whitespace().collect();
        let names = words.iter().filter(|word| word.contains('-') && !word.starts_with('-'));
        for name in names {
            assert!(list.contains(&format!("{name} ")), "{name} of {command}");
        }
    }
}

#[test]
fn a_wrong_command_line_is_reported() {
    let status = |arguments: &[&str]| {
        let output = Command::new(fulmar()).arg("bench").args(arguments).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(status(&[]).0, Some(2));
    assert_eq!(status(&["idle", "-c", "0"]).0, Some(2));
    let (code, complaint) = status(&["nonsense"]);
    assert_eq!(code, Some(2));
    assert!(complaint.contains("no scenario 'nonsense'"), "{complaint}");
    let (code, complaint) = status(&["--from", "Cargo.toml"]);
    assert_eq!(code, Some(2));
    assert!(complaint.contains("Cargo.toml: it cannot be read as a report: "), "{complaint}");
    let (code, complaint) = status(&["all", "nonsense"]);
    assert_eq!(code, Some(2));
    assert!(complaint.contains("no scenario 'nonsense'"), "{complaint}");
}

#[test]
fn an_interrupted_scenario_is_not_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bench(dir.path(), &[], &["responses", "-n", "10", "-r", "1000"]);
    let mut process = ChildProcess::start(&mut command);
    process.wait_stderr("responses: sendfile, fulmar");
    process.signal(Signal::INT);
    let ended = process.wait();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    assert!(!ended.stdout.contains("responses:"), "only complete scenarios: {}", ended.stdout);
}

#[test]
fn a_killed_run_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["idle", "-c", "101", "-d", "10m", "-r", "1"];
    let process = ChildProcess::start(&mut bench(dir.path(), &[], &arguments));
    let seen = two_children(&process);
    process.signal(Signal::KILL);
    process.wait();
    eventually("its server and its client end", || seen.iter().copied().all(has_ended));
}

/// The server and the client of a run, once they are there.
fn two_children(process: &ChildProcess) -> Vec<u32> {
    let children = format!("/proc/{0}/task/{0}/children", process.id());
    let mut seen = Vec::new();
    eventually("a server and a client run", || {
        let text = fs::read_to_string(&children).unwrap_or_default();
        seen = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        seen.len() == 2
    });
    seen
}

#[test]
fn an_interrupted_run_leaves_no_process_and_no_file() {
    for signal in [Signal::INT, Signal::TERM] {
        let dir = tempfile::tempdir().unwrap();
        let arguments = ["idle", "-c", "101", "-d", "10m", "-r", "1"];
        let process = ChildProcess::start(&mut bench(dir.path(), &[], &arguments));
        let seen = two_children(&process);
        process.signal(signal);
        let ended = process.wait();
        assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
        for pid in seen {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} is still there");
        }
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().flatten().map(|it| it.file_name()).collect();
        assert_eq!(left, ["installed"], "its directory is gone");
    }
}

/// Lays out a copy of the page in a browser. It ends with [`MEASURE`]; the result is its title.
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

/// Colours, overflow of the page and of tables, and the number of cells with a bar.
const MEASURE: &str = "
    const shade = element => getComputedStyle(element).backgroundColor;
    const scrolled = [...document.querySelectorAll('.scroll')];
    const cut = scrolled.filter(it => it.scrollWidth > it.clientWidth + 1);
    const bars = [...document.querySelectorAll('td[style]')];
    return {
      cut: cut.map(it => it.closest('figure').querySelector('h3').textContent),
      ground: shade(document.body), bars: bars.length,
      drawn: bars.filter(it => getComputedStyle(it).backgroundImage.includes('gradient')).length,
      wide: document.documentElement.scrollWidth > innerWidth,
    };";

#[test]
fn the_page_fits_light_dark_small_screens_and_paper() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["--from", concat!(env!("CARGO_MANIFEST_DIR"), "/data/bench.json"), "--html"];
    let path = dir.path().join("report.html");
    run(Command::new(fulmar()).arg("bench").args(arguments).arg(&path));
    let page = fs::read_to_string(path).unwrap();
    // A window with the width of a sheet (A4), with the rules for print: paper cannot scroll.
    let printed = page.replace("@media print", "@media all");
    assert_ne!(printed, page);
    let sheet = browse(dir.path(), &printed, &["--window-size=690,1000"]);
    let light = "--blink-settings=preferredColorScheme=1";
    let light = browse(dir.path(), &page, &[light, "--window-size=1200,900"]);
    let dark = "--blink-settings=preferredColorScheme=0";
    let dark = browse(dir.path(), &page, &[dark, "--window-size=500,900"]);
    assert_eq!(light["ground"], "rgb(246, 248, 250)");
    assert_eq!(dark["ground"], "rgb(13, 18, 24)");
    let nothing = Value::from([(); 0].to_vec());
    assert_eq!((&light["cut"], &sheet["cut"]), (&nothing, &nothing), "no table has to be scrolled");
    for found in [&light, &dark, &sheet] {
        assert_eq!(found["wide"], false, "the page does not overflow: {found}");
        assert_eq!(found["bars"], found["drawn"]);
        assert!(found["bars"].as_u64().unwrap() > 100, "{found}");
    }
}
