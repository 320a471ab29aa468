//! Servers of a backend: which one is chosen, and the queue for a free place.

mod pickers;
mod places;
