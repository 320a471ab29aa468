//! What a call, or an operation of io_uring, has to do with connections: which, and what.
//!
//! Pure: an event goes in, a deed comes out. What a deed means for a connection is `phases`' work.

use syscalls::Sysno;

use crate::event::{Event, low};
use crate::operation::{ANY_PLACE, Operation, opcode};

/// What is done to connections. Everything else has nothing to do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// One is accepted, if anybody was there.
    Accept(Option<Name>),
    /// A socket is made that may become one.
    Stream(Name),
    /// The name is one of something else from now on.
    Forget(Name),
    Close(Name),
    /// All descriptors from one to another are closed.
    CloseAll {
        process: u32,
        from: i32,
        to: i32,
    },
    /// Bytes that no program has seen go from one to another.
    Pour {
        from: Name,
        to: Name,
    },
    /// Something is done with this one.
    Act(Name, Act),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Connect,
    Receive {
        flags: i32,
    },
    Send,
    Shutdown,
    /// The kernel does TLS from now on.
    Encrypt,
    /// Prepares it, or asks about it.
    Touch,
}

/// By what a process, or a ring, knows a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) process: u32,
    /// 0 for its descriptors; for those of a ring's own table, which ring.
    pub(crate) table: u64,
    pub(crate) number: i32,
}

impl Deed {
    /// `None` if it has nothing to do with connections.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match event.operation() {
            Some(operation) => of_operation(event, &operation),
            None => of_call(event),
        }
    }
}

/// What a call does; the numbers are of arguments.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// Returns a connection.
    Accept,
    /// Returns a socket.
    Socket,
    Connect,
    /// Makes a socket one that is connected to.
    Listen,
    /// Returns a descriptor of something else.
    Open,
    /// May move bytes.
    Receive {
        flags: Option<u8>,
    },
    Send,
    /// Moves bytes that no program has seen, and so a body.
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

fn of_call(event: &Event) -> Option<Deed> {
    let (_, role) = ROLES.iter().find(|(number, _)| *number as u32 == event.call)?;
    let own = |number| Name { process: event.process, table: 0, number };
    let name = |which| own(event.descriptor(which));
    let new = event.returned_descriptor().map(own);
    let act = |which, act| Some(Deed::Act(name(which), act));
    match *role {
        Role::Accept => Some(Deed::Accept(new)),
        Role::Socket => {
            let [domain, kind] = [0, 1].map(|which| low(event.arguments[which]));
            Some(of_socket(domain, kind, new?))
        }
        Role::Connect => act(0, Act::Connect),
        Role::Listen => Some(Deed::Forget(name(0))),
        Role::Open => Some(Deed::Forget(new?)),
        Role::Receive { flags } => {
            let flags = flags.map_or(0, |which| event.descriptor(which));
            act(0, Act::Receive { flags })
        }
        Role::Send => act(0, Act::Send),
        Role::Pour { from, to } => Some(Deed::Pour { from: name(from), to: name(to) }),
        Role::Shutdown => act(0, Act::Shutdown),
        Role::Close => Some(Deed::Close(name(0))),
        Role::CloseRange if event.result == 0 && low(event.arguments[2]) & CLOSE_ON_EXEC == 0 => {
            let [from, to] = [0, 1].map(|which| event.descriptor(which).cast_unsigned());
            let within = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
            Some(Deed::CloseAll { process: event.process, from: within(from), to: within(to) })
        }
        Role::CloseRange => None,
        Role::SetOption if event.descriptor(1) == SOL_TLS => act(0, Act::Encrypt),
        Role::SetOption => act(0, Act::Touch),
        Role::Touch(which) => act(which, Act::Touch),
    }
}

/// A stream's socket may become a connection; any other is none.
fn of_socket(domain: i32, kind: i32, new: Name) -> Deed {
    match DOMAINS.contains(&domain) && kind & TYPE_MASK == libc::SOCK_STREAM {
        true => Deed::Stream(new),
        false => Deed::Forget(new),
    }
}

fn of_operation(event: &Event, operation: &Operation) -> Option<Deed> {
    let named = |table, number| Name { process: event.process, table, number };
    let of = |number, is_registered| match is_registered {
        true => named(operation.ring, number),
        false => named(0, number),
    };
    let name = of(operation.descriptor, operation.is_registered);
    // One more than a place of the ring's table, if it is one.
    let place = |place: u32| named(operation.ring, low((place - 1).into()));
    let new = event.returned_descriptor().map(|result| match operation.place {
        0 => named(0, result),
        ANY_PLACE => named(operation.ring, result),
        at => place(at),
    });
    let act = |act| Some(Deed::Act(name, act));
    match operation.opcode {
        opcode::ACCEPT => Some(Deed::Accept(new)),
        opcode::SOCKET => {
            Some(of_socket(operation.descriptor, low(operation.offset), new?)) // as its entry has it
        }
        opcode::CONNECT => act(Act::Connect),
        opcode::LISTEN => Some(Deed::Forget(name)),
        opcode::OPENAT | opcode::OPENAT2 => Some(Deed::Forget(new?)),
        opcode::RECV | opcode::RECVMSG => act(Act::Receive { flags: operation.flags }),
        opcode::READ
        | opcode::READV
        | opcode::READ_FIXED
        | opcode::READV_FIXED
        | opcode::READ_MULTISHOT
        | opcode::RECV_ZC => act(Act::Receive { flags: 0 }),
        opcode::SEND
        | opcode::SENDMSG
        | opcode::SEND_ZC
        | opcode::SENDMSG_ZC
        | opcode::WRITE
        | opcode::WRITEV
        | opcode::WRITE_FIXED
        | opcode::WRITEV_FIXED => act(Act::Send),
        opcode::SPLICE => {
            let from = of(low(operation.place.into()), operation.flags & SPLICE_FIXED != 0);
            Some(Deed::Pour { from, to: name })
        }
        opcode::SHUTDOWN => act(Act::Shutdown),
        opcode::CLOSE if operation.place != 0 => Some(Deed::Close(place(operation.place))),
        opcode::CLOSE => Some(Deed::Close(name)),
        opcode::EPOLL_CTL => Some(Deed::Act(named(0, low(operation.offset)), Act::Touch)),
        opcode::BIND | opcode::POLL_ADD | opcode::URING_CMD => act(Act::Touch),
        _ => None,
    }
}

const ROLES: &[(Sysno, Role)] = &[
    (Sysno::recvfrom, Role::Receive { flags: Some(3) }),
    (Sysno::sendto, Role::Send),
    (Sysno::read, Role::Receive { flags: None }),
    (Sysno::write, Role::Send),
    (Sysno::readv, Role::Receive { flags: None }),
    (Sysno::writev, Role::Send),
    (Sysno::preadv2, Role::Receive { flags: None }),
    (Sysno::pwritev2, Role::Send),
    (Sysno::recvmsg, Role::Receive { flags: Some(2) }),
    (Sysno::sendmsg, Role::Send),
    (Sysno::recvmmsg, Role::Receive { flags: Some(3) }),
    (Sysno::sendmmsg, Role::Send),
    (Sysno::sendfile, Role::Pour { from: 1, to: 0 }),
    (Sysno::splice, Role::Pour { from: 0, to: 2 }),
    (Sysno::accept4, Role::Accept),
    (Sysno::accept, Role::Accept),
    (Sysno::close, Role::Close),
    (Sysno::close_range, Role::CloseRange),
    (Sysno::shutdown, Role::Shutdown),
    (Sysno::socket, Role::Socket),
    (Sysno::connect, Role::Connect),
    (Sysno::listen, Role::Listen),
    (Sysno::bind, Role::Touch(0)),
    (Sysno::epoll_ctl, Role::Touch(2)),
    (Sysno::setsockopt, Role::SetOption),
    (Sysno::getsockopt, Role::Touch(0)),
    (Sysno::getsockname, Role::Touch(0)),
    (Sysno::getpeername, Role::Touch(0)),
    (Sysno::fcntl, Role::Touch(0)),
    (Sysno::ioctl, Role::Touch(0)),
    #[cfg(target_arch = "x86_64")]
    (Sysno::open, Role::Open),
    (Sysno::openat, Role::Open),
    (Sysno::openat2, Role::Open),
    (Sysno::dup, Role::Open),
    #[cfg(target_arch = "x86_64")]
    (Sysno::dup2, Role::Open),
    (Sysno::dup3, Role::Open),
    (Sysno::epoll_create1, Role::Open),
    (Sysno::eventfd2, Role::Open),
    (Sysno::timerfd_create, Role::Open),
];

/// `socket(2)`: what is beside the type are flags.
const TYPE_MASK: i32 = 0xf;
const DOMAINS: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
/// `<linux/socket.h>`.
const SOL_TLS: i32 = 282;
/// `CLOSE_RANGE_CLOEXEC`: nothing is closed yet.
const CLOSE_ON_EXEC: i32 = 4;
/// `SPLICE_F_FD_IN_FIXED`.
const SPLICE_FIXED: i32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    const RING: u64 = 0x9000;

    fn event(call: u32, arguments: [u64; 6], result: i64) -> Event {
        let (start, memory) = (None, Vec::new());
        Event { start, end: 0, process: 1, thread: 2, call, result, arguments, memory }
    }

    fn own(number: i32) -> Name {
        Name { process: 1, table: 0, number }
    }

    fn registered(number: i32) -> Name {
        Name { process: 1, table: RING, number }
    }

    /// What is done by an operation with this descriptor, this offset, this place, and these flags of
    /// its entry and of its own.
    fn done(opcode: u32, fields: [u64; 5], result: i64) -> Option<Deed> {
        let [descriptor, offset, place, entry_flags, flags] = fields;
        let arguments = [descriptor, 0x50, flags << 32, offset, entry_flags << 32 | place, RING];
        Deed::of(&event(1_024 + opcode, arguments, result))
    }

    #[test]
    fn operations_do_what_calls_do() {
        let stream = u64::from(libc::SOCK_STREAM.cast_unsigned());
        let any = u64::from(ANY_PLACE);
        let cases: &[(u32, [u64; 5], i64, Option<Deed>)] = &[
            (opcode::ACCEPT, [3, 0, 0, 0, 0], 7, Some(Deed::Accept(Some(own(7))))),
            (opcode::ACCEPT, [3, 0, 0, 0, 0], -11, Some(Deed::Accept(None))),
            (opcode::ACCEPT, [3, 0, any, 0, 0], 5, Some(Deed::Accept(Some(registered(5))))),
            (opcode::ACCEPT, [3, 0, 6, 0, 0], 0, Some(Deed::Accept(Some(registered(5))))),
            (opcode::SOCKET, [2, stream, 0, 0, 0], 7, Some(Deed::Stream(own(7)))),
            (opcode::SOCKET, [2, stream, any, 0, 0], 4, Some(Deed::Stream(registered(4)))),
            (opcode::SOCKET, [2, 2, 0, 0, 0], 7, Some(Deed::Forget(own(7)))),
            (opcode::SOCKET, [2, stream, 0, 0, 0], -24, None),
            (opcode::CONNECT, [7, 0, 0, 0, 0], 0, Some(Deed::Act(own(7), Act::Connect))),
            (opcode::RECV, [7, 0, 0, 0, 2], 9, Some(Deed::Act(own(7), Act::Receive { flags: 2 }))),
            (opcode::READ, [5, 0, 0, 1, 0], 9, {
                Some(Deed::Act(registered(5), Act::Receive { flags: 0 }))
            }),
            (opcode::SEND_ZC, [7, 0, 0, 0, 0], 9, Some(Deed::Act(own(7), Act::Send))),
            (opcode::SPLICE, [7, 0, 8, 0, 0], 9, { Some(Deed::Pour { from: own(8), to: own(7) }) }),
            (opcode::SPLICE, [7, 0, 8, 0, 1 << 31], 9, {
                Some(Deed::Pour { from: registered(8), to: own(7) })
            }),
            (opcode::SHUTDOWN, [7, 0, 0, 0, 0], 0, Some(Deed::Act(own(7), Act::Shutdown))),
            (opcode::CLOSE, [7, 0, 0, 0, 0], 0, Some(Deed::Close(own(7)))),
            (opcode::CLOSE, [0, 0, 6, 0, 0], 0, Some(Deed::Close(registered(5)))),
            (opcode::EPOLL_CTL, [4, 7, 0, 0, 0], 0, Some(Deed::Act(own(7), Act::Touch))),
            (opcode::OPENAT, [0, 0, 0, 0, 0], 8, Some(Deed::Forget(own(8)))),
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
            Deed::of(&event(call, [from, to, flags, 0, 0, 0], result))
        };
        let all = |from, to| Some(Deed::CloseAll { process: 1, from, to });
        assert_eq!(close(5, 9, 0, 0), all(5, 9));
        assert_eq!(close(3, u64::from(u32::MAX), 0, 0), all(3, i32::MAX));
        assert_eq!((close(3, 9, 4, 0), close(9, 3, 0, -22)), (None, None));
    }

    #[test]
    fn an_option_of_tls_leaves_it_to_the_kernel() {
        let set = |level| Deed::of(&event(Sysno::setsockopt as u32, [7, level, 1, 0, 0, 0], 0));
        assert_eq!(set(282), Some(Deed::Act(own(7), Act::Encrypt)));
        assert_eq!(set(6), Some(Deed::Act(own(7), Act::Touch)));
    }
}
