//! Servers of a backend: load balancing, and queues for free slots.

mod pickers;
mod places;
