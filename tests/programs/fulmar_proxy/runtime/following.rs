//! Tracked servers, and addresses of checks, compared with HAProxy.

use super::*;

/// Port 1 has no listener: servers checked there are down.
fn text(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "global
  nbthread 1
  stats socket {folder}/admin.sock level admin
defaults
  mode http
  timeout connect 1s
  timeout client 5s
  timeout server 5s
frontend www
  bind unix@{folder}/www.sock
backend a
  server s1 127.0.0.1:1 check inter 200s port 2 addr 127.0.0.5
  server s2 127.0.0.1:1 track s1
  server s3 127.0.0.1:1 track b/s1
  server s4 127.0.0.1:1 track s2
  server s5 127.0.0.1:1
  server s6 127.0.0.1:1 check inter 200s
backend b
  server s1 unix@{folder}/www.sock check inter 200s disabled
  server s2 127.0.0.1:1 track s1
"
    )
}

/// Name, state, and tracked server.
fn states(folder: &Path) -> Vec<String> {
    let shown = talk(folder, "admin", &["show stat -1 4 -1\n"]);
    let mut lines = shown.lines().filter(|line| !line.is_empty());
    let names: Vec<&str> = lines.next().unwrap()[2..].split(',').collect();
    let of = |name: &str| names.iter().position(|it| *it == name).unwrap();
    let [backend, server, status, tracked] = ["pxname", "svname", "status", "tracked"].map(of);
    let state = |line: &str| {
        let row: Vec<&str> = line.split(',').collect();
        let status = match row[status] {
            through if through.contains("(via") => through,
            counted => counted.split(' ').next().unwrap(),
        };
        format!("{}/{} {status} {}", row[backend], row[server], row[tracked])
    };
    lines.map(state).collect()
}

#[test]
fn a_tracking_server_has_the_state_of_the_tracked_one() {
    let (ours, theirs) = (FulmarRuntime::with(text), HaProxyRuntime::with(text));
    let both = [ours.folder.path(), theirs.folder.path()];
    for folder in both {
        eventually("the check has failed", || states(folder)[1] == "a/s2 DOWN a/s1");
    }
    let mut seen = Vec::new();
    for command in [
        "",
        "set server a/s1 health up",
        "set server a/s2 state maint",
        "set server a/s2 state ready",
        "set server b/s1 state ready",
        "set server a/s1 state drain",
        "set server a/s2 state maint",
        "set server a/s2 state drain",
        "set server a/s1 state ready",
        "set server a/s2 state ready",
        "set server a/s1 state maint",
        "set server a/s1 health down",
        "set server a/s2 health up",
        "enable health a/s2",
    ] {
        let [our, their] = both.map(|folder| {
            let common_part = talk(folder, "admin", &[&format!("{command}\n")]);
            let admins = talk(folder, "admin", &["show servers state\n"]);
            let admins =
                admins.lines().filter_map(|line| line.split(' ').nth(6)).map(str::to_owned);
            let admins: Vec<String> = admins.collect();
            (if command.is_empty() { String::new() } else { common_part }, states(folder), admins)
        });
        assert_eq!(our, their, "{command}");
        seen.extend(our.1);
    }
    for state in [
        "a/s4 DOWN a/s2",
        "a/s4 UP a/s2",
        "a/s4 DRAIN a/s2",
        "a/s4 MAINT (via a/s2) a/s2",
        "b/s2 MAINT (via b/s1) b/s1",
        "b/s2 UP b/s1",
    ] {
        assert!(seen.iter().any(|it| it == state), "{state} in {seen:?}");
    }
}

#[test]
fn where_a_server_is_checked_is_changed_as_with_haproxy() {
    let (ours, theirs) = (FulmarRuntime::with(text), HaProxyRuntime::with(text));
    for command in "\
set server a/s1 check-port 88
set server a/s1 check-port
set server a/s1 check-port 99999
set server a/s1 check-port abc
set server a/s1 check-addr 127.0.0.6
set server a/s1 check-addr 127.0.0.6 port 77
set server a/s1 check-addr nope
set server a/s1 check-addr
set server a/s1 check-addr 127.0.0.7 port 99999
set server a/s1 check-addr 127.0.0.8 port
set server a/s5 check-addr 127.0.0.6
set server a/s5 check-port 7
set server a/s6 check-port 7
set server a/s2 check-addr 127.0.0.6"
        .lines()
    {
        let line = format!("{command}\n");
        let [our, their] = [ours.folder.path(), theirs.folder.path()].map(|folder| {
            let common_part = talk(folder, "admin", &[&line]);
            let shown = talk(folder, "admin", &["show servers state a\n"]);
            let places = shown.lines().skip(2).filter(|line| !line.is_empty()).map(|line| {
                let fields: Vec<&str> = line.split(' ').collect();
                format!("{} {} {}", fields[3], fields[21], fields[22])
            });
            (common_part, places.collect::<Vec<_>>())
        });
        assert_eq!(our, their, "{command}");
    }
}

/// The next check uses the new address.
#[test]
fn a_check_goes_to_its_new_place() {
    let ours = FulmarRuntime::with(|folder| {
        text(folder).replace("inter 200s port 2 addr 127.0.0.5", "inter 50ms")
    });
    let folder = ours.folder.path();
    eventually("the check has failed", || states(folder)[0] == "a/s1 DOWN ");
    let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = open.local_addr().unwrap().port();
    let command = format!("set server a/s1 check-port {port}\n");
    assert_eq!(talk(folder, "admin", &[&command]), "\n");
    eventually("checks pass there", || states(folder)[0].starts_with("a/s1 UP"));
    eventually("and the tracking server is up", || states(folder)[3] == "a/s4 UP a/s2");
}
