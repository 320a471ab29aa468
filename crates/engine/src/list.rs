//! Doubly linked lists of indices: inserting, removing from anywhere, and taking from either end
//! take constant time and no memory of their own.

/// The links of several lists. An index is in at most one list of a pool.
#[derive(Debug, Default)]
pub struct ListPool {
    nodes: Vec<ListNode>,
}

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub struct IndexList {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct ListNode {
    before: u32,
    after: u32,
    linked: bool,
}

impl Default for IndexList {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl IndexList {
    /// The index at the front.
    pub fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// The index at the back.
    pub fn last(self) -> Option<u32> {
        (self.last != NONE).then_some(self.last)
    }
}

impl ListPool {
    /// Inserts `at`, which is in no list, at the front.
    pub fn push_front(&mut self, list: &mut IndexList, at: u32) {
        *self.node(at) = ListNode { before: NONE, after: list.first, linked: true };
        match list.first() {
            Some(first) => self.nodes[first as usize].before = at,
            None => list.last = at,
        }
        list.first = at;
    }

    /// Inserts `at`, which is in no list, at the back.
    pub fn push_back(&mut self, list: &mut IndexList, at: u32) {
        *self.node(at) = ListNode { before: list.last, after: NONE, linked: true };
        match list.last() {
            Some(last) => self.nodes[last as usize].after = at,
            None => list.first = at,
        }
        list.last = at;
    }

    /// True if `at` is in a list.
    pub fn contains(&self, at: u32) -> bool {
        self.nodes.get(at as usize).is_some_and(|node| node.linked)
    }

    /// The indices of `list`, from its front.
    pub fn iter(&self, list: IndexList) -> impl Iterator<Item = u32> {
        let after = |at: &u32| {
            let after = self.nodes[*at as usize].after;
            (after != NONE).then_some(after)
        };
        std::iter::successors(list.first(), after)
    }

    /// Removes `at` from `list`, if it is there; true if it was.
    pub fn remove(&mut self, list: &mut IndexList, at: u32) -> bool {
        let node = *self.node(at);
        if !node.linked {
            return false;
        }
        match node.before {
            NONE => list.first = node.after,
            before => self.nodes[before as usize].after = node.after,
        }
        match node.after {
            NONE => list.last = node.before,
            after => self.nodes[after as usize].before = node.before,
        }
        self.nodes[at as usize] = FREE;
        true
    }

    fn node(&mut self, at: u32) -> &mut ListNode {
        let at = at as usize;
        if self.nodes.len() <= at {
            if self.nodes.capacity() == 0 {
                self.nodes.reserve_exact(at + 1); // pools of one index are many
            }
            self.nodes.resize(at + 1, FREE);
        }
        &mut self.nodes[at]
    }
}

const NONE: u32 = u32::MAX;
const FREE: ListNode = ListNode { before: NONE, after: NONE, linked: false };

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Compares with a `VecDeque`.
    #[test]
    fn a_list_is_a_deque_with_removal_from_anywhere() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut table, mut list) = (ListPool::default(), IndexList::default());
        let mut model: VecDeque<u32> = VecDeque::new();
        for _ in 0..20_000 {
            let at = random.u32(0..12);
            let is_listed = model.contains(&at);
            match random.u32(0..3) {
                0 if !is_listed => {
                    table.push_front(&mut list, at);
                    model.push_front(at);
                }
                1 if !is_listed => {
                    table.push_back(&mut list, at);
                    model.push_back(at);
                }
                _ => {
                    assert_eq!(table.remove(&mut list, at), is_listed);
                    model.retain(|place| *place != at);
                }
            }
            assert_eq!(table.contains(at), model.contains(&at));
            assert!(table.iter(list).eq(model.iter().copied()));
            assert_eq!(list.first(), model.front().copied());
            assert_eq!(list.last(), model.back().copied());
        }
    }
}
