//! Load balancing: server selection, health, queues.
//!
//! Pure: no sockets and no clock. State shared by threads is atomic ([`Group`], [`Member`]). State
//! of one thread, such as the position in a rotation or the queue, is not shared ([`Picker`],
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
