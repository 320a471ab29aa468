//! Maps a call, or an operation of io_uring, to the connection it uses and to what it does with it.
//!
//! Pure: an event goes in, an action comes out. `phases` applies the action to the connection.

use syscalls::Sysno;

use crate::data_location::low;
use crate::event::CallEvent;
use crate::operation::{ANY_PLACE, Operation, opcode};

/// What an event does to connections. Other events have no action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionAction {
    /// Accepts a connection. `None` if the accept failed.
    Accept(Option<SocketKey>),
    /// Creates a stream socket, which may become a connection.
    Stream(SocketKey),
    /// The descriptor now refers to something other than a connection.
    Forget(SocketKey),
    Close(SocketKey),
    /// Closes all descriptors from one to another.
    CloseAll {
        process: u32,
        from: i32,
        to: i32,
    },
    /// Moves bytes from one descriptor to another without passing them to the program.
    Pour {
        from: SocketKey,
        to: SocketKey,
    },
    /// Uses this connection.
    Use(SocketKey, SocketUse),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketUse {
    Connect,
    Receive {
        flags: i32,
    },
    Send,
    Shutdown,
    /// The kernel takes over TLS (kTLS).
    Encrypt,
    /// Configures the socket, or queries it.
    Touch,
}

/// Identifies a connection: its process or ring, and its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey {
    pub(crate) process: u32,
    /// 0 for descriptors of the process. For registered descriptors: the ring.
    pub(crate) table: u64,
    pub(crate) number: i32,
}

impl ConnectionAction {
    /// `None` if the event does not concern connections.
    pub(crate) fn of(event: &CallEvent) -> Option<Self> {
        match event.operation() {
            Some(operation) => of_operation(event, &operation),
            None => of_call(event),
        }
    }
}

/// What a call does. The numbers are argument positions.
#[derive(Clone, Copy, Debug)]
enum CallRole {
    /// Returns a connection.
    Accept,
    /// Returns a socket.
    Socket,
    Connect,
    /// Makes a socket a listening socket.
    Listen,
    /// Returns a descriptor that is no socket.
    Open,
    /// May move bytes.
    Receive {
        flags: Option<u8>,
    },
    Send,
    /// Moves bytes that the program does not see, and so a body.
    Pour {
        from: u8,
        to: u8,
    },
    Shutdown,
    Close,
    CloseRange,
    SetOption,
    Touch(u8),
}

fn of_call(event: &CallEvent) -> Option<ConnectionAction> {
    let (_, role) = ROLES.iter().find(|(number, _)| *number as u32 == event.call)?;
    let own = |number| SocketKey { process: event.process, table: 0, number };
    let name = |which| own(event.descriptor(which));
    let new = event.returned_descriptor().map(own);
    let act = |which, act| Some(ConnectionAction::Use(name(which), act));
    match *role {
        CallRole::Accept => Some(ConnectionAction::Accept(new)),
        CallRole::Socket => {
            let [domain, kind] = [0, 1].map(|which| low(event.arguments[which]));
            Some(of_socket(domain, kind, new?))
        }
        CallRole::Connect => act(0, SocketUse::Connect),
        CallRole::Listen => Some(ConnectionAction::Forget(name(0))),
        CallRole::Open => Some(ConnectionAction::Forget(new?)),
        CallRole::Receive { flags } => {
            let flags = flags.map_or(0, |which| event.descriptor(which));
            act(0, SocketUse::Receive { flags })
        }
        CallRole::Send => act(0, SocketUse::Send),
        CallRole::Pour { from, to } => {
            Some(ConnectionAction::Pour { from: name(from), to: name(to) })
        }
        CallRole::Shutdown => act(0, SocketUse::Shutdown),
        CallRole::Close => Some(ConnectionAction::Close(name(0))),
        CallRole::CloseRange
            if event.result == 0 && low(event.arguments[2]) & CLOSE_ON_EXEC == 0 =>
        {
            let [from, to] = [0, 1].map(|which| event.descriptor(which).cast_unsigned());
            let within = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
            Some(ConnectionAction::CloseAll {
                process: event.process,
                from: within(from),
                to: within(to),
            })
        }
        CallRole::CloseRange => None,
        CallRole::SetOption if event.descriptor(1) == SOL_TLS => act(0, SocketUse::Encrypt),
        CallRole::SetOption => act(0, SocketUse::Touch),
        CallRole::Touch(which) => act(which, SocketUse::Touch),
    }
}

/// Only a stream socket may become a connection.
fn of_socket(domain: i32, kind: i32, new: SocketKey) -> ConnectionAction {
    match DOMAINS.contains(&domain) && kind & TYPE_MASK == libc::SOCK_STREAM {
        true => ConnectionAction::Stream(new),
        false => ConnectionAction::Forget(new),
    }
}

fn of_operation(event: &CallEvent, operation: &Operation) -> Option<ConnectionAction> {
    let named = |table, number| SocketKey { process: event.process, table, number };
    let of = |number, is_registered| match is_registered {
        true => named(operation.ring, number),
        false => named(0, number),
    };
    let name = of(operation.descriptor, operation.is_registered);
    // The operation's place is one more than the index in the ring's table, if it is one.
    let place = |place: u32| named(operation.ring, low((place - 1).into()));
    let new = event.returned_descriptor().map(|result| match operation.place {
        0 => named(0, result),
        ANY_PLACE => named(operation.ring, result),
        at => place(at),
    });
    let act = |act| Some(ConnectionAction::Use(name, act));
    match operation.opcode {
        opcode::ACCEPT => Some(ConnectionAction::Accept(new)),
        opcode::SOCKET => {
            // These fields hold the domain and the type.
            Some(of_socket(operation.descriptor, low(operation.offset), new?))
        }
        opcode::CONNECT => act(SocketUse::Connect),
        opcode::LISTEN => Some(ConnectionAction::Forget(name)),
        opcode::OPENAT | opcode::OPENAT2 => Some(ConnectionAction::Forget(new?)),
        opcode::RECV | opcode::RECVMSG => act(SocketUse::Receive { flags: operation.flags }),
        opcode::READ
        | opcode::READV
        | opcode::READ_FIXED
        | opcode::READV_FIXED
        | opcode::READ_MULTISHOT
        | opcode::RECV_ZC => act(SocketUse::Receive { flags: 0 }),
        opcode::SEND
        | opcode::SENDMSG
        | opcode::SEND_ZC
        | opcode::SENDMSG_ZC
        | opcode::WRITE
        | opcode::WRITEV
        | opcode::WRITE_FIXED
        | opcode::WRITEV_FIXED => act(SocketUse::Send),
        opcode::SPLICE => {
            let from = of(low(operation.place.into()), operation.flags & SPLICE_FIXED != 0);
            Some(ConnectionAction::Pour { from, to: name })
        }
        opcode::SHUTDOWN => act(SocketUse::Shutdown),
        opcode::CLOSE if operation.place != 0 => {
            Some(ConnectionAction::Close(place(operation.place)))
        }
        opcode::CLOSE => Some(ConnectionAction::Close(name)),
        opcode::EPOLL_CTL => {
            Some(ConnectionAction::Use(named(0, low(operation.offset)), SocketUse::Touch))
        }
        opcode::BIND | opcode::POLL_ADD | opcode::URING_CMD => act(SocketUse::Touch),
        _ => None,
    }
}

const ROLES: &[(Sysno, CallRole)] = &[
    (Sysno::recvfrom, CallRole::Receive { flags: Some(3) }),
    (Sysno::sendto, CallRole::Send),
    (Sysno::read, CallRole::Receive { flags: None }),
    (Sysno::write, CallRole::Send),
    (Sysno::readv, CallRole::Receive { flags: None }),
    (Sysno::writev, CallRole::Send),
    (Sysno::preadv2, CallRole::Receive { flags: None }),
    (Sysno::pwritev2, CallRole::Send),
    (Sysno::recvmsg, CallRole::Receive { flags: Some(2) }),
    (Sysno::sendmsg, CallRole::Send),
    (Sysno::recvmmsg, CallRole::Receive { flags: Some(3) }),
    (Sysno::sendmmsg, CallRole::Send),
    (Sysno::sendfile, CallRole::Pour { from: 1, to: 0 }),
    (Sysno::splice, CallRole::Pour { from: 0, to: 2 }),
    (Sysno::accept4, CallRole::Accept),
    (Sysno::accept, CallRole::Accept),
    (Sysno::close, CallRole::Close),
    (Sysno::close_range, CallRole::CloseRange),
    (Sysno::shutdown, CallRole::Shutdown),
    (Sysno::socket, CallRole::Socket),
    (Sysno::connect, CallRole::Connect),
    (Sysno::listen, CallRole::Listen),
    (Sysno::bind, CallRole::Touch(0)),
    (Sysno::epoll_ctl, CallRole::Touch(2)),
    (Sysno::setsockopt, CallRole::SetOption),
    (Sysno::getsockopt, CallRole::Touch(0)),
    (Sysno::getsockname, CallRole::Touch(0)),
    (Sysno::getpeername, CallRole::Touch(0)),
    (Sysno::fcntl, CallRole::Touch(0)),
    (Sysno::ioctl, CallRole::Touch(0)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::open, CallRole::Open),
    (Sysno::openat, CallRole::Open),
    (Sysno::openat2, CallRole::Open),
    (Sysno::dup, CallRole::Open),
    #[cfg(target_arch = "x86_64")]
    (Sysno::dup2, CallRole::Open),
    (Sysno::dup3, CallRole::Open),
    (Sysno::epoll_create1, CallRole::Open),
    (Sysno::eventfd2, CallRole::Open),
    (Sysno::timerfd_create, CallRole::Open),
];

/// `socket(2)`: the other bits of the type are flags.
const TYPE_MASK: i32 = 0xf;
const DOMAINS: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
/// `<linux/socket.h>`.
const SOL_TLS: i32 = 282;
/// `CLOSE_RANGE_CLOEXEC`: closes nothing yet.
const CLOSE_ON_EXEC: i32 = 4;
/// `SPLICE_F_FD_IN_FIXED`.
const SPLICE_FIXED: i32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    const RING: u64 = 0x9000;

    fn event(call: u32, arguments: [u64; 6], result: i64) -> CallEvent {
        let (start, memory) = (None, Vec::new());
        CallEvent { start, end: 0, process: 1, thread: 2, call, result, arguments, memory }
    }

    fn own(number: i32) -> SocketKey {
        SocketKey { process: 1, table: 0, number }
    }

    fn registered(number: i32) -> SocketKey {
        SocketKey { process: 1, table: RING, number }
    }

    /// The action of an operation with this descriptor, offset, place, flags of the entry and flags
    /// of the operation.
    fn done(opcode: u32, fields: [u64; 5], result: i64) -> Option<ConnectionAction> {
        let [descriptor, offset, place, entry_flags, flags] = fields;
        let arguments = [descriptor, 0x50, flags << 32, offset, entry_flags << 32 | place, RING];
        ConnectionAction::of(&event(1_024 + opcode, arguments, result))
    }

    #[test]
    fn operations_do_what_calls_do() {
        use ConnectionAction::{Accept, Close, Forget, Pour, Stream, Use};
        let stream = u64::from(libc::SOCK_STREAM.cast_unsigned());
        let any = u64::from(ANY_PLACE);
        let cases: &[(u32, [u64; 5], i64, Option<ConnectionAction>)] = &[
            (opcode::ACCEPT, [3, 0, 0, 0, 0], 7, Some(Accept(Some(own(7))))),
            (opcode::ACCEPT, [3, 0, 0, 0, 0], -11, Some(Accept(None))),
            (opcode::ACCEPT, [3, 0, any, 0, 0], 5, Some(Accept(Some(registered(5))))),
            (opcode::ACCEPT, [3, 0, 6, 0, 0], 0, Some(Accept(Some(registered(5))))),
            (opcode::SOCKET, [2, stream, 0, 0, 0], 7, Some(Stream(own(7)))),
            (opcode::SOCKET, [2, stream, any, 0, 0], 4, Some(Stream(registered(4)))),
            (opcode::SOCKET, [2, 2, 0, 0, 0], 7, Some(Forget(own(7)))),
            (opcode::SOCKET, [2, stream, 0, 0, 0], -24, None),
            (opcode::CONNECT, [7, 0, 0, 0, 0], 0, Some(Use(own(7), SocketUse::Connect))),
            (opcode::RECV, [7, 0, 0, 0, 2], 9, Some(Use(own(7), SocketUse::Receive { flags: 2 }))),
            (
                opcode::READ,
                [5, 0, 0, 1, 0],
                9,
                Some(Use(registered(5), SocketUse::Receive { flags: 0 })),
            ),
            (opcode::SEND_ZC, [7, 0, 0, 0, 0], 9, Some(Use(own(7), SocketUse::Send))),
            (opcode::SPLICE, [7, 0, 8, 0, 0], 9, Some(Pour { from: own(8), to: own(7) })),
            (
                opcode::SPLICE,
                [7, 0, 8, 0, 1 << 31],
                9,
                Some(Pour { from: registered(8), to: own(7) }),
            ),
            (opcode::SHUTDOWN, [7, 0, 0, 0, 0], 0, Some(Use(own(7), SocketUse::Shutdown))),
            (opcode::CLOSE, [7, 0, 0, 0, 0], 0, Some(Close(own(7)))),
            (opcode::CLOSE, [0, 0, 6, 0, 0], 0, Some(Close(registered(5)))),
            (opcode::EPOLL_CTL, [4, 7, 0, 0, 0], 0, Some(Use(own(7), SocketUse::Touch))),
            (opcode::OPENAT, [0, 0, 0, 0, 0], 8, Some(Forget(own(8)))),
            (0, [0, 0, 0, 0, 0], 0, None),
            (255, [u64::MAX, 0, 0, 0, 0], 8, None),
        ];
        for (opcode, fields, result, expected) in cases {
            assert_eq!(done(*opcode, *fields, *result), *expected, "{opcode} {fields:?} {result}");
        }
    }

    #[test]
    fn a_range_of_descriptors_is_closed_unless_that_is_left_to_execve() {
        let close = |from, to, flags, result| {
            let call = Sysno::close_range as u32;
            ConnectionAction::of(&event(call, [from, to, flags, 0, 0, 0], result))
        };
        let all = |from, to| Some(ConnectionAction::CloseAll { process: 1, from, to });
        assert_eq!(close(5, 9, 0, 0), all(5, 9));
        assert_eq!(close(3, u64::from(u32::MAX), 0, 0), all(3, i32::MAX));
        assert_eq!((close(3, 9, 4, 0), close(9, 3, 0, -22)), (None, None));
    }

    #[test]
    fn an_option_of_tls_leaves_it_to_the_kernel() {
        let set = |level| {
            ConnectionAction::of(&event(Sysno::setsockopt as u32, [7, level, 1, 0, 0, 0], 0))
        };
        assert_eq!(set(282), Some(ConnectionAction::Use(own(7), SocketUse::Encrypt)));
        assert_eq!(set(6), Some(ConnectionAction::Use(own(7), SocketUse::Touch)));
    }
}
