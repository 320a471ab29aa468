//! Tables that a hash is looked up in, laid out as HAProxy lays them out.

use crate::group::Group;
use crate::hash::avalanche;
use crate::member::SCALE;

/// `hash-type map-based`, and `static-rr`: each server as often as its weight says, spread.
#[derive(Debug, Default)]
pub(crate) struct Map(Vec<usize>);

impl Map {
    pub(crate) fn new(group: &Group) -> Self {
        let servers: Vec<usize> = used(group).collect();
        let common =
            group.members().iter().fold(0, |common, member| gcd(common, member.settings().weight));
        let weight = |server: &usize| group.members()[*server].weight().div_ceil(common.max(1));
        let weights: Vec<i64> = servers.iter().map(weight).map(i64::from).collect();
        let total: i64 = weights.iter().sum();
        let mut scores = vec![0; servers.len()];
        let next = |_| {
            let mut best = (0, 0);
            for (at, score) in scores.iter_mut().enumerate() {
                *score += weights[at];
                let turns = (*score + total) / total;
                if at == 0 || turns > best.1 {
                    best = (at, turns);
                }
            }
            scores[best.0] -= total;
            servers[best.0]
        };
        Self((0..total).map(next).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The server of a place; places repeat.
    pub(crate) fn at(&self, place: usize) -> Option<usize> {
        let place = place.checked_rem(self.0.len())?;
        Some(self.0[place])
    }
}

/// `hash-type consistent`: each server has places on a ring, and a key belongs to the nearest.
#[derive(Debug, Default)]
pub(crate) struct Ring(Vec<(u32, usize)>);

impl Ring {
    pub(crate) fn new(group: &Group) -> Self {
        let mut nodes = Vec::new();
        for server in used(group) {
            let member = &group.members()[server];
            let first = member.settings().id.wrapping_mul(NODES_MAX);
            let keys = (0..member.share()).map(|node| avalanche(first.wrapping_add(node)));
            nodes.extend(keys.map(|key| (key, server)));
        }
        nodes.sort_unstable();
        Self(nodes)
    }

    /// The server nearest to a hash, and after it those that follow on the ring, each place once.
    pub(crate) fn from(&self, hash: u32) -> impl Iterator<Item = usize> {
        let len = self.0.len();
        let next = self.0.partition_point(|(key, _)| *key < hash);
        let first = match len {
            0 => 0,
            len => {
                let (next, before) = (next % len, (next + len - 1) % len);
                let distance = |from: u32, to: u32| to.wrapping_sub(from);
                let behind = distance(self.0[before].0, hash);
                let ahead = distance(hash, self.0[next].0);
                if behind <= ahead { before } else { next }
            }
        };
        (0..len).map(move |step| self.0[(first + step) % len].1)
    }
}

/// Servers that balancing chooses now.
fn used(group: &Group) -> impl Iterator<Item = usize> {
    (0..group.members().len()).filter(|server| group.is_in_use(*server))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Places that a server has at most: those of the next begin there.
const NODES_MAX: u32 = crate::member::WEIGHT_MAX * SCALE;
