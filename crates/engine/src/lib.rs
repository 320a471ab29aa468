//! What engines are made of: policy and the clock on top of `proto`, still without I/O.
//!
//! An [`Engine`] is many connections behind one interface, which a driver drives. [`Connections`]
//! owns connections of one kind and turns input into events. [`Slots`] gives them names that can be
//! stale safely. [`Wheel`] stores one deadline for each, however often it moves.
#![forbid(unsafe_code)]

pub mod connections;
pub mod list;
pub mod slots;
pub mod timers;

mod endpoint;
mod engine;
mod resolve;
mod stop;
mod timeouts;

#[cfg(any(test, feature = "sim"))]
pub mod sim;

pub use connections::{ConnectionEvent, Connections, End, Exchange, Handler, InputMemory};
pub use endpoint::{Endpoint, KeepAlive, LocalAddress, Peer};
pub use engine::{
    Accepted, Action, CloseKind, DriverEvent, Engine, Limit, ListenerId, Passage, SocketEvent,
    SocketId,
};
pub use resolve::{LookupId, ResolveError, Resolved};
pub use slots::Slots;
pub use stop::Stop;
pub use timeouts::{Rate, Timeouts, TimeoutsId};
pub use timers::{Tick, TickSpan, Wheel};
