//! `fulmar proxy`: flags, messages, statuses, signals, the background, privileges.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use fulmar_tests::gateway::{ProxyFolder, command, end, origin, pid_in, run};
use fulmar_tests::http::HttpClient;
use fulmar_tests::origins::free_address;
use fulmar_tests::process::{ChildProcess, eventually, fulmar, has_ended, peer};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_configuration_is_checked_as_haproxy_checks_it() {
    let place = ProxyFolder::new();
    let good = place.configure("", "");
    let good = good.to_str().unwrap();
    for (arguments, out) in [
        (vec!["-c", "-f", good], "Configuration file is valid\n"),
        (vec!["-c", "-V", "-f", good], "Configuration file is valid\n"),
        (vec!["-c", "-q", "-f", good], ""),
        (vec!["-c", "-q", "-V", "-f", good], "Configuration file is valid\n"),
        (vec!["-c", "--", good], "Configuration file is valid\n"),
    ] {
        let ours = run(&arguments);
        assert_eq!((ours.status.code(), &ours.stdout[..]), (Some(0), out), "{arguments:?}");
        let theirs = ChildProcess::start(peer("haproxy").args(&arguments)).wait();
        assert_eq!((theirs.status.code(), theirs.stdout), (Some(0), ours.stdout), "{arguments:?}");
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let place = ProxyFolder::new();
    let bad = place.write(
        "bad.cfg",
        "global\n nonsense\ndefaults\n mode htpp\n timeout client 5x\nfrontend fe\n \
         default_backend nobody\n",
    );
    let ended = run(["-c", "-f", bad.to_str().unwrap()]);
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(1), ""));
    for part in [
        "[ALERT] ",
        "bad.cfg:2:",
        "'nonsense'",
        "bad.cfg:4:",
        "'htpp'",
        "bad.cfg:5:",
        "bad.cfg:7:",
        "'nobody'",
        "Fatal errors found in configuration.",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    let quiet = run(["-c", "-q", "-f", bad.to_str().unwrap()]);
    assert_eq!((quiet.status.code(), &quiet.stderr[..]), (Some(1), ""));
    let lenient = run(["-c", "--lenient", "keywords", "-f", bad.to_str().unwrap()]);
    assert!(lenient.stderr.contains("[WARNING]"), "{}", lenient.stderr);
}

#[test]
fn unusable_configurations_exit_with_1() {
    let place = ProxyFolder::new();
    let missing = place.path("missing.cfg");
    for (arguments, why) in [
        (vec!["-f", missing.to_str().unwrap()], "missing.cfg"),
        (vec!["-C", "/nowhere/at/all", "-f", "x"], "/nowhere/at/all"),
    ] {
        let ended = run(&arguments);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}");
        assert!(ended.stderr.contains(why), "{arguments:?}: {}", ended.stderr);
    }
    let mut busy = ProxyFolder::new();
    busy.address = busy.origin; // another process listens there
    let path = busy.configure("", "");
    let ended = run(["-db", "-f", path.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(1));
    let text = fs::read_to_string(&path).unwrap();
    let at = text.lines().position(|line| line.starts_with(" bind ")).unwrap() + 1;
    let line = format!(
        "Binding [{}:{at}] for frontend fe: cannot bind socket (Address already in use) for [{}]",
        path.display(),
        busy.address
    );
    assert!(ended.stderr.contains(&line), "{}", ended.stderr);
}

#[test]
fn several_files_and_folders_are_one_configuration() {
    let place = ProxyFolder::new();
    let (address, origin) = (place.address, place.origin);
    fs::create_dir(place.path("parts")).unwrap();
    let defaults = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n \
                    timeout connect 1s\n";
    place.write("a.cfg", defaults);
    let front = format!("frontend fe\n bind {address}\n default_backend be\n");
    place.write("parts/1.cfg", &front);
    place.write("parts/2.cfg", &format!("backend be\n server s1 {origin}\n"));
    place.write("parts/3.txt", "nonsense\n");
    let dir = place.path("");
    let dir = dir.to_str().unwrap();
    let process = place.start(["-db", "-C", dir, "-f", "a.cfg", "-f", "parts"]);
    assert_eq!(end(process, Signal::USR1).status.code(), Some(0));
    let process = place.start(["-db", "-C", dir, "--", "a.cfg", "parts/1.cfg", "parts/2.cfg"]);
    assert_eq!(end(process, Signal::USR1).status.code(), Some(0));
}

#[test]
fn versions_and_help_are_printed() {
    for flag in ["-v", "-vv"] {
        let ended = run([flag]);
        assert_eq!(ended.status.code(), Some(0));
        assert!(ended.stdout.starts_with("fulmar proxy version "), "{}", ended.stdout);
    }
    let help = run(["-h"]);
    assert_eq!((help.status.code(), help.stderr), (Some(0), String::new()));
    assert!(help.stdout.contains("-sf PID..."), "{}", help.stdout);
    let asked = ChildProcess::start(Command::new(fulmar()).args(["help", "proxy"])).wait();
    assert_eq!((asked.status.code(), asked.stdout), (Some(0), help.stdout));
}

#[test]
fn a_soft_stop_lets_clients_finish() {
    let place = ProxyFolder::new();
    let path = place.configure(" nbthread 1", "");
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    let mut half = TcpStream::connect(place.address).unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n").unwrap();
    let mut kept = HttpClient::connect(place.address);
    assert_eq!(kept.get("/").status, 200);
    // After this later response, the first half of the request has been read.
    place.send_request().unwrap();
    process.signal(Signal::USR1);
    eventually("the listener is closed", || TcpStream::connect(place.address).is_err());
    half.write_all(b"\r\n").unwrap();
    let mut text = String::new();
    half.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("origin"), "{text}");
    assert!(text.to_ascii_lowercase().contains("connection: close"), "{text}");
    let ended = process.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("Proxy fe stopped"), "{}", ended.stderr);
}

#[test]
fn a_hard_stop_does_not_wait() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = ProxyFolder::new();
        let path = place.configure("", "");
        let process = place.start(["-db", "-f", path.to_str().unwrap()]);
        let _half = TcpStream::connect(place.address).unwrap();
        let ended = end(process, signal);
        assert_eq!(ended.status.signal(), Some(signal.as_raw()), "{}", ended.stderr);
    }
}

#[test]
fn sighup_reports_the_state_of_servers() {
    let place = ProxyFolder::new();
    let path = place.configure("", "");
    let mut process = place.start(["-db", "-f", path.to_str().unwrap()]);
    process.signal(Signal::HUP);
    process.wait_stderr("SIGHUP received, dumping servers states.");
    process.wait_stderr("SIGHUP: Server be/s1 is UP. Conn: 0 act, 0 pend,");
    place.send_request().unwrap();
    end(process, Signal::TERM);
}

/// No client sends requests: checks start by themselves.
#[test]
fn servers_are_checked_from_the_beginning() {
    let place = ProxyFolder::new();
    let nobody = free_address();
    let more = format!(
        " default-server check inter 50 fall 2\nbackend other\n server gone {nobody}\n log stdout \
         format raw local0"
    );
    let path = place.configure("", &more);
    let mut process = place.start(["-db", "-f", path.to_str().unwrap()]);
    let line = process.wait_stdout("Server other/gone is DOWN");
    assert!(line.contains("Layer4 connection problem"), "{line}");
    process.wait_stdout("backend other has no server available!");
    end(process, Signal::TERM);
}

#[test]
fn invalid_command_lines_exit_with_2_and_one_line() {
    for (arguments, why) in [
        (vec![], "missing configuration"),
        (vec!["-f"], "-f needs"),
        (vec!["-z"], "unknown option -z"),
    ] {
        let ended = run(&arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        let line = ended.stderr.strip_suffix(" (try 'fulmar proxy --help')\n");
        let is_line = line.is_some_and(|line| line.contains(why) && !line.contains('\n'));
        assert!(is_line, "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn the_background_is_entered_when_it_serves() {
    let mut place = ProxyFolder::new();
    let path = place.configure("", "");
    let pidfile = place.path("pid");
    let arguments = ["-D", "-p", pidfile.to_str().unwrap(), "-f", path.to_str().unwrap()];
    let started = run(arguments);
    assert_eq!(started.status.code(), Some(0), "{}", started.stderr);
    place.send_request().expect("it serves already");
    let number = pid_in(&pidfile);
    let session = fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    let fields: Vec<&str> = session.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!(fields[3], number.to_string(), "a session of its own");
    let pid = Pid::from_raw(i32::try_from(number).unwrap()).unwrap();
    kill_process(pid, Signal::USR1).unwrap();
    eventually("it ends", || has_ended(number));
    // A failed start is reported in the foreground.
    place.address = place.origin;
    let path = place.configure("", "");
    let ended = run(["-D", "-f", path.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("cannot bind socket"), "{}", ended.stderr);
}

#[test]
fn privileges_are_dropped_after_listening() {
    let place = ProxyFolder::new();
    let root = place.path("root");
    fs::create_dir(&root).unwrap();
    let global = format!(" chroot {}\n uid 65534\n gid 65534", root.display());
    let path = place.configure(&global, "");
    if !rustix::process::geteuid().is_root() {
        let ended = run(["-db", "-f", path.to_str().unwrap()]);
        assert_eq!(ended.status.code(), Some(1));
        assert!(
            ended.stderr.contains("cannot change the root directory ('chroot')"),
            "{}",
            ended.stderr
        );
        return;
    }
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    let proc = format!("/proc/{}", process.id());
    let status = fs::read_to_string(format!("{proc}/status")).unwrap();
    assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
    assert!(status.contains("Gid:\t65534\t65534\t65534\t65534"), "{status}");
    assert!(status.contains("Groups:\t\n") || status.contains("Groups:\t \n"), "{status}");
    assert_eq!(fs::read_link(format!("{proc}/root")).unwrap(), root);
    end(process, Signal::TERM);
}

#[test]
fn a_hard_stop_ends_by_its_signal_and_removes_unix_sockets() {
    let place = ProxyFolder::new();
    let origin = origin("origin");
    let socket = place.path("front.sock");
    let text = format!(
        "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
         frontend fe\n bind {} mode 600\n bind abns@fulmar-test-{}\n default_backend be\n\
         backend be\n server s1 {origin}\n",
        socket.display(),
        std::process::id()
    );
    let path = place.write("unix.cfg", &text);
    let process = ChildProcess::start(command().args(["-db", "-f"]).arg(&path));
    let send_request = || -> std::io::Result<String> {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket)?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    eventually("it serves on a Unix socket", || {
        send_request().is_ok_and(|text| text.ends_with("origin"))
    });
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&socket).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let ended = end(process, Signal::TERM);
    assert_eq!(ended.status.signal(), Some(15));
    assert!(!socket.exists(), "its file is removed");
}
