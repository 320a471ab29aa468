//! Drivers: from an engine to the kernel, in our own loop or in the application's.
//!
//! A [`Reactor`] owns descriptors and turns readiness into an engine's inputs and its actions into
//! system calls. Who waits for the descriptors is its [`Selector`]: [`Epoll`] waits for itself, and
//! [`Poll`] where there is no epoll; [`Changes`] tells the application's loop what to wait for. It
//! knows [`fulmar_engine::Engine`], and nothing of HTTP.
//!
//! The feature `testing` is for the tests of this workspace: loops that do less at a time than they
//! could, rings that fail, and the calls of other platforms.
#![forbid(unsafe_code)]

pub mod selector;

mod listener;
mod socket;

pub mod reactor;

mod accept;
mod connect;
mod driver;
mod executor;
mod load;
mod passing;
mod pipe;
#[cfg(feature = "testing")]
mod portions;
mod quiet;
mod receive;
mod spin;
mod splice;
mod steps;
mod throttle;
mod transmit;

mod watch;

mod any_selector;
pub mod application;
mod changes;
mod epoll;
mod poll;
mod waker;

pub use any_selector::AnySelector;
pub use application::Ending;
pub use changes::{Change, Changes};
pub use driver::{Driver, DriverInfo, LoopOptions};
pub use epoll::Epoll;
pub use fulmar_sys::Ring;
pub use listener::{ListenOptions, UnixListenOptions, listen, listen_unix};
pub use poll::Poll;
#[cfg(feature = "testing")]
pub use portions::Portions;
pub use reactor::{Reactor, Stats};
pub use selector::{Interest, Ready, Selector, Tag, Tail, Until, Waiter};
pub use spin::Spin;
pub use waker::Waker;
pub use watch::{Answer, Resolver, Watch};
