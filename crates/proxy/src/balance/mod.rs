//! Load balancing: server selection, health, queues.
//!
//! Pure: no sockets and no clock. State shared by threads is atomic ([`ServerGroup`], [`Member`]).
//! State of one thread, such as the position in a rotation or the queue, is not shared ([`Picker`],
//! [`WaitQueue`]).

mod group;
mod member;

mod hash_tables;
mod picker;

pub mod hash;

mod queue;

mod wait_queues;
mod waiting;

mod monitor;

pub use group::{GroupPolicy, Placement, ServerGroup, Wants};
pub use member::{Admin, Health, Member, MemberRecord, MemberSettings, Weight};
pub(crate) use monitor::{CheckOutcome, CheckPlan, HealthUpdate, Monitor, Reaction};
pub use picker::{Picker, PickerRule};
pub use queue::{NextWaiting, WaitQueue, WaitTicket};
