//! Forms and uploads on a full disk: a file system of our own, of 200 KB.

use std::fs;
use std::path::Path;
use std::process::Command;

use fulmar_proto::Request;
use fulmar_serve::{Options, Site, UploadOptions};
use fulmar_server::{Handler, HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
use fulmar_sys as sys;
use fulmar_tests::http::HttpClient;
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop};
use fulmar_tests::process::{run, text};
use fulmar_web::form;
use fulmar_web::temporary::TemporaryDir;

/// Everything goes to [`DISK`].
struct DiskStore {
    site: Site,
    place: TemporaryDir,
}

impl Handler for DiskStore {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        if request.target != b"/form" {
            return self.site.serve(responder, request);
        }
        let options = form::Options::with_files(self.place.clone(), 1 << 30);
        form::collect(responder, request, &options, |responder, _| {
            responder.text(200, "all of it\n")
        })
    }
}

/// Runs this test again on the small file system, if one can be mounted here.
#[test]
fn a_full_disk_is_reported_and_leaves_no_file() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let probe = ["-rm", "mount", "-t", "tmpfs", "x", DISK];
    if !Command::new("unshare").args(probe).output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let line =
        format!("mount -t tmpfs -o size=200k x {DISK} && exec \"$0\" --nocapture full_disk::");
    let itself = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &line]).arg(itself).env(INSIDE, "1");
    let output = run(&mut command);
    assert!(text(&output.stdout).contains("six answers"), "{output:?}");
}

fn inside() {
    let upload = Some(UploadOptions::default());
    let options = Options { upload, ..Options::default() };
    let disk = Path::new(DISK);
    let program = DiskStore {
        site: Site::open(disk, options).unwrap(),
        place: TemporaryDir::open(disk).unwrap(),
    };
    let app = HandlerApp::new(program, sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    let (mut driver, address) = OwnLoop::start(engine);
    std::thread::scope(|scope| {
        let peer = scope.spawn(|| {
            for (target, len, status) in [
                ("/a", 150_000, 201),
                ("/b", 150_000, 507),
                ("/a", 150_000, 507), // the old one stays until the new one is complete
                ("/form", 150_000, 507),
                ("/form", 10_000, 200),
                ("/b", 10_000, 201),
            ] {
                let mut client = HttpClient::connect(address);
                client.send(request(target, len));
                let reply = client.read_reply().expect("a reply");
                assert_eq!(reply.status, status, "{target}: {reply:?}");
            }
        });
        driver.turn_until(|_| peer.is_finished());
        peer.join().expect("the peer's assertions hold");
    });
    let len = |name: &str| fs::metadata(disk.join(name)).unwrap().len();
    assert_eq!((len("a"), len("b"), fs::read_dir(disk).unwrap().count()), (150_000, 10_000, 2));
    println!("six answers");
}

/// A PUT, or a form with a file, of `len` bytes.
fn request(target: &str, len: usize) -> Vec<u8> {
    let contents = "x".repeat(len);
    let (method, body) = match target {
        "/form" => (
            "POST",
            format!(
                "--B\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n\
                 {contents}\r\n--B--\r\n"
            ),
        ),
        _ => ("PUT", contents),
    };
    format!(
        "{method} {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\
         Content-Type: multipart/form-data; boundary=B\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

const DISK: &str = "/mnt";
const INSIDE: &str = "FULMAR_TEST_INSIDE";
