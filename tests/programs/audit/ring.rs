//! Operations of io_uring and their results.

use fulmar_audit::{
    BackendChoice, CallCounts, CallTally, ConnectionPhase, Counter, CounterOptions,
    CountingBackend, TimedCall,
};
use fulmar_tests::process::{PATIENCE, Serve, eventually, python};
use fulmar_tests::tree::Tree;
use fulmar_tests::{http::HttpClient, load};
use rustix::io::Errno;

/// True if operations cannot be counted here: no eBPF, or no type information.
fn is_unavailable(counts: &CallCounts) -> bool {
    counts.backend != CountingBackend::Ebpf || !counts.ring_why.is_empty()
}

/// A program that runs these operations on a ring one after the other: opcode, descriptor, flags
/// (`ioprio`) and a length in a buffer. The layouts are those of `<linux/io_uring.h>`.
fn ring(operations: &str) -> Option<CallCounts> {
    told(operations, CounterOptions::default()).map(|(counts, _)| counts)
}

/// The same, with further options of the counter.
fn told(operations: &str, scope: CounterOptions) -> Option<(CallCounts, Vec<TimedCall>)> {
    let script = format!(
        "import ctypes, mmap, os, socket, struct\n\
         call = ctypes.CDLL(None, use_errno=True).syscall\n\
         p = bytearray(120)\n\
         f = call(425, 8, (ctypes.c_char * 120).from_buffer(p))\n\
         if f < 0: os._exit(9)\n\
         tail, array = struct.unpack_from('I', p, 44)[0], struct.unpack_from('I', p, 64)[0]\n\
         r, s = mmap.mmap(f, 4096), mmap.mmap(f, 4096, offset=0x10000000)\n\
         b = ctypes.create_string_buffer(64)\n\
         one, other = socket.socketpair()\n\
         def ask(op, fd, flags=0, n=0):\n\
         \x20 at = struct.unpack_from('I', r, tail)[0]\n\
         \x20 struct.pack_into('BBHiQQIIQ24x', s, at % 8 * 64, op, 0, flags, fd, 0,\n\
         \x20   ctypes.addressof(b) if n else 0, n, 0x40 if n else 0, 7)\n\
         \x20 struct.pack_into('I', r, array + at % 8 * 4, at % 8)\n\
         \x20 struct.pack_into('I', r, tail, at + 1)\n\
         \x20 assert call(426, f, 1, 0, 0, None, 0) == 1\n\
         {operations}\n"
    );
    let mut command = python();
    command.args(["-I", "-c", &script]);
    let counter = Counter::start(command, scope).expect("it starts");
    let end = counter.wait(Some(PATIENCE)).expect("no error");
    let Some(fulmar_audit::CounterEnd::Ended(status)) = end else { panic!("{end:?}") };
    let counts = counter.snapshot().expect("counts");
    let timeline = counter.timeline().expect("it can be read");
    if is_unavailable(&counts) || status.code() == Some(9) {
        return None;
    }
    assert!(status.success(), "{status}: {counts:?}");
    Some((counts, timeline.map_or_else(Vec::new, |timeline| timeline.calls)))
}

fn of<'c>(counts: &'c CallCounts, operation: &str) -> &'c CallTally {
    counts
        .ring
        .as_ref()
        .and_then(|ring| ring.get(operation))
        .unwrap_or_else(|| panic!("{counts:?}"))
}

/// 26 is a send, 27 a receive, 19 a close, 0 nothing; 0x40 is `MSG_DONTWAIT`.
#[test]
fn results_are_bytes_and_errors() {
    let script = "ask(26, one.fileno(), n=40); ask(27, other.fileno(), n=30)\n\
                  ask(27, other.fileno(), n=30); ask(27, other.fileno(), n=30)\n\
                  ask(27, 9999, n=1); ask(19, 9999); ask(0, -1)";
    let Some(counts) = ring(script) else { return };
    let (send, recv, close) = (of(&counts, "send"), of(&counts, "recv"), of(&counts, "close"));
    assert_eq!((send.count, send.bytes, send.failed()), (1, 40, 0));
    assert_eq!((recv.count, recv.bytes), (4, 40), "{recv:?}");
    assert_eq!(
        recv.errors,
        [(Errno::BADF.raw_os_error(), 1), (Errno::AGAIN.raw_os_error(), 1)].into()
    );
    assert_eq!((close.count, close.bytes, close.failed()), (1, 0, 1));
    assert_eq!((of(&counts, "nop").count, counts.lost), (1, 0));
    assert_eq!(counts.calls["io_uring_enter"].count, 7);
}

/// 13 is an accept; flag 1 makes it multishot.
#[test]
fn a_multishot_operation_has_many_results() {
    let script = "l = socket.create_server(('127.0.0.1', 0))\n\
                  ask(13, l.fileno(), 1)\n\
                  [socket.create_connection(l.getsockname()) for _ in range(3)]\n\
                  call(426, f, 0, 3, 1, None, 0)";
    let Some(counts) = ring(script) else { return };
    assert_eq!(of(&counts, "accept").count, 1, "{counts:?}");
    let results = of(&counts, "(repeated)");
    assert_eq!((results.count, results.bytes), (3, 0), "{counts:?}");
}

/// 27 and 26 as above; 34 is a shutdown, which another thread completes, so the script waits for
/// it. The multishot accept counts under the name of its operation.
#[test]
fn operations_have_phases_like_calls() {
    let script = "l = socket.create_server(('127.0.0.1', 0))\n\
                  ask(13, l.fileno(), 1)\n\
                  before = set(os.listdir('/proc/self/fd'))\n\
                  peer = socket.create_connection(l.getsockname())\n\
                  call(426, f, 0, 1, 1, None, 0)\n\
                  new = set(os.listdir('/proc/self/fd')) - before - {str(peer.fileno())}\n\
                  a = next(int(n) for n in new if os.path.exists('/proc/self/fd/' + n))\n\
                  peer.send(b'GET / HTTP/1.1\\r\\n\\r\\n')\n\
                  import select; select.select([a], [], [])\n\
                  ask(27, a, n=60)\n\
                  b.value = b'HTTP/1.1 200 OK\\r\\n\\r\\n'; ask(26, a, n=19)\n\
                  b.value = b'some text'; ask(26, a, n=9); ask(27, a, n=60)\n\
                  ask(34, a); call(426, f, 0, 6, 1, None, 0)\n\
                  ask(19, a); ask(0, -1)";
    let scope = CounterOptions { phases: true, timeline: true, ..CounterOptions::default() };
    let Some((counts, timeline)) = told(script, scope) else { return };
    assert_eq!(counts.lost, 0, "{counts:?}");
    let phases = counts.ring_by_phase.as_ref().expect("they were requested");
    let done = |phase: ConnectionPhase| -> Vec<_> {
        let done = phases.get(&phase).into_iter().flatten();
        done.map(|(name, tally)| (name.as_str(), tally.count)).collect()
    };
    assert_eq!(done(ConnectionPhase::Accept), [("(repeated)", 1)], "{phases:?}");
    assert_eq!(done(ConnectionPhase::Head), [("recv", 2), ("send", 1)], "{phases:?}");
    assert_eq!(done(ConnectionPhase::Body), [("send", 1)], "{phases:?}");
    assert_eq!(done(ConnectionPhase::Close), [("close", 1), ("shutdown", 1)], "{phases:?}");
    assert_eq!(done(ConnectionPhase::Other), [("nop", 1)], "{phases:?}");
    assert_eq!((of(&counts, "accept").count, of(&counts, "recv").count), (1, 2));
    assert_eq!(phases[&ConnectionPhase::Head]["recv"], of(&counts, "recv").clone());
    let received = timeline.iter().find(|call| call.name == "io_uring:recv").expect("it is there");
    assert!(received.arguments.contains(r#", "GET / HTTP/1.1\r\n"#), "{received:?}");
    assert!((received.result, received.took_ns > Some(0)) == (18, true), "{received:?}");
}

/// A registered descriptor, and a close without a completion for success. The table has one entry:
/// 2 registers it (`IORING_REGISTER_FILES`), flag 1 of a queue entry means a registered descriptor,
/// 0x40 means no completion for success.
#[test]
fn operations_on_registered_descriptors_have_phases() {
    let script = "from array import array as numbers\n\
                  none = numbers('i', [-1])\n\
                  assert call(427, f, 2, ctypes.c_void_p(none.buffer_info()[0]), 1) == 0\n\
                  def entry(op, flags, fd, n, place):\n\
                  \x20 at = struct.unpack_from('I', r, tail)[0]\n\
                  \x20 struct.pack_into('BBHiQQIIQHHI16x', s, at % 8 * 64, op, flags, 0, fd, 0,\n\
                  \x20   ctypes.addressof(b) if n else 0, n, 0, 7, 0, 0, place)\n\
                  \x20 struct.pack_into('I', r, array + at % 8 * 4, at % 8)\n\
                  \x20 struct.pack_into('I', r, tail, at + 1)\n\
                  \x20 assert call(426, f, 1, 0, 0, None, 0) == 1\n\
                  l = socket.create_server(('127.0.0.1', 0))\n\
                  peer = socket.create_connection(l.getsockname())\n\
                  entry(13, 0, l.fileno(), 0, 1); call(426, f, 0, 1, 1, None, 0)\n\
                  peer.send(b'GET / HTTP/1.1\\r\\n\\r\\n')\n\
                  entry(27, 1, 0, 60, 0); call(426, f, 0, 2, 1, None, 0)\n\
                  entry(19, 0x40, 0, 0, 1); entry(19, 0x40, 0, 0, 1)";
    let scope = CounterOptions { phases: true, ..CounterOptions::default() };
    let Some((counts, _)) = told(script, scope) else { return };
    let phases = counts.ring_by_phase.as_ref().expect("they were requested");
    assert_eq!(phases[&ConnectionPhase::Accept]["accept"].count, 1, "{phases:?}");
    assert_eq!(phases[&ConnectionPhase::Head]["recv"].count, 1, "{phases:?}");
    assert_eq!(phases[&ConnectionPhase::Close]["close"].count, 1, "{phases:?}");
    let again = &phases[&ConnectionPhase::Other]["close"];
    assert_eq!((again.count, again.failed()), (1, 1), "nothing was there to close: {phases:?}");
    assert_eq!((of(&counts, "close").count, counts.lost), (2, 0), "{counts:?}");
}

/// A buffer that is provided to the ring (31), which the ring selects by flag 0x20 of an entry. The
/// program's own buffer contains other data: the beginning of a handshake.
#[test]
fn data_in_buffers_of_a_ring_are_not_read() {
    let script = "other = ctypes.create_string_buffer(b'\\x16\\x03\\x01\\0\\x40', 64)\n\
                  def entry(op, flags, fd, at, n, own):\n\
                  \x20 i = struct.unpack_from('I', r, tail)[0]\n\
                  \x20 struct.pack_into('BBHiQQIIQHHI16x', s, i % 8 * 64, op, flags, 0, fd, 0,\n\
                  \x20   ctypes.addressof(at), n, own, 7, 5, 0, 0)\n\
                  \x20 struct.pack_into('I', r, array + i % 8 * 4, i % 8)\n\
                  \x20 struct.pack_into('I', r, tail, i + 1)\n\
                  \x20 assert call(426, f, 1, 0, 0, None, 0) == 1\n\
                  l = socket.create_server(('127.0.0.1', 0))\n\
                  peer = socket.create_connection(l.getsockname())\n\
                  a, _ = l.accept()\n\
                  entry(31, 0, 1, b, 60, 0)\n\
                  peer.send(b'GET / HTTP/1.1\\r\\n\\r\\n')\n\
                  entry(27, 0x20, a.fileno(), other, 0, 0x40)\n\
                  assert b.raw.startswith(b'GET /')";
    let scope = CounterOptions { phases: true, timeline: true, ..CounterOptions::default() };
    let Some((counts, timeline)) = told(script, scope) else { return };
    let phases = counts.ring_by_phase.as_ref().expect("they were requested");
    let recv = &phases[&ConnectionPhase::Head]["recv"];
    assert_eq!((recv.count, recv.bytes, recv.kinds["unseen"]), (1, 18, 1), "{phases:?}");
    let received = timeline.iter().find(|call| call.name == "io_uring:recv").expect("it is there");
    assert!(!received.arguments.contains('"'), "{received:?}");
}

/// The same responses are sent by calls, by a ring, or by both.
#[test]
fn a_server_sends_the_same_with_a_ring_and_with_calls() {
    let tree = Tree::new();
    tree.file("a.txt", "a file\n");
    let serve = Serve::start(&tree.root(), &["--driver", "ring"]);
    let whole = HttpClient::connect(serve.address).get("/a.txt");
    assert_eq!(whole.status, 200);
    let counter = Counter::join(serve.process.id(), BackendChoice::Best).expect("it runs");
    let before = counter.snapshot().expect("counts");
    let url = serve.url("/a.txt");
    load::load(&["-c", "32", "-n", "640", &url]);
    let (mut counts, mut sent) = (before.clone(), 0);
    eventually("all responses are counted", || {
        counts = counter.snapshot().expect("counts").minus(&before);
        let by_ring = counts.ring.as_ref().and_then(|ring| ring.get("send")).map_or(0, |t| t.bytes);
        sent = by_ring + counts.calls.get("sendto").map_or(0, |tally| tally.bytes);
        is_unavailable(&counts) || sent >= 640 * 100 && sent % 640 == 0
    });
}
