//! `fulmar proxy` is replaced under load: no client notices.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::Ordering;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::client_threads::{self, ClientThreads, TlsStream, repeat_requests};
use fulmar_tests::gateway::{ProxyFolder, command, end, pid_in, send_request};
use fulmar_tests::http::HttpClient;
use fulmar_tests::https;
use fulmar_tests::process::{ChildProcess, PATIENCE, eventually, has_ended};
use fulmar_tls::ClientTls;
use rustix::process::{Pid, Signal, kill_process};

/// Clients of an address. Some use a connection per request. Others keep a connection, and
/// reconnect only after an announced close.
fn crowd(address: SocketAddr) -> ClientThreads {
    let mut crowd = ClientThreads::default();
    for _ in 0..3 {
        crowd.add(move |count| {
            send_request(address).map_err(|error| format!("short: {error}"))?;
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        crowd.add(move |count| {
            repeat_requests(client_threads::connect(address)?, 50, b"origin", count)
        });
    }
    crowd
}

/// The same over TLS; half of the handshakes are resumed.
fn crowd_of_tls(address: SocketAddr, certs: &Certs) -> ClientThreads {
    let mut crowd = ClientThreads::default();
    for (requests, resumes) in [(1, false), (1, true), (50, false), (50, true)] {
        let options = https::trusting(certs);
        let resumption = https::client_tls(certs);
        crowd.add(move |count| {
            let anew = (!resumes).then(|| ClientTls::new(options.clone()).unwrap());
            let tls = anew.as_ref().unwrap_or(&resumption);
            repeat_requests(TlsStream::connect(tls, address)?, requests, b"origin", count)
        });
    }
    crowd
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// The worker of a master: its youngest child.
fn worker_of(master: u32) -> Option<u32> {
    let path = format!("/proc/{master}/task/{master}/children");
    let children = std::fs::read_to_string(path).unwrap();
    children.split_whitespace().last().map(|pid| pid.parse().unwrap())
}

#[test]
fn ten_reloads_under_load_lose_no_client() {
    let place = ProxyFolder::new();
    place.configure("", "");
    reload_ten_times(&place, || crowd(place.address));
}

/// Each worker reads certificates and session keys again.
#[test]
fn ten_reloads_under_tls_lose_no_client() {
    let place = ProxyFolder::new();
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let pem = [cert, key].map(|path| std::fs::read_to_string(path).unwrap()).concat();
    let pem = place.write("site.pem", &pem);
    let ProxyFolder { address, origin, .. } = &place;
    place.write(
        "proxy.cfg",
        &format!(
            "global\n nbthread 2\ndefaults\n mode http\n timeout client 1m\n timeout server 1m\n \
             timeout connect 10s\nfrontend fe\n bind {address} ssl crt {}\n default_backend be\n\
             backend be\n server s1 {origin}\n",
            pem.display()
        ),
    );
    reload_ten_times(&place, || crowd_of_tls(place.address, &certs));
}

/// Reloads ten times under load; no client fails.
fn reload_ten_times(place: &ProxyFolder, crowd: impl FnOnce() -> ClientThreads) {
    let path = place.path("proxy.cfg");
    let mut master = ChildProcess::start(command().args(["-W", "-db", "-f"]).arg(path));
    master.wait_stderr("Loading success.");
    let crowd = crowd();
    for _ in 0..10 {
        crowd.wait(200);
        let worker = worker_of(master.id()).unwrap();
        master.signal(Signal::USR2);
        eventually("it is replaced, and ends", || has_ended(worker));
    }
    crowd.wait(200);
    assert_eq!(crowd.end(), Vec::<String>::new());
    let ended = end(master, Signal::TERM);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("exited with code 0 (Exit)").count(), 10, "{}", ended.stderr);
}

#[test]
fn the_next_process_takes_over_from_the_one_that_is_named() {
    let place = ProxyFolder::new();
    let path = place.configure("", "");
    let path = path.to_str().unwrap();
    let mut process = place.start(["-db", "-f", path]);
    let crowd = crowd(place.address);
    for _ in 0..5 {
        crowd.wait(200);
        let before = process.id().to_string();
        let next = ChildProcess::start(command().args(["-db", "-f", path, "-sf", &before]));
        let ended = std::mem::replace(&mut process, next).wait();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    }
    crowd.wait(200);
    assert_eq!(crowd.end(), Vec::<String>::new());
    let before = process.id().to_string();
    let next = ChildProcess::start(command().args(["-db", "-f", path, "-st", &before]));
    process.wait();
    place.wait();
    end(next, Signal::TERM);
}

#[test]
fn an_invalid_configuration_changes_nothing() {
    let place = ProxyFolder::new();
    let path = place.configure("", "");
    let mut master = place.start(["-W", "-db", "-f", path.to_str().unwrap()]);
    let worker = worker_of(master.id());
    place.write("proxy.cfg", "nonsense\n");
    master.signal(Signal::HUP);
    master.wait_stderr("[ALERT] ");
    master.wait_stderr("Loading failure!");
    place.send_request().unwrap();
    assert_eq!(worker_of(master.id()), worker);
    place.configure("", "");
    master.signal(Signal::USR2);
    master.wait_stderr("Loading success.");
    place.send_request().unwrap();
    // The list of children is unreliable while one of them exits (proc_pid_task(5)).
    eventually("there is another", || worker_of(master.id()) != worker);
    let ended = end(master, Signal::USR1);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn a_master_ends_with_its_worker_and_a_worker_with_its_master() {
    let place = ProxyFolder::new();
    let path = place.configure("", "");
    let arguments = ["-W", "-db", "-f", path.to_str().unwrap()];
    let master = place.start(arguments);
    kill_process(pid(worker_of(master.id()).unwrap()), Signal::KILL).unwrap();
    let ended = master.wait();
    assert_eq!(ended.status.code(), Some(137), "{}", ended.stderr);
    let master = place.start(arguments);
    let worker = worker_of(master.id()).unwrap();
    end(master, Signal::KILL);
    eventually("the worker is gone", || has_ended(worker));
    eventually("the listener is closed", || TcpStream::connect(place.address).is_err());
}

#[test]
fn a_master_in_the_background_writes_its_number() {
    let place = ProxyFolder::new();
    let pidfile = place.path("pid");
    let path =
        place.configure(&format!(" daemon\n master-worker\n pidfile {}", pidfile.display()), "");
    let started = ChildProcess::start(command().arg("-f").arg(&path)).wait();
    assert_eq!(started.status.code(), Some(0), "{}", started.stderr);
    place.send_request().expect("it serves already");
    let master = pid_in(&pidfile);
    let worker = worker_of(master).unwrap();
    kill_process(pid(master), Signal::USR2).unwrap();
    eventually("another worker", || worker_of(master).is_some_and(|now| now != worker));
    kill_process(pid(master), Signal::TERM).unwrap();
    eventually("it ends", || has_ended(master));
}

#[test]
fn failed_reload_of_a_master_in_the_background_is_logged() {
    let place = ProxyFolder::new();
    let (pidfile, log) = (place.path("pid"), place.path("log"));
    let reader = UnixDatagram::bind(&log).unwrap();
    reader.set_read_timeout(Some(PATIENCE)).unwrap();
    let global = format!(" log {} local0\n pidfile {}", log.display(), pidfile.display());
    let path = place.configure(&global, "");
    let started = ChildProcess::start(command().args(["-W", "-D", "-f"]).arg(&path)).wait();
    assert_eq!(started.status.code(), Some(0), "{}", started.stderr);
    let master = pid_in(&pidfile);
    // Lines of the worker and of the master may arrive in any order.
    let logged = |parts: &[&str]| {
        let mut missing = parts.to_vec();
        while !missing.is_empty() {
            let mut buffer = [0; 2048];
            let n = reader.recv(&mut buffer).unwrap_or_else(|error| panic!("{missing:?}: {error}"));
            let line = String::from_utf8_lossy(&buffer[..n]).into_owned();
            missing.retain(|part| !line.contains(part));
        }
    };
    place.write("proxy.cfg", "nonsense\n");
    kill_process(pid(master), Signal::USR2).unwrap();
    logged(&[
        "unknown keyword 'nonsense'",
        &format!("haproxy[{master}]: [ALERT] "),
        "<129>", // local0, alert
        "Fatal errors found in configuration.",
        "Loading failure! The previous worker continues",
    ]);
    place.send_request().expect("the previous worker serves");
    place.configure(&global, "");
    kill_process(pid(master), Signal::USR2).unwrap();
    logged(&["Reloading", "Loading success."]);
    kill_process(pid(master), Signal::TERM).unwrap();
    eventually("it ends", || has_ended(master));
}

#[test]
fn a_service_manager_is_notified() {
    let place = ProxyFolder::new();
    let path = place.configure("", "");
    let news = place.path("notify");
    let manager = UnixDatagram::bind(&news).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut buffer = [0; 512];
        let n = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    };
    let mut master = notified(&path, &news);
    master.wait_stderr("Loading success.");
    let ready = hear();
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    assert!(ready.contains(&format!("MAINPID={}\n", master.id())), "{ready}");
    master.signal(Signal::USR2);
    let reloading = hear();
    assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
    master.wait_stderr("Loading success.");
    let ready = hear();
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    let ended = end(master, Signal::TERM);
    assert_eq!(hear(), "STOPPING=1\n");
    assert_eq!(ended.status.code(), Some(0));
}

fn notified(path: &Path, news: &Path) -> ChildProcess {
    ChildProcess::start(command().args(["-Ws", "-f"]).arg(path).env("NOTIFY_SOCKET", news))
}

#[test]
fn pending_connections_are_handed_over() {
    let place = ProxyFolder::new();
    let path = place.configure(" nbthread 1", "");
    let path = path.to_str().unwrap();
    let process = place.start(["-db", "-f", path]);
    let mut kept = HttpClient::connect(place.address);
    assert_eq!(kept.get("/").status, 200);
    process.pause();
    // No thread accepts them: they stay in the kernel's queue.
    let mut waiting: Vec<HttpClient> =
        (0..20).map(|_| HttpClient::connect(place.address)).collect();
    waiting.iter_mut().for_each(|client| client.send_get("/"));
    let before = process.id().to_string();
    let next = ChildProcess::start(command().args(["-db", "-f", path, "-sf", &before]));
    process.signal(Signal::CONT);
    for client in &mut waiting {
        assert_eq!(client.read_reply().unwrap().body, b"origin");
    }
    drop((kept, waiting));
    assert_eq!(process.wait().status.code(), Some(0));
    end(next, Signal::TERM);
}
