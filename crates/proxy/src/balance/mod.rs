//! Servers of a backend: which one is next, who is up, who waits.
//!
//! Pure: no sockets and no clock. What threads share is atomic ([`Group`], [`Member`]); what
//! belongs to one thread, as the place in a rotation or those who wait, is not shared ([`Picker`],
//! [`Queue`]).

mod group;
mod member;

mod picker;
mod table;

pub mod hash;

mod queue;

mod lines;
mod waiting;

mod monitor;

pub use group::{Group, Placement, Policy, Wants};
pub use member::{Admin, Health, Member, Record, Settings, Weight};
pub(crate) use monitor::{Monitor, Outcome, Plan, Reaction, Verdict};
pub use picker::{Picker, Rule};
pub use queue::{Next, Queue, Ticket};
