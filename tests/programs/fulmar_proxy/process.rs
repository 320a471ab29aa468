//! `fulmar proxy` as a process: signals, stops, limits, privileges, lost log lines.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fulmar_tests::gateway::{ProxyFolder, command, end};
use fulmar_tests::process::{ChildProcess, PATIENCE, eventually, fulmar, peer};
use rustix::process::Signal;

/// The reply of a runtime socket.
fn runtime_command(socket: &Path, command: &str) -> String {
    let mut to = UnixStream::connect(socket).unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    to.write_all(command.as_bytes()).unwrap();
    let mut answer = String::new();
    to.read_to_string(&mut answer).unwrap();
    answer
}

/// A client with an incomplete request.
fn half_a_request(place: &ProxyFolder) -> TcpStream {
    let mut stream = TcpStream::connect(place.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n").unwrap();
    stream
}

/// A request that stays in the kernel's queue; it may take a while until all threads have paused.
fn send_unaccepted(place: &ProxyFolder) -> TcpStream {
    let mut waiting = None;
    eventually("accepting is paused", || {
        let mut stream = TcpStream::connect(place.address).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let silent = stream.read(&mut [0]).is_err();
        waiting = Some(stream).filter(|_| silent);
        silent
    });
    waiting.unwrap()
}

#[test]
fn listeners_are_paused_and_resumed_by_signals() {
    let place = ProxyFolder::new();
    let path = place.configure("", "");
    for arguments in [vec!["-db"], vec!["-W", "-db"]] {
        let mut all = arguments.clone();
        all.extend(["-f", path.to_str().unwrap()]);
        let mut process = place.start(&all);
        process.signal(Signal::TTOU);
        process.wait_stderr("Paused frontend fe.");
        let mut waiting = send_unaccepted(&place);
        process.signal(Signal::TTIN);
        process.wait_stderr("Resumed frontend fe.");
        waiting.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut text = String::new();
        waiting.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("origin"), "{text}");
        end(process, Signal::TERM);
    }
}

#[test]
fn a_soft_stop_can_be_watched_until_it_is_over() {
    let place = ProxyFolder::new();
    let socket = place.path("s.sock");
    let global = format!(" nbthread 1\n stats socket {} level admin", socket.display());
    let path = place.configure(&global, "");
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    assert!(runtime_command(&socket, "show info\n").contains("\nStopping: 0\n"));
    let mut client = half_a_request(&place);
    let watcher = UnixStream::connect(&socket).unwrap();
    watcher.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut lines = BufReader::new(watcher.try_clone().unwrap()).lines().map(Result::unwrap);
    let mut send_request = |command: &str, part: &str| {
        (&watcher).write_all(command.as_bytes()).unwrap();
        lines.find(|line| line.contains(part)).unwrap()
    };
    send_request("prompt\nshow info\n", "Stopping: 0");
    process.signal(Signal::USR1);
    eventually("the listener is closed", || TcpStream::connect(place.address).is_err());
    eventually("the socket is the next one's", || UnixStream::connect(&socket).is_err());
    eventually("it is reported", || send_request("show info\n", "Stopping: ").ends_with('1'));
    client.write_all(b"Connection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("origin"), "{text}");
    watcher.shutdown(Shutdown::Write).unwrap();
    let ended = process.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn a_soft_stop_that_takes_too_long_becomes_a_hard_one() {
    let place = ProxyFolder::new();
    let socket = place.path("s.sock");
    let global = format!(" hard-stop-after 300ms\n stats socket {}", socket.display());
    let path = place.configure(&global, " timeout client 1m\n timeout http-request 1m");
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    let mut client = half_a_request(&place);
    let mut watcher = UnixStream::connect(&socket).unwrap();
    watcher.write_all(b"prompt\n").unwrap();
    watcher.read_exact(&mut [0; 2]).unwrap();
    process.signal(Signal::USR1);
    let ended = process.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let _ = client.read_to_end(&mut Vec::new()); // it is closed, or reset
}

#[test]
fn lines_that_are_lost_are_counted() {
    let place = ProxyFolder::new();
    let (socket, nowhere) = (place.path("s.sock"), place.path("nowhere"));
    let global = format!(" stats socket {}\n log {} local0", socket.display(), nowhere.display());
    let path = place.configure(&global, " log global\n option httplog");
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    for _ in 0..5 {
        place.send_request().unwrap();
    }
    eventually("they are counted", || {
        let info = runtime_command(&socket, "show info\n");
        let lost = info.lines().find_map(|line| line.strip_prefix("DroppedLogs: "));
        lost.unwrap().parse::<u64>().unwrap() >= 5
    });
    end(process, Signal::TERM);
}

#[test]
fn all_lines_reach_standard_output_at_exit() {
    let place = ProxyFolder::new();
    let path = place.configure(
        " log stdout format raw local0",
        " log global\n option httplog\n option dontlognull",
    );
    let process = place.start(["-db", "-f", path.to_str().unwrap()]);
    let mut stream = TcpStream::connect(place.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = "GET /counted HTTP/1.1\r\nHost: h\r\n\r\n";
    stream.write_all(request.repeat(200).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200").count(), 200);
    let ended = end(process, Signal::TERM);
    let lines = ended.stdout.lines().filter(|line| line.contains("\"GET /counted HTTP/1.1\""));
    assert_eq!(lines.count(), 200, "{}", ended.stdout);
}

/// With a hard limit on descriptors, which also binds privileged processes.
fn limited(program: &Path, arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 2000 && exec \"$0\" \"$@\""]).arg(program).args(arguments);
    shell
}

#[test]
fn more_descriptors_than_there_can_be_are_an_error_as_with_haproxy() {
    let place = ProxyFolder::new();
    let haproxy = peer("haproxy");
    let haproxy = Path::new(haproxy.get_program());
    let path = place.configure(" ulimit-n 99999999", "");
    let path = path.to_str().unwrap();
    let why = "Cannot raise FD limit to 99999999, limit is 2000.";
    let ours = ChildProcess::start(&mut limited(fulmar(), &["proxy", "-db", "-f", path])).wait();
    let theirs = ChildProcess::start(&mut limited(haproxy, &["-db", "-f", path])).wait();
    assert_eq!((ours.status.code(), theirs.status.code()), (Some(1), Some(1)));
    assert!(ours.stderr.contains(why) && theirs.stderr.contains(why), "{}", ours.stderr);
    for (global, why) in [
        (" ulimit-n 99999999\n no strict-limits", why),
        (" maxconn 5000", "'maxconn 5000' needs 10128 file descriptors, but the limit is 2000"),
    ] {
        place.configure(global, "");
        let mut process =
            ChildProcess::start(&mut limited(fulmar(), &["proxy", "-db", "-f", path]));
        let line = process.wait_stderr(why);
        assert!(line.starts_with("[WARNING]"), "{line}");
        place.wait();
        end(process, Signal::TERM);
    }
}

/// `fulmar proxy` as root of a user namespace; `None` if that is not possible.
fn alone(path: &Path) -> Option<Command> {
    let probe = Command::new("unshare").args(["-r", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let mut command = Command::new("unshare");
    command.arg("-r").arg(fulmar()).args(["proxy", "-db", "-f"]).arg(path);
    command.env_remove("NOTIFY_SOCKET");
    Some(command)
}

#[test]
fn privileges_are_dropped_and_logs_still_arrive() {
    let place = ProxyFolder::new();
    let log = place.path("log");
    let reader = UnixDatagram::bind(&log).unwrap();
    reader.set_read_timeout(Some(PATIENCE)).unwrap();
    fs::create_dir(place.path("jail")).unwrap();
    let jail = place.path("jail").display().to_string();
    let global = format!(" log {} local0\n chroot {jail}\n uid 0\n gid 0", log.display());
    let path = place.configure(&global, " log global\n option httplog\n option dontlognull");
    let Some(mut command) = alone(&path) else { return };
    let process = ChildProcess::start(&mut command);
    place.wait();
    assert_eq!(fs::read_link(format!("/proc/{}/root", process.id())).unwrap(), Path::new(&jail));
    let mut buffer = [0; 1024];
    let n = reader.recv(&mut buffer).unwrap();
    assert!(String::from_utf8_lossy(&buffer[..n]).contains("\"GET / HTTP/1.1\""));
    end(process, Signal::TERM);
    // These users do not exist in the namespace.
    for (global, what) in [
        (" uid 12345".to_owned(), "cannot set uid ('user'): "),
        (" gid 12345".to_owned(), "cannot set gid ('group'): "),
        (format!(" chroot {jail}/nowhere"), "cannot change the root directory ('chroot'): "),
    ] {
        place.configure(&global, "");
        let ended = ChildProcess::start(&mut alone(&path).unwrap()).wait();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(what), "{}", ended.stderr);
    }
}

#[test]
fn unavailable_settings_are_warnings() {
    let place = ProxyFolder::new();
    let path = place.configure("", "");
    let flags = ["-S", "/nowhere/master.sock", "-m", "100", "-N", "50", "-L", "me", "-dM"];
    let mut process = ChildProcess::start(command().args(flags).args(["-db", "-f"]).arg(&path));
    let line = process.wait_stderr("-S /nowhere/master.sock: ");
    assert!(line.starts_with("[WARNING]"), "{line}");
    process.wait_stderr("-m 100: ");
    place.wait();
    end(process, Signal::TERM);
}

#[test]
fn a_master_may_outlive_its_worker() {
    let place = ProxyFolder::new();
    let path = place.configure(" master-worker no-exit-on-failure", "");
    let mut master = place.start(["-db", "-f", path.to_str().unwrap()]);
    master.wait_stderr("Loading success.");
    let children = format!("/proc/{0}/task/{0}/children", master.id());
    let worker = fs::read_to_string(&children).unwrap();
    let worker = i32::try_from(worker.trim().parse::<u32>().unwrap()).unwrap();
    let worker = rustix::process::Pid::from_raw(worker).unwrap();
    rustix::process::kill_process(worker, Signal::KILL).unwrap();
    master.wait_stderr("exited with code 137 (Killed)");
    eventually("no process serves", || place.send_request().is_err());
    master.signal(Signal::USR2);
    place.wait();
    assert_eq!(end(master, Signal::TERM).status.code(), Some(0));
}
