//! Listening sockets: their options, and how many connections to accept at once.

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
    /// Several listeners share the port, also those of other processes of the user
    /// (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// A connection is reported when its first bytes have arrived, or after a second without any
    /// (`TCP_DEFER_ACCEPT`, where it exists): for protocols in which the client sends first. It
    /// saves a wait and the `epoll_ctl` of a short connection.
    pub defer_accept: bool,
    /// Whether a socket for IPv6 refuses IPv4; `None`: the system's default.
    pub v6_only: Option<bool>,
    /// The network interface on which connections must arrive.
    pub interface: Option<Box<str>>,
    /// Probes on silent connections. Accepted sockets inherit them, as all that follows.
    pub keep_alive: Option<KeepAlive>,
    /// Connections fail when bytes have not been acknowledged for so long (`TCP_USER_TIMEOUT`).
    pub user_timeout: Option<Duration>,
    /// The largest segment that is announced to peers (`TCP_MAXSEG`).
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

/// Listens on `address`. Accepted sockets inherit `TCP_NODELAY`, so no connection needs a call for
/// it.
///
/// Returns the socket and its address (port 0 requests a free one).
///
/// # Errors
/// Those of the kernel: `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`.
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

/// Sets the options that connections inherit, so that none of them needs a call.
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

/// An option that only saves calls may be unsupported.
pub(crate) fn optional(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        result => result,
    }
}

/// How to listen on a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixListenOptions {
    /// Connections that may wait to be accepted; further ones fail with `EAGAIN`.
    pub backlog: u16,
    /// The permissions of the file: write permission allows to connect. They are never wider, not
    /// even while the file is created. An abstract name has none: any user may connect. `None`:
    /// all permissions without those of the umask.
    pub permissions: Option<u32>,
}

impl Default for UnixListenOptions {
    fn default() -> Self {
        Self { backlog: 4_096, permissions: Some(0o600) }
    }
}

/// Listens on the Unix socket `path`; after an `@`, on a name in the abstract namespace.
///
/// A socket's file outlives its listener. A file without a listener is replaced; the caller removes
/// it at the end.
///
/// # Errors
/// `AddrInUse` if the path has a listener already, `AlreadyExists` if the file is no socket,
/// `InvalidInput` if the path is longer than 107 bytes; otherwise those of the kernel.
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
        sys::chmod(path, permissions)?; // the umask may have removed some
    }
    sys::listen(socket.as_fd(), options.backlog)?;
    Ok(socket)
}

/// Removes the file of a socket without a listener; otherwise returns `in_use`.
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
    /// Descriptors ran out: the end of its pause, so that its level-triggered event does not
    /// repeat.
    pub(crate) paused_until: Option<Instant>,
    pub(crate) reports_local: bool, // costs a call per connection
    pub(crate) watching: bool,
    pub(crate) prediction: Prediction,
    pub(crate) batch: AcceptBatch,
}

impl Listener {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let (prediction, batch) = (Prediction::default(), AcceptBatch::default());
        Self {
            fd,
            wanted: true,
            paused_until: None,
            reports_local: false,
            watching: true,
            prediction,
            batch,
        }
    }

    /// The number of connections to accept now: see [`AcceptBatch`].
    pub(crate) fn expect(&mut self) -> u16 {
        let Self { fd, batch, .. } = self;
        batch.estimate(|| Some(sys::waiting(fd.as_fd()).ok()?.try_into().unwrap_or(u16::MAX)))
    }
}

/// Predicts whether the first bytes of an accepted connection have arrived already, or whether a
/// connect is complete at once.
///
/// If so, receiving at once saves a turn and often the `epoll_ctl`; if not, it costs an EAGAIN. The
/// number of wrong guesses is bounded per number of connections, and right ones are free. Many
/// connections are accepted before the first one is received from, so after a wrong guess there is
/// only one guess per turn.
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
pub(crate) enum AcceptBatch {
    /// The kernel returns how many connections wait. It is queried in every turn while several do,
    /// and rarely otherwise. So all are accepted in one list, and no accept is in vain, unless
    /// other threads or processes accept from the same socket faster.
    Counted {
        /// The number of counts in a row that did not pay off.
        low: u8,
        /// Since the last count.
        accepted: u16,
    },
    /// Where the number is not available: the size grows by one after [`GUESS_EVERY`] accepts. If
    /// fewer connections were found, the size becomes their number, because each EAGAIN costs as
    /// much as was gained.
    Guessed {
        size: u16,
        /// Since it changed.
        accepted: u16,
    },
}

impl Default for AcceptBatch {
    fn default() -> Self {
        Self::Counted { low: LOW_MAX, accepted: 0 }
    }
}

impl AcceptBatch {
    const GUESS: Self = Self::Guessed { size: 1, accepted: 0 };

    /// How many accepts to try. 0 if the count is 0, which happens only if other processes or
    /// threads accept from the same socket. `waiting` counts, if that is possible.
    fn estimate(&mut self, waiting: impl FnOnce() -> Option<u16>) -> u16 {
        let low = match *self {
            Self::Guessed { size, .. } => {
                assert!((1..=BATCH_SIZE_MAX).contains(&size), "a guess is within its bounds");
                return size;
            }
            Self::Counted { low: LOW_MAX, accepted } if accepted < COUNT_EVERY => return 1,
            Self::Counted { low, .. } => low,
        };
        let Some(count) = waiting() else {
            *self = Self::GUESS;
            return 1;
        };
        *self = Self::Counted { low: LOW_MAX.min(low + 1), accepted: 0 }; // it has not paid off yet
        count.min(BATCH_SIZE_MAX)
    }

    /// All accepts were successful; there may be more connections.
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
                if *accepted >= GUESS_EVERY && *size < BATCH_SIZE_MAX {
                    (*size, *accepted) = (*size + 1, 0);
                }
            }
        }
    }

    /// Only `arrived` connections were found. If they were counted, another process or thread
    /// accepts there too. The accept in vain has cost a call, so the count needs one more to pay
    /// off.
    pub(crate) fn handle_end(&mut self, arrived: u16) {
        match self {
            Self::Counted { .. } => self.handle_all(arrived.saturating_sub(1)),
            Self::Guessed { .. } => *self = Self::Guessed { size: arrived.max(1), accepted: 0 },
        }
    }
}

/// One guess that may cost an EAGAIN per this number of connections: two kinds of guesses together
/// stay below one in a hundred.
const GUESS_EVERY: u16 = 256;
/// Wrong guesses in a row before that.
const SPARE_MAX: i32 = 2 * GUESS_EVERY as i32;
/// A burst of new connections does not delay the existing ones.
const BATCH_SIZE_MAX: u16 = 64;
/// With few connections at a time, one count per this number of accepts: less than a hundredth of
/// their cost.
const COUNT_EVERY: u16 = 64;
/// A count is a call. It pays off with this number of connections: all but one of their waits are
/// saved.
const COUNT_MIN: u16 = 4;
/// This number of counts in a row may be low: together they cost no more than the one before saved.
const LOW_MAX: u8 = 3;
/// The pause of a listener after descriptors ran out.
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
        let mut batch = AcceptBatch::default();
        let mut next = |waiting| {
            let mut counts = 0;
            let tried = batch.estimate(|| {
                counts += 1;
                Some(waiting)
            });
            batch.handle_all(tried);
            (tried, counts)
        };
        for alone in [COUNT_EVERY, COUNT_EVERY - 2] {
            (0..alone).for_each(|_| assert_eq!(next(50), (1, 0), "nobody knows yet"));
            for waiting in [50, 3, 20, 1, 2, 64, 1_000, 4, 3, 1, 2] {
                assert_eq!(next(waiting), (waiting.min(BATCH_SIZE_MAX), 1));
            }
        }
    }

    #[test]
    fn a_crowd_that_is_guessed_is_accepted_at_once_and_a_lull_costs_little() {
        let mut batch = AcceptBatch::GUESS;
        let (mut accepted, mut ends) = (0_u32, 0);
        for turn in 0..60_000_u16 {
            let waiting = if turn / 10_000 % 2 == 0 { 1 } else { 5 + turn % 40 };
            let tried = batch.estimate(|| panic!("nobody asks"));
            let arrived = tried.min(waiting);
            accepted += u32::from(arrived);
            ends += tried - arrived; // where a ring tries all of them
            match arrived < tried {
                true => batch.handle_end(arrived),
                false => batch.handle_all(arrived),
            }
        }
        assert!(u32::from(ends) * 256 <= accepted, "{ends} EAGAIN for {accepted}");
        assert!(accepted > 150_000, "{accepted}");
    }

    #[test]
    fn without_a_count_the_size_is_guessed() {
        let mut unix = AcceptBatch::Counted { low: 0, accepted: 0 };
        assert_eq!((unix.estimate(|| None), unix), (1, AcceptBatch::GUESS));
    }

    /// One loop of several, in a turn.
    struct Sharer {
        batch: AcceptBatch,
        size: u16,
        arrived: u16,
        ended: bool,
    }

    impl Sharer {
        /// Its calls: an accept if it expects one more connection, in vain if none is left.
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

    /// Calls of loops that share a socket, at which `batch` connections arrive, `times` times. All
    /// loops are notified, count at the same time, and accept in turns. The second number is the
    /// calls if each accepts one in a turn.
    fn calls(sharers: u16, batch: u16, times: u32) -> (u32, u32) {
        let new = |_| Sharer { batch: AcceptBatch::default(), size: 0, arrived: 0, ended: false };
        let mut loops: Vec<_> = (0..sharers).map(new).collect();
        let mut calls = 0;
        for _ in 0..times {
            let mut waiting = batch;
            while waiting > 0 {
                calls += u32::from(sharers); // waits
                for it in &mut loops {
                    it.size = it.batch.estimate(|| {
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
                    true => it.batch.handle_end(it.arrived),
                    false => it.batch.handle_all(it.arrived),
                });
            }
        }
        // A wait and an accept, the last ones of which may be in vain.
        (calls, times * u32::from(batch.div_ceil(sharers)) * 2 * u32::from(sharers))
    }

    #[test]
    fn who_shares_a_socket_counts_as_long_as_it_pays() {
        for sharers in [2, 3, 8] {
            for batch in [1, 2, 5, 10, 30] {
                let (calls, one_by_one) = calls(sharers, batch, 1_000);
                assert!(
                    calls * 100 <= one_by_one * 102,
                    "{sharers}, {batch}: {calls} {one_by_one}"
                );
            }
            let (calls, one_by_one) = calls(sharers, 64, 1_000);
            assert!(calls * 100 <= one_by_one * 80, "{sharers}: {calls} {one_by_one}");
        }
    }

    #[test]
    fn nobody_is_looked_for_where_others_were_faster() {
        let mut batch = AcceptBatch::Counted { low: 0, accepted: 0 };
        assert_eq!(batch.estimate(|| Some(0)), 0);
        batch.handle_all(0);
        assert_eq!(batch, AcceptBatch::Counted { low: 1, accepted: 0 });
    }
}
