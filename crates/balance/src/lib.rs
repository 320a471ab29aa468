//! Servers of a backend: which one is next, who is up, who waits.
//!
//! Pure: no sockets and no clock. What threads share is atomic ([`Group`], [`Member`]); what
//! belongs to one thread, as the place in a rotation, is not shared ([`Picker`]).
#![forbid(unsafe_code)]

mod group;
mod member;
mod picker;

pub use group::Group;
pub use member::{Admin, Health, Member, Settings};
pub use picker::{Picker, Rule};
