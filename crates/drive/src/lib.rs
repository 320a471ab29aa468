//! Drivers: from an engine to the kernel, in our own loop or in the application's.
//!
//! A [`Reactor`] owns descriptors and turns readiness into an engine's inputs, and the engine's
//! actions into system calls. Its [`Selector`] waits for the descriptors: [`Epoll`] and [`Poll`]
//! wait themselves, and [`AnySelector`] is the one that a [`Driver`] names; [`ExternalLoop`]
//! reports what to wait for to the application's loop. It uses [`fulmar_engine::Engine`] and has no
//! code for HTTP.
//!
//! The feature `testing` is for the tests of this workspace: loops that do less at a time than they
//! could, rings that fail, and the calls of other platforms.
#![forbid(unsafe_code)]

pub mod selector;

mod listener;
mod socket;

pub mod reactor;
mod turn_memory;

mod accept;
mod connect;
mod driver;
mod executor;
mod load;
mod passing;
mod pipe;
#[cfg(feature = "testing")]
mod portions;
mod receive;
mod registration;
mod spin;
mod splice;
mod steps;
mod throttle;
mod transmit;

mod resolver;

mod any_selector;
pub mod application;
mod epoll;
mod external_loop;
mod hand_over;
mod poll;
mod waker;

pub use any_selector::AnySelector;
pub use application::Ending;
pub use driver::{Driver, DriverInfo, LoopOptions};
pub use epoll::Epoll;
pub use external_loop::{Change, ExternalLoop};
pub use fulmar_engine::{Endpoint, Peer, SocketId};
pub use fulmar_sys::Ring;
pub use hand_over::OutgoingSocket;
pub use listener::{ListenOptions, UnixListenOptions, listen, listen_unix};
pub use poll::Poll;
#[cfg(feature = "testing")]
pub use portions::Portions;
pub use reactor::{Reactor, Stats};
pub use resolver::{Resolution, Resolver, Watch};
pub use selector::{Interest, Ready, Selector, ShortRead, Tag, Until, Waiter};
pub use spin::Spin;
pub use turn_memory::TurnMemory;
pub use waker::Waker;
