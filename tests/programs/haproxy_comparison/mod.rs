//! Comparisons with HAProxy: the same configuration in both.

mod agreement;
mod balancing;
mod hellos;
mod rules;
mod samples;
