//! Lookup tables for hashes, laid out as in HAProxy.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::balance::group::ServerGroup;
use crate::balance::hash::avalanche;
use crate::balance::member::SCALE;

/// `hash-type map-based` and `static-rr`: each server occurs in proportion to its weight, spread
/// evenly.
#[derive(Debug, Default)]
pub(crate) struct WeightMap(Vec<usize>);

impl WeightMap {
    pub(crate) fn new(group: &ServerGroup) -> Self {
        let servers: Vec<usize> = used(group).collect();
        let common =
            group.members().iter().fold(0, |common, member| gcd(common, member.settings().weight));
        let weight = |server: &usize| group.members()[*server].weight().div_ceil(common.max(1));
        let weights: Vec<u64> = servers.iter().map(weight).map(u64::from).collect();
        Self(turns(&weights).into_iter().map(|at| servers[at]).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The server at a position, modulo the length.
    pub(crate) fn at(&self, place: usize) -> Option<usize> {
        let place = place.checked_rem(self.0.len())?;
        Some(self.0[place])
    }
}

/// The server of each position, in proportion to the weights.
///
/// At each position, every server earns its weight, and the selected one pays the sum of all
/// weights. The server that could pay the most whole sums is selected; the first one among equals.
/// The positions at which this number increases are known in advance and sorted once; candidates
/// are kept in order. A position costs O(log n), not O(n).
fn turns(weights: &[u64]) -> Vec<usize> {
    let total: u64 = weights.iter().sum();
    let grows = |(at, weight): (usize, &u64)| {
        let weight = *weight;
        (1..=weight).map(move |sums| ((sums * total).div_ceil(weight), at))
    };
    let mut grows: Vec<(u64, usize)> = weights.iter().enumerate().flat_map(grows).collect();
    grows.sort_unstable();
    let mut grows = grows.into_iter().peekable();
    let mut sums = vec![0_i64; weights.len()];
    let mut order: BTreeSet<(Reverse<i64>, usize)> =
        weights.iter().enumerate().map(|(at, _)| (Reverse(0), at)).collect();
    let mut change = |order: &mut BTreeSet<_>, at: usize, by: i64| {
        order.remove(&(Reverse(sums[at]), at));
        sums[at] += by;
        order.insert((Reverse(sums[at]), at));
    };
    let mut places = Vec::new();
    for place in 1..=total {
        while let Some((_, at)) = grows.next_if(|(when, _)| *when <= place) {
            change(&mut order, at, 1);
        }
        let Some(&(_, best)) = order.first() else { break };
        change(&mut order, best, -1);
        places.push(best);
    }
    debug_assert_eq!(places.len() as u64, total, "each position has a server");
    places
}

/// `hash-type consistent`: each server has nodes on a ring, and a key belongs to the nearest node.
#[derive(Debug, Default)]
pub(crate) struct HashRing(Vec<(u32, usize)>);

impl HashRing {
    pub(crate) fn new(group: &ServerGroup) -> Self {
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

    /// The server nearest to a hash, followed by those of the next nodes, each node once.
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

/// Servers in use.
fn used(group: &ServerGroup) -> impl Iterator<Item = usize> {
    (0..group.members().len()).filter(|server| group.is_in_use(*server))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Maximum number of nodes per server: the nodes of the next server begin there.
const NODES_MAX: u32 = crate::balance::member::WEIGHT_MAX * SCALE;

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, with a scan for each position.
    fn plainly(weights: &[u64]) -> Vec<usize> {
        let weights: Vec<i64> = weights.iter().map(|weight| *weight as i64).collect();
        let total: i64 = weights.iter().sum();
        let mut scores = vec![0; weights.len()];
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
            best.0
        };
        (0..total).map(next).collect()
    }

    #[test]
    fn turns_match_the_definition() {
        let mut seed = 1_u64;
        for len in 0..40 {
            let draw = |_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) % 257
            };
            let weights: Vec<u64> = (0..len).map(draw).collect();
            assert_eq!(turns(&weights), plainly(&weights), "{weights:?}");
        }
        assert!(turns(&[0, 0]).is_empty());
    }

    /// Once, each of up to 256,000 positions scanned all servers, on each thread and for each
    /// change.
    #[test]
    fn a_thousand_servers_are_laid_out_at_once() {
        assert_eq!(turns(&[64; 1000]).len(), 64_000);
    }
}
