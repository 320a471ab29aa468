//! What HAProxy makes of a configuration, and we: put to both.

mod agreement;
mod balancing;
mod hellos;
mod rules;
mod samples;
