//! Operations of io_uring: which were asked for, and what came of them.

use fulmar_audit::{Backend, Counter, Counts, Method, Phase, Scope, Tally, TimedCall};
use fulmar_tests::process::{PATIENCE, Serve, eventually, python};
use fulmar_tests::tree::Tree;
use fulmar_tests::{http::Client, load};
use rustix::io::Errno;

/// True if nobody can tell: no counter in the kernel, or no types of it.
fn is_untold(counts: &Counts) -> bool {
    counts.backend != Backend::Ebpf || !counts.ring_why.is_empty()
}

/// A program that asks a ring to do these, one after the other: opcode, descriptor, flags (`ioprio`),
/// and a length into a buffer. The layouts are those of `<linux/io_uring.h>`.
fn ring(operations: &str) -> Option<Counts> {
    told(operations, Scope::default()).map(|(counts, _)| counts)
}

/// The same, with what else a scope tells.
fn told(operations: &str, scope: Scope) -> Option<(Counts, Vec<TimedCall>)> {
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
    let Some(fulmar_audit::End::Ended(status)) = end else { panic!("{end:?}") };
    let counts = counter.snapshot().expect("counts");
    let timeline = counter.timeline().expect("it can be read");
    if is_untold(&counts) || status.code() == Some(9) {
        return None;
    }
    assert!(status.success(), "{status}: {counts:?}");
    Some((counts, timeline.map_or_else(Vec::new, |timeline| timeline.calls)))
}

fn of<'c>(counts: &'c Counts, operation: &str) -> &'c Tally {
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

/// 13 is an accept; flag 1 asks it to repeat itself.
#[test]
fn an_operation_that_repeats_itself_is_one_with_many_results() {
    let script = "l = socket.create_server(('127.0.0.1', 0))\n\
                  ask(13, l.fileno(), 1)\n\
                  [socket.create_connection(l.getsockname()) for _ in range(3)]\n\
                  call(426, f, 0, 3, 1, None, 0)";
    let Some(counts) = ring(script) else { return };
    assert_eq!(of(&counts, "accept").count, 1, "{counts:?}");
    let results = of(&counts, "(repeated)");
    assert_eq!((results.count, results.bytes), (3, 0), "{counts:?}");
}

/// 27 and 26 as above; 34 is a shutdown, which is done by another thread: it is waited for. The entry
/// that asks for accepts has the name of all others.
#[test]
fn operations_belong_to_a_connection_as_calls_do() {
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
    let scope = Scope { phases: true, timeline: true, ..Scope::default() };
    let Some((counts, timeline)) = told(script, scope) else { return };
    assert_eq!(counts.lost, 0, "{counts:?}");
    let phases = counts.ring_by_phase.as_ref().expect("they were asked for");
    let done = |phase: Phase| -> Vec<_> {
        let done = phases.get(&phase).into_iter().flatten();
        done.map(|(name, tally)| (name.as_str(), tally.count)).collect()
    };
    assert_eq!(done(Phase::Accept), [("(repeated)", 1)], "{phases:?}");
    assert_eq!(done(Phase::Head), [("recv", 2), ("send", 1)], "{phases:?}");
    assert_eq!(done(Phase::Body), [("send", 1)], "{phases:?}");
    assert_eq!(done(Phase::Close), [("close", 1), ("shutdown", 1)], "{phases:?}");
    assert_eq!(done(Phase::Other), [("nop", 1)], "{phases:?}");
    assert_eq!((of(&counts, "accept").count, of(&counts, "recv").count), (1, 2));
    assert_eq!(phases[&Phase::Head]["recv"], of(&counts, "recv").clone());
    let received = timeline.iter().find(|call| call.name == "io_uring:recv").expect("it is there");
    assert!(received.arguments.contains(r#", "GET / HTTP/1.1\r\n"#), "{received:?}");
    assert!((received.result, received.took_ns > Some(0)) == (18, true), "{received:?}");
}

/// A place of the ring's own table instead of a descriptor; and a close of whose success nobody is
/// told. The table has one place: 2 registers it (`IORING_REGISTER_FILES`), flag 1 of an entry says
/// that its descriptor is a place, 0x40 that success is not told.
#[test]
fn operations_belong_to_a_connection_of_the_rings_own_table() {
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
    let scope = Scope { phases: true, ..Scope::default() };
    let Some((counts, _)) = told(script, scope) else { return };
    let phases = counts.ring_by_phase.as_ref().expect("they were asked for");
    assert_eq!(phases[&Phase::Accept]["accept"].count, 1, "{phases:?}");
    assert_eq!(phases[&Phase::Head]["recv"].count, 1, "{phases:?}");
    assert_eq!(phases[&Phase::Close]["close"].count, 1, "{phases:?}");
    let again = &phases[&Phase::Other]["close"];
    assert_eq!((again.count, again.failed()), (1, 1), "nothing was there to close: {phases:?}");
    assert_eq!((of(&counts, "close").count, counts.lost), (2, 0), "{counts:?}");
}

/// A buffer that is handed to the ring (31) and that it chooses, by flag 0x20 of an entry: where the
/// program would have had it there lies something else, the beginning of a handshake.
#[test]
fn what_a_ring_received_into_a_buffer_of_its_own_is_not_looked_at() {
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
    let scope = Scope { phases: true, timeline: true, ..Scope::default() };
    let Some((counts, timeline)) = told(script, scope) else { return };
    let phases = counts.ring_by_phase.as_ref().expect("they were asked for");
    let recv = &phases[&Phase::Head]["recv"];
    assert_eq!((recv.count, recv.bytes, recv.kinds["unseen"]), (1, 18, 1), "{phases:?}");
    let received = timeline.iter().find(|call| call.name == "io_uring:recv").expect("it is there");
    assert!(!received.arguments.contains('"'), "{received:?}");
}

/// The same answers leave by calls, by a ring, or by both.
#[test]
fn a_server_sends_the_same_by_a_ring_and_by_calls() {
    let tree = Tree::new();
    tree.file("a.txt", "a file\n");
    let serve = Serve::start(&tree.root(), &["--driver", "ring"]);
    let whole = Client::connect(serve.address).get("/a.txt");
    assert_eq!(whole.status, 200);
    let counter = Counter::join(serve.process.id(), Method::Best).expect("it runs");
    let before = counter.snapshot().expect("counts");
    let url = serve.url("/a.txt");
    load::load(&["-c", "32", "-n", "640", &url]);
    let (mut counts, mut sent) = (before.clone(), 0);
    eventually("all answers are counted", || {
        counts = counter.snapshot().expect("counts").minus(&before);
        let by_ring = counts.ring.as_ref().and_then(|ring| ring.get("send")).map_or(0, |t| t.bytes);
        sent = by_ring + counts.calls.get("sendto").map_or(0, |tally| tally.bytes);
        is_untold(&counts) || sent >= 640 * 100 && sent % 640 == 0
    });
}
