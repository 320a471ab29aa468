//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use fulmar_engine::KeepAlive;
use fulmar_sys as sys;

use crate::connect::{millis, set_keep_alive};

/// How to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u16,
    /// Several listeners share the port, one a thread (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// A connection is told when its first bytes are there, or after a second without any
    /// (`TCP_DEFER_ACCEPT`, where there is such an option): for protocols in which the client
    /// speaks first. It saves a wait and the `epoll_ctl` of a short connection.
    pub defer_accept: bool,
    /// Whether IPv4 stays away from an address of IPv6; `None`: as the system has it.
    pub v6_only: Option<bool>,
    /// The network interface that connections have to come in by.
    pub interface: Option<Box<str>>,
    /// Probes on silent connections; what is accepted inherits them, as all that follows.
    pub keep_alive: Option<KeepAlive>,
    /// Connections fail when bytes have not been acknowledged for so long (`TCP_USER_TIMEOUT`).
    pub user_timeout: Option<Duration>,
    /// The largest segment that peers are told of (`TCP_MAXSEG`).
    pub segment_size_max: Option<u16>,
    /// Bytes may come with the first packet (`TCP_FASTOPEN`, RFC 7413).
    pub fast_open: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 16_384,
            reuse_port: false,
            defer_accept: false,
            v6_only: None,
            interface: None,
            keep_alive: None,
            user_timeout: None,
            segment_size_max: None,
            fast_open: false,
        }
    }
}

/// Listens on `address`; what is accepted inherits `TCP_NODELAY`, so no connection pays for it.
///
/// Returns the socket and the address it got (port 0 asks for a free one).
///
/// # Errors
/// As the kernel says: `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`.
pub fn listen(address: SocketAddr, options: ListenOptions) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = sys::tcp_socket(address)?;
    sys::set_reuse_address(socket.as_fd())?;
    if options.reuse_port {
        sys::set_reuse_port(socket.as_fd())?;
    }
    if options.defer_accept {
        optional(sys::set_defer_accept(socket.as_fd(), 1))?;
    }
    if let Some(only) = options.v6_only.filter(|_| address.is_ipv6()) {
        sys::set_v6_only(socket.as_fd(), only)?;
    }
    if let Some(interface) = &options.interface {
        sys::set_interface(socket.as_fd(), interface)?;
    }
    set_inherited(socket.as_fd(), &options)?;
    sys::bind(socket.as_fd(), address)?;
    sys::listen(socket.as_fd(), options.backlog)?;
    let address = sys::local_address(socket.as_fd())?;
    Ok((socket, address))
}

/// What connections have from their listener, so that none of them pays for it.
fn set_inherited(socket: BorrowedFd<'_>, options: &ListenOptions) -> io::Result<()> {
    sys::set_nodelay(socket)?;
    if let Some(keep_alive) = options.keep_alive {
        set_keep_alive(socket, keep_alive)?;
    }
    if let Some(limit) = options.user_timeout {
        optional(sys::set_user_timeout(socket, millis(limit)))?;
    }
    if let Some(size) = options.segment_size_max {
        optional(sys::set_segment_size_max(socket, size))?;
    }
    if options.fast_open {
        optional(sys::set_fast_open(socket, options.backlog))?;
    }
    Ok(())
}

/// What only saves calls is done where it can be.
pub(crate) fn optional(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        result => result,
    }
}

/// How to listen on a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixListenOptions {
    /// Connections that may wait to be accepted; more are told to try again.
    pub backlog: u16,
    /// Who may connect: those who may write to the file. At no moment does it allow more; it
    /// means nothing for an abstract name, to which everybody may connect. `None`: as of every file
    /// that we make, what the umask leaves of all.
    pub permissions: Option<u32>,
}

impl Default for UnixListenOptions {
    fn default() -> Self {
        Self { backlog: 4_096, permissions: Some(0o600) }
    }
}

/// Listens on the Unix socket `path`; after an `@`, on a name in the abstract namespace.
///
/// A socket's file outlives its listener. One that nobody answers on any more is replaced; who
/// wants it gone at the end removes it.
///
/// # Errors
/// `AddrInUse` if somebody listens there already, `AlreadyExists` if the file is no socket,
/// `InvalidInput` if the path is longer than 107 bytes; otherwise as the kernel says.
pub fn listen_unix(path: &Path, options: UnixListenOptions) -> io::Result<OwnedFd> {
    let socket = sys::unix_socket()?;
    let is_file = !path.as_os_str().as_encoded_bytes().starts_with(b"@");
    let permissions = options.permissions.filter(|_| is_file);
    if let Some(permissions) = permissions {
        sys::fchmod(socket.as_fd(), permissions)?;
    }
    match sys::bind_unix(socket.as_fd(), path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_file => {
            remove_stale(path, error)?;
            sys::bind_unix(socket.as_fd(), path)?;
        }
        result => result?,
    }
    if let Some(permissions) = permissions {
        sys::chmod(path, permissions)?; // what the umask took away
    }
    sys::listen(socket.as_fd(), options.backlog)?;
    Ok(socket)
}

/// Removes the file of a socket that nobody listens on: `in_use` otherwise.
fn remove_stale(path: &Path, in_use: io::Error) -> io::Result<()> {
    if !sys::is_socket(path)? {
        let text = format!("{}: there is a file of this name, and it is no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    let probe = sys::unix_socket()?;
    match sys::connect_unix(probe.as_fd(), path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => sys::unlink(path),
        _ => Err(in_use),
    }
}

/// A listening socket of the reactor.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    /// The engine wants connections from it.
    pub(crate) wanted: bool,
    /// Descriptors ran out: it rests until then, so that its level-triggered event does not spin.
    pub(crate) resting: Option<Instant>,
    pub(crate) reports_local: bool, // costs a call per connection
    pub(crate) watching: bool,
    pub(crate) prediction: Prediction,
    pub(crate) crowd: Crowd,
}

impl Listener {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let (prediction, crowd) = (Prediction::default(), Crowd::default());
        Self {
            fd,
            wanted: true,
            resting: None,
            reports_local: false,
            watching: true,
            prediction,
            crowd,
        }
    }

    /// How many to accept now: see [`Crowd`].
    pub(crate) fn expect(&mut self) -> u16 {
        let Self { fd, crowd, .. } = self;
        crowd.estimate(|| Some(sys::waiting(fd.as_fd()).ok()?.try_into().unwrap_or(u16::MAX)))
    }
}

/// Whether the first bytes of what is accepted are likely to be there already, or what is connected
/// to stand.
///
/// If they are, receiving at once saves a turn and often the `epoll_ctl`; if not, it costs an
/// EAGAIN. So there is a guess to spare for so many connections, and only wrong ones are spent. Many
/// are accepted before the first is received from: after a wrong guess, the next one stands alone in
/// its turn.
#[derive(Debug)]
pub(crate) struct Prediction {
    spare: i32,
    is_doubted: bool,
    /// There was a guess in this turn.
    guessed: bool,
}

impl Default for Prediction {
    fn default() -> Self {
        Self { spare: SPARE_MAX, is_doubted: false, guessed: false }
    }
}

impl Prediction {
    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.guessed = false;
    }

    pub(crate) fn is_ready(&mut self) -> bool {
        self.spare = (self.spare + 1).min(SPARE_MAX);
        let guess = self.spare >= GUESS_EVERY.into() && !(self.is_doubted && self.guessed);
        self.guessed |= guess;
        guess
    }

    pub(crate) fn learn(&mut self, ready: bool) {
        self.is_doubted = !ready;
        if !ready {
            self.spare -= i32::from(GUESS_EVERY);
        }
    }
}

/// How many connections to accept for one event of a level-triggered listener.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// The listener is asked how many wait: in every turn as long as there are some, and once in a
    /// while otherwise. So all are accepted, in one list, and nobody is looked for in vain, unless
    /// others who accept there too were faster.
    Counted {
        /// So many counts in a row have not paid, or more.
        low: u8,
        /// Since the last count.
        accepted: u16,
    },
    /// Where that cannot be asked: one more is tried once in so many accepts. If there was one less,
    /// no more than there were are tried from then on: what has been gained is lost with each EAGAIN,
    /// so there are not more of these than trials.
    Guessed {
        size: u16,
        /// Since it changed.
        accepted: u16,
    },
}

impl Default for Crowd {
    fn default() -> Self {
        Self::Counted { low: LOW_MAX, accepted: 0 }
    }
}

impl Crowd {
    const GUESS: Self = Self::Guessed { size: 1, accepted: 0 };

    /// How many to try; none if they are counted and all are gone, which only happens where others
    /// accept, too. `waiting` counts them, if that can be done.
    fn estimate(&mut self, waiting: impl FnOnce() -> Option<u16>) -> u16 {
        let low = match *self {
            Self::Guessed { size, .. } => {
                assert!((1..=CROWD_SIZE_MAX).contains(&size), "a guess is within its bounds");
                return size;
            }
            Self::Counted { low: LOW_MAX, accepted } if accepted < COUNT_EVERY => return 1,
            Self::Counted { low, .. } => low,
        };
        let Some(count) = waiting() else {
            *self = Self::GUESS;
            return 1;
        };
        *self = Self::Counted { low: LOW_MAX.min(low + 1), accepted: 0 }; // it has to pay yet
        count.min(CROWD_SIZE_MAX)
    }

    /// All of those who were tried have arrived, so many, and perhaps there are more.
    pub(crate) fn handle_all(&mut self, arrived: u16) {
        match self {
            Self::Counted { low, accepted } => {
                *accepted = accepted.saturating_add(arrived);
                if arrived >= COUNT_MIN {
                    *low = 0;
                }
            }
            Self::Guessed { size, accepted } => {
                *accepted = accepted.saturating_add(arrived);
                if *accepted >= GUESS_EVERY && *size < CROWD_SIZE_MAX {
                    (*size, *accepted) = (*size + 1, 0);
                }
            }
        }
    }

    /// There were only so many. If they were counted, others accept there too: then it has to be one
    /// more for the count to pay, as this has cost a call as well.
    pub(crate) fn handle_end(&mut self, arrived: u16) {
        match self {
            Self::Counted { .. } => self.handle_all(arrived.saturating_sub(1)),
            Self::Guessed { .. } => *self = Self::Guessed { size: arrived.max(1), accepted: 0 },
        }
    }
}

/// A guess that may cost an EAGAIN is made for one connection in so many: two kinds of them
/// together stay below one in a hundred.
const GUESS_EVERY: u16 = 256;
/// Wrong guesses in a row before that.
const SPARE_MAX: i32 = 2 * GUESS_EVERY as i32;
/// A burst of connections does not keep those that stand from their turn.
const CROWD_SIZE_MAX: u16 = 64;
/// Where few come at a time they are counted once for so many, which is less than a hundredth of
/// what they cost.
const COUNT_EVERY: u16 = 64;
/// A count is a call. With so many who wait it is worth it: all but one of their waits are saved.
const COUNT_MIN: u16 = 4;
/// So many counts in a row may be low: together they are no more than what the one before has saved.
const LOW_MAX: u8 = 3;
/// How long a listener rests when descriptors have run out.
pub(crate) const REST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// Wrong guesses over so many connections, of which one in `ready_every` is ready at once.
    fn misses(connections: u32, ready_every: u32) -> u32 {
        let mut prediction = Prediction::default();
        let guesses = (1..=connections).filter(|number| {
            let is_ready = number.is_multiple_of(ready_every);
            prediction.begin();
            let guessed = prediction.is_ready();
            if guessed {
                prediction.learn(is_ready);
            }
            guessed && !is_ready
        });
        guesses.count().try_into().unwrap()
    }

    #[test]
    fn wrong_guesses_are_few_however_clients_behave() {
        assert_eq!(misses(10_000, 1), 0);
        for ready_every in [2, 3, 1_000, 100_000] {
            let misses = misses(10_000, ready_every);
            assert!((2..=2 + 10_000 / 256).contains(&misses), "{misses} with {ready_every}");
        }
    }

    #[test]
    fn wrong_guesses_are_few_in_lists_too() {
        let mut prediction = Prediction::default();
        let (mut accepted, mut wrong) = (0, 0);
        for turn in 0..3_000 {
            prediction.begin();
            let guesses = (0..64).filter(|_| prediction.is_ready()).count();
            let is_ready = turn / 1_000 == 1;
            (0..guesses).for_each(|_| prediction.learn(is_ready));
            if turn == 1_999 {
                assert_eq!(guesses, 64, "all of them, once they can be trusted");
            }
            accepted += 64;
            wrong += if is_ready { 0 } else { guesses };
        }
        assert!(wrong <= 2 * 64 + accepted / 256, "{wrong} of {accepted}");
    }

    #[test]
    fn a_crowd_is_counted_as_long_as_there_is_one() {
        let mut crowd = Crowd::default();
        let mut next = |waiting| {
            let mut counts = 0;
            let tried = crowd.estimate(|| {
                counts += 1;
                Some(waiting)
            });
            crowd.handle_all(tried);
            (tried, counts)
        };
        for alone in [COUNT_EVERY, COUNT_EVERY - 2] {
            (0..alone).for_each(|_| assert_eq!(next(50), (1, 0), "nobody knows yet"));
            for waiting in [50, 3, 20, 1, 2, 64, 1_000, 4, 3, 1, 2] {
                assert_eq!(next(waiting), (waiting.min(CROWD_SIZE_MAX), 1));
            }
        }
    }

    #[test]
    fn a_crowd_that_is_guessed_is_accepted_at_once_and_a_lull_costs_little() {
        let mut crowd = Crowd::GUESS;
        let (mut accepted, mut ends) = (0_u32, 0);
        for turn in 0..60_000_u16 {
            let waiting = if turn / 10_000 % 2 == 0 { 1 } else { 5 + turn % 40 };
            let tried = crowd.estimate(|| panic!("nobody asks"));
            let arrived = tried.min(waiting);
            accepted += u32::from(arrived);
            ends += tried - arrived; // where a ring tries all of them
            match arrived < tried {
                true => crowd.handle_end(arrived),
                false => crowd.handle_all(arrived),
            }
        }
        assert!(u32::from(ends) * 256 <= accepted, "{ends} EAGAIN for {accepted}");
        assert!(accepted > 150_000, "{accepted}");
    }

    #[test]
    fn who_cannot_be_counted_is_guessed() {
        let mut unix = Crowd::Counted { low: 0, accepted: 0 };
        assert_eq!((unix.estimate(|| None), unix), (1, Crowd::GUESS));
    }

    /// One loop of several, in a turn.
    struct Sharer {
        crowd: Crowd,
        size: u16,
        arrived: u16,
        ended: bool,
    }

    impl Sharer {
        /// Its calls: an accept if it wants one more, which finds nobody if all are gone.
        fn accept(&mut self, waiting: &mut u16) -> u32 {
            let tries = self.arrived < self.size && !self.ended;
            if tries {
                self.ended = *waiting == 0;
                self.arrived += u16::from(!self.ended);
                *waiting = waiting.saturating_sub(1);
            }
            tries.into()
        }
    }

    /// Calls of loops that share a socket, at which a crowd comes so many times: all of them hear of
    /// it, count at the same moment, and accept in turns. And how many there are if each accepts one
    /// in a turn.
    fn calls(sharers: u16, crowd: u16, times: u32) -> (u32, u32) {
        let new = |_| Sharer { crowd: Crowd::default(), size: 0, arrived: 0, ended: false };
        let mut loops: Vec<_> = (0..sharers).map(new).collect();
        let mut calls = 0;
        for _ in 0..times {
            let mut waiting = crowd;
            while waiting > 0 {
                calls += u32::from(sharers); // waits
                for it in &mut loops {
                    it.size = it.crowd.estimate(|| {
                        calls += 1;
                        Some(waiting)
                    });
                    (it.arrived, it.ended) = (0, false);
                }
                loop {
                    let tried: u32 = loops.iter_mut().map(|it| it.accept(&mut waiting)).sum();
                    calls += tried;
                    if tried == 0 {
                        break;
                    }
                }
                loops.iter_mut().for_each(|it| match it.ended {
                    true => it.crowd.handle_end(it.arrived),
                    false => it.crowd.handle_all(it.arrived),
                });
            }
        }
        // A wait and an accept, the last ones of which may be in vain.
        (calls, times * u32::from(crowd.div_ceil(sharers)) * 2 * u32::from(sharers))
    }

    #[test]
    fn who_shares_a_socket_counts_as_long_as_it_pays() {
        for sharers in [2, 3, 8] {
            for crowd in [1, 2, 5, 10, 30] {
                let (calls, one_by_one) = calls(sharers, crowd, 1_000);
                assert!(
                    calls * 100 <= one_by_one * 102,
                    "{sharers}, {crowd}: {calls} {one_by_one}"
                );
            }
            let (calls, one_by_one) = calls(sharers, 64, 1_000);
            assert!(calls * 100 <= one_by_one * 80, "{sharers}: {calls} {one_by_one}");
        }
    }

    #[test]
    fn nobody_is_looked_for_where_others_were_faster() {
        let mut crowd = Crowd::Counted { low: 0, accepted: 0 };
        assert_eq!(crowd.estimate(|| Some(0)), 0);
        crowd.handle_all(0);
        assert_eq!(crowd, Crowd::Counted { low: 1, accepted: 0 });
    }
}
