//! State files compared with HAProxy: the state of servers is restored.

use std::fs;

use super::*;

/// Backends with servers, and their state files.
fn text(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "global
  nbthread 1
  stats socket {folder}/admin.sock level admin
  server-state-base {folder}
  server-state-file all
defaults
  mode http
  timeout connect 1s
  timeout client 5s
  timeout server 5s
  load-server-state-from-file global
frontend www
  bind unix@{folder}/www.sock
backend a
  server down 127.0.0.1:1 check inter 100s
  server out 127.0.0.1:1
  server drained 127.0.0.1:1 weight 5
  server reweighted 127.0.0.1:1 weight 5
  server disabled 127.0.0.1:1 disabled
  server newly 127.0.0.1:1 disabled
  server anew 127.0.0.1:1
  server readied 127.0.0.1:1 disabled
  server named localhost:1
  server port 127.0.0.1:1
  server stopping 127.0.0.1:1 check inter 100s
  server zero 127.0.0.1:1 weight 0
  server wasnone 127.0.0.1:1
  server bad 127.0.0.1:1
  server untold 127.0.0.1:1
backend none
  load-server-state-from-file none
  server s 127.0.0.1:1
backend own
  load-server-state-from-file local
  server s 127.0.0.1:1
backend other
  load-server-state-from-file local
  server-state-file-name elsewhere
  server s 127.0.0.1:1
backend missing
  load-server-state-from-file local
  server s 127.0.0.1:1
"
    )
}

const HEAD: &str = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state \
                    srv_uweight srv_iweight srv_time_since_last_change srv_check_status \
                    srv_check_result srv_check_health srv_check_state srv_agent_state \
                    bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl \
                    srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n";

const ALL: &str = "\
3 a 1 down 127.0.0.1 0 0 1 1 1050 8 2 0 2 0 0 0 - 1 - 0 0 - - 0
3 a 2 out 127.0.0.1 2 1 1 1 1051 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
3 a 3 drained 127.0.0.1 2 8 5 5 1052 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
3 a 4 reweighted 127.0.0.1 2 0 3 5 1053 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
3 a 5 disabled 127.0.0.1 0 5 1 1 1054 1 0 0 8 0 0 0 - 1 - 0 0 - - 0
3 a 6 newly 127.0.0.1 2 0 1 1 1055 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
3 a 7 anew 127.0.0.1 0 5 1 1 1056 1 0 0 8 0 0 0 - 1 - 0 0 - - 0
3 a 8 readied 127.0.0.1 2 4 1 1 1057 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
3 a 9 named 127.0.0.7 2 0 1 1 1058 1 0 4 0 0 0 0 localhost 7 - 0 0 - - 0
3 a 10 port 127.0.0.7 2 0 1 1 1059 1 0 4 0 0 0 0 - 7 - 0 0 - - 0
3 a 11 stopping 127.0.0.1 3 0 1 1 1060 16 4 4 2 0 0 0 - 1 - 0 0 - - 0
3 a 12 zero 127.0.0.1 2 8 3 3 1061 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
3 a 13 wasnone 127.0.0.1 2 8 0 0 1062 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
3 a 14 bad 127.0.0.1 2 1 300 1 1063 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
4 none 1 s 127.0.0.1 2 1 1 1 1064 1 0 4 0 0 0 0 - 1 - 0 0 - - 0
";
const OWN: &str = "5 own 1 s 127.0.0.1 2 8 1 1 1065 1 0 4 0 0 0 0 - 1 - 0 0 - - 0\n";
const OTHER: &str = "6 other 1 s 127.0.0.1 2 1 1 1 1066 1 0 4 0 0 0 0 - 1 - 0 0 - - 0\n";

fn write(folder: &Path, all: &str) -> String {
    for (name, lines) in [("all", all), ("own", OWN), ("elsewhere", OTHER)] {
        fs::write(folder.join(name), format!("{HEAD}{lines}")).unwrap();
    }
    text(folder)
}

/// Names, address, states, weights, port. Times in hundreds of seconds, since HAProxy's may be a
/// second off. For checked servers, the check results.
fn common(shown: &str) -> Vec<String> {
    let rows =
        shown.lines().filter(|line| line.starts_with(|letter: char| letter.is_ascii_digit()));
    // In HAProxy, a server that was disabled in the earlier configuration and is not now stays
    // down.
    let rows = rows.skip(1).filter(|row| !row.contains(" anew ")).map(|row| {
        let fields: Vec<&str> = row.split(' ').collect();
        let since = fields[9].parse::<i32>().unwrap() / 100;
        let checks = if fields[13] == "2" { &fields[10..12] } else { &[] };
        let (common, port) = (&fields[1..9], fields[18]);
        format!("{} {port} {since} {}", common.join(" "), checks.join(" "))
    });
    rows.collect()
}

#[test]
fn states_are_restored_as_in_haproxy() {
    let (ours, theirs) = (
        FulmarRuntime::with(|folder| write(folder, ALL)),
        HaProxyRuntime::with(|folder| write(folder, ALL)),
    );
    let command = "show servers state\n";
    let expected = common(&talk(theirs.folder.path(), "admin", &[command]));
    assert_eq!(common(&talk(ours.folder.path(), "admin", &[command])), expected);
    assert_eq!(expected.len(), 14 + 4);
}

/// State files of both programs are interchangeable.
#[test]
fn states_go_from_one_process_to_the_next() {
    let mut before = FulmarRuntime::with(|folder| write(folder, ""));
    let folder = before.folder.path();
    for command in [
        "set server a/out state maint\n",
        "set server a/drained state drain\n",
        "set server a/reweighted weight 2\n",
        "set server a/newly state ready\n",
        "set server a/untold health down\n",
    ] {
        assert_eq!(talk(folder, "admin", &[command]), "\n", "{command}");
    }
    let shown = talk(folder, "admin", &["show servers state\n"]);
    let lines = shown.split_once("agent_port\n").unwrap().1.to_owned();
    before.stop();
    drop(before);
    let (ours, theirs) = (
        FulmarRuntime::with(|folder| write(folder, &lines)),
        HaProxyRuntime::with(|folder| write(folder, &lines)),
    );
    let command = "show servers state a\n";
    let expected = common(&talk(theirs.folder.path(), "admin", &[command]));
    assert_eq!(common(&talk(ours.folder.path(), "admin", &[command])), expected);
    let decided = ["out 127.0.0.1 0 1", "drained 127.0.0.1 2 8", "reweighted 127.0.0.1 2 0 2"];
    for begin in decided {
        assert!(expected.iter().any(|row| row.contains(begin)), "{begin} in {expected:?}");
    }
}

#[test]
fn invalid_state_files_are_reported_and_skipped() {
    let bad = ["", "2\n", "1\n3 a 1 down\n", "1\n# nothing\nx\n"];
    for bad in bad {
        let ours = FulmarRuntime::with(|folder| {
            let text = write(folder, "");
            fs::write(folder.join("all"), bad).unwrap();
            text
        });
        assert_eq!(ours.warnings.len(), 2, "{bad:?}: {:?}", ours.warnings);
        assert!(ours.warnings[0].starts_with("server state file: "), "{:?}", ours.warnings);
        let missing = "server state file of backend 'missing': ";
        assert!(ours.warnings[1].starts_with(missing), "{:?}", ours.warnings);
    }
}
