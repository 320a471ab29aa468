//! ACL lists and maps shown and changed at run time, compared with HAProxy.

use std::fs;

use super::*;

fn write(folder: &Path) -> String {
    let file = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    file("hosts", "a.com one\nb.com  two words\n# c\n\nA.com x\na.com second\n/p net\n");
    file("nets", "10.0.0.0/8 net\n192.168.0.0/16 other\n");
    file("numbers", "x 1\ny 2\n");
    file("paths", "/api\n/img\n");
    let folder = folder.display();
    format!(
        "global
  nbthread 1
  stats socket {folder}/admin.sock level admin
  stats socket {folder}/operator.sock level operator
  stats socket {folder}/user.sock level user
defaults
  mode http
  timeout connect 1s
  timeout client 5s
  timeout server 5s
frontend www
  bind unix@{folder}/www.sock
  acl api path_beg -f {folder}/paths /extra
  acl inline path_beg /foo /bar
  acl number req.hdr_val(x) gt 5
  acl folded path -i /Low
  http-request return status 201 if api
  http-request return status 202 if inline or number folded
  http-request return status 200 content-type text/plain lf-string \
  %[req.hdr(host),map({folder}/hosts,none)],\
  %[path,map_beg({folder}/hosts,none)],\
  %[req.hdr(ip),map_ip({folder}/nets,none)],\
  %[req.hdr(key),map_str_int({folder}/numbers,7)]
"
    )
}

/// HAProxy's entry references are addresses, and it has additional lists of its own.
fn common(folder: &Path, shown: &str) -> String {
    let lines = shown.lines().filter(|line| !line.contains("httpclient"));
    let lines = lines.map(|line| match line.split_once(' ') {
        Some((number, rest)) if number.starts_with("0x") => rest.to_owned(),
        _ => line.replace("/folder/haproxy.cfg", "test.cfg"),
    });
    let all: Vec<String> = lines.collect();
    // HAProxy counts an entry once for each map that has it.
    let all = all.join("\n").replace("entry_cnt=10", "entry_cnt=5");
    all.replace(&folder.display().to_string(), "/folder")
}

const COMMANDS: &str = "\
show map
show acl
show map FOLDER/hosts
show map #0
show map nope
show acl #3
show acl FOLDER/paths
show acl FOLDER/hosts
show map FOLDER/paths
add map FOLDER/hosts new.com value
add map FOLDER/hosts a.com again
add map FOLDER/hosts k
add map FOLDER/hosts
add map
add map nope a b
add map FOLDER/hosts k two words
show map FOLDER/hosts
set map FOLDER/hosts a.com changed
set map FOLDER/hosts zzz changed
set map FOLDER/hosts
set map FOLDER/hosts a.com
show map FOLDER/hosts
del map FOLDER/hosts a.com
del map FOLDER/hosts a.com
del map FOLDER/hosts
del map FOLDER/hosts #0x1234
show map FOLDER/hosts
get map FOLDER/hosts b.com
get map FOLDER/hosts nothere
get map FOLDER/hosts
get map FOLDER/nets 10.1.2.3
get map FOLDER/nets abc
get acl FOLDER/paths /api/x
get acl #4 /low
get acl FOLDER/nope zzz
add acl #2 /new
add acl FOLDER/paths /new more
add acl FOLDER/paths
del acl FOLDER/paths /api
del acl FOLDER/paths /zzz
show acl #2
show acl FOLDER/paths
prepare map FOLDER/hosts
add map @1 FOLDER/hosts k1 v1
show map @1 FOLDER/hosts
show map FOLDER/hosts
commit map @1 FOLDER/hosts
show map FOLDER/hosts
commit map @1 FOLDER/hosts
commit map @7 FOLDER/hosts
commit map FOLDER/hosts
add map @9 FOLDER/hosts k1 v1
prepare acl #2
add acl @1 #2 /p1
clear acl @1 #2
commit acl @1 #2
show acl #2
prepare map nope
clear map FOLDER/numbers
show map FOLDER/numbers
clear map nope
clear map
clear acl FOLDER/paths
show acl FOLDER/paths";

#[test]
fn lists_are_seen_and_changed_as_with_haproxy() {
    let (ours, theirs) = (FulmarRuntime::with(write), HaProxyRuntime::with(write));
    let send_request = |folder: &Path, command: &str| {
        let line = command.replace("FOLDER", &folder.display().to_string()) + "\n";
        common(folder, &talk(folder, "admin", &[&line]))
    };
    let mut wrong = String::new();
    for command in COMMANDS.lines() {
        let expected = send_request(theirs.folder.path(), command);
        let answer = send_request(ours.folder.path(), command);
        if answer != expected {
            wrong += &format!("{command}\n  {expected:?}\n  {answer:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The response to a request: status and body.
fn asked(folder: &Path, path: &str, fields: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
    let answer = talk(folder, "www", &[&request]);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    format!("{} {body}", &answer[9..12])
}

#[test]
fn changes_apply_to_the_next_request() {
    let ours = FulmarRuntime::with(write);
    let folder = ours.folder.path();
    let all = |at: &str| {
        let fields = "Host: a.com\r\nIP: 10.1.2.3\r\nKey: x\r\n";
        assert_eq!(asked(folder, "/p/q", fields), at);
    };
    let tell = |command: &str| {
        let line = command.replace("FOLDER", &folder.display().to_string()) + "\n";
        assert_eq!(talk(folder, "operator", &[&line]), "\n", "{command}");
    };
    all("200 one,net,net,1");
    tell("set map FOLDER/hosts a.com three");
    tell("add map FOLDER/hosts /p/q deep");
    tell("add map FOLDER/nets 10.1.0.0/16 near");
    tell("set map FOLDER/numbers x 5");
    all("200 three,deep,near,5");
    tell("del map FOLDER/hosts a.com");
    tell("clear map FOLDER/numbers");
    all("200 none,deep,near,7");
    tell("add map FOLDER/hosts <<\na.com in many words\nb.com x\n");
    all("200 in many words,deep,near,7");
    for (path, status) in [("/api/x", "201"), ("/extra", "201"), ("/foo", "202"), ("/new", "200")] {
        assert!(asked(folder, path, "Host: a\r\n").starts_with(status), "{path}");
    }
    tell("add acl FOLDER/paths /new");
    tell("del acl FOLDER/paths /api");
    tell("add acl #2 /api");
    for (path, status) in [("/api/x", "202"), ("/extra", "201"), ("/new", "201")] {
        assert!(asked(folder, path, "Host: a\r\n").starts_with(status), "{path}");
    }
    // Comparisons are patterns like others.
    let (low, field) = ("/low", |x: u32| format!("Host: a\r\nX: {x}\r\n"));
    assert!(asked(folder, low, &field(6)).starts_with("202"));
    assert!(asked(folder, low, &field(5)).starts_with("200"));
    tell("add acl #3 5");
    assert!(asked(folder, low, &field(5)).starts_with("202"));
}

#[test]
fn invalid_entries_change_nothing() {
    let ours = FulmarRuntime::with(write);
    let folder = ours.folder.path();
    let common_part = |socket: &str, command: &str| {
        let line = command.replace("FOLDER", &folder.display().to_string()) + "\n";
        talk(folder, socket, &[&line])
    };
    let before = common_part("admin", "show map");
    for command in [
        "add map FOLDER/nets notanetwork x",
        "add map FOLDER/numbers k notanumber",
        "set map FOLDER/numbers x notanumber",
        "add map FOLDER/numbers <<\nz 3\nzz notanumber\n",
        "add map FOLDER/numbers <<\nz\n",
        "add map @x FOLDER/numbers z 3",
    ] {
        assert!(common_part("admin", command).trim().ends_with('.'), "{command}");
    }
    assert_eq!(common_part("admin", "show map"), before);
    assert_eq!(common_part("user", "add map FOLDER/numbers z 3"), "Permission denied\n\n");
    assert!(common_part("user", "get map FOLDER/numbers x").contains("value=\"1\", type=\"sint\""));
}
