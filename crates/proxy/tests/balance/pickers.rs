//! Server selection by weight, load and key, also while servers change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fulmar_proxy::balance::{
    Admin, GroupPolicy, Health, MemberSettings, Picker, PickerRule, Placement, ServerGroup, Weight,
};
use proptest::prelude::*;

fn group(weights: &[u32]) -> ServerGroup {
    let settings = weights.iter().zip(1..).map(|(weight, id)| settings(id, *weight));
    ServerGroup::new(GroupPolicy::default(), settings)
}

fn settings(id: u32, weight: u32) -> MemberSettings {
    MemberSettings { id, weight, ..MemberSettings::default() }
}

#[expect(clippy::disallowed_methods, reason = "a test needs a start time")]
fn start_time() -> Instant {
    Instant::now()
}

/// The next selections as letters.
fn picks(picker: &mut Picker, group: &ServerGroup, count: usize) -> String {
    let letter = |at: usize| char::from(b"abcdefghij"[at]);
    (0..count).map(|_| picker.pick(group, None, &[]).map_or('-', letter)).collect()
}

fn counts(picker: &mut Picker, group: &ServerGroup, count: usize) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..count {
        *counts.entry(picker.pick(group, None, &[]).expect("a server is usable")).or_default() += 1;
    }
    counts
}

#[test]
fn a_rotation_is_smooth() {
    let cases: [(&[u32], &str); 5] = [
        (&[1, 1, 1], "abcabc"),
        (&[2, 1], "abaaba"),
        (&[5, 1, 1], "aabacaa"),
        (&[1, 0, 1], "acac"),
        (&[256], "aa"),
    ];
    for (weights, expected) in cases {
        let mut picker = Picker::new(PickerRule::RoundRobin, 0);
        assert_eq!(picks(&mut picker, &group(weights), expected.len()), expected, "{weights:?}");
    }
}

#[test]
fn a_map_follows_the_same_weights() {
    let mut picker = Picker::new(PickerRule::StaticRoundRobin, 0);
    assert_eq!(picks(&mut picker, &group(&[20, 10]), 6), "aabaab");
    let mut picker = Picker::new(PickerRule::StaticRoundRobin, 0);
    assert_eq!(picks(&mut picker, &group(&[0, 0]), 1), "-");
}

#[test]
fn threads_begin_at_different_positions() {
    let group = group(&[1, 1, 1]);
    let firsts =
        (0..3).map(|thread| picks(&mut Picker::new(PickerRule::RoundRobin, thread), &group, 1));
    assert_eq!(firsts.collect::<String>(), "abc");
}

#[test]
fn weights_and_states_change_while_it_runs() {
    let group = group(&[1, 1, 1]);
    let mut picker = Picker::new(PickerRule::RoundRobin, 0);
    group.set_health(1, Health::Down, start_time());
    assert_eq!(picks(&mut picker, &group, 4), "acac");
    group.set_admin(0, Admin::Drain);
    assert_eq!(picks(&mut picker, &group, 2), "cc");
    group.set_health(2, Health::Stopping, start_time());
    assert_eq!(picks(&mut picker, &group, 1), "-");
    assert_eq!(group.try_place(&mut picker, None, &[]), Placement::NoServer);
    group.set_admin(0, Admin::Ready);
    group.set_health(1, Health::Up, start_time());
    group.set_weight(0, Weight::Absolute(3));
    assert_eq!(counts(&mut picker, &group, 400), BTreeMap::from([(0, 300), (1, 100)]));
    group.set_weight(0, Weight::Percent(200));
    assert_eq!(counts(&mut picker, &group, 300), BTreeMap::from([(0, 200), (1, 100)]));
    group.set_weight(1, Weight::Absolute(1_000));
    assert_eq!(group.members()[1].weight(), 256);
    group.set_weight(1, Weight::Percent(0));
    assert!(!group.members()[1].is_usable());
}

#[test]
fn backups_are_used_only_without_other_servers() {
    let backup = |id| MemberSettings { backup: true, ..settings(id, 1) };
    for all_backups in [false, true] {
        let policy = GroupPolicy { all_backups, ..GroupPolicy::default() };
        let group = ServerGroup::new(policy, [settings(1, 1), backup(2), backup(3)]);
        for rule in [
            PickerRule::RoundRobin,
            PickerRule::StaticRoundRobin,
            PickerRule::LeastConnections,
            PickerRule::First,
        ] {
            let mut picker = Picker::new(rule, 0);
            assert_eq!(picks(&mut picker, &group, 2), "aa");
            assert_eq!((group.active(), group.backups(), group.usable()), (1, 2, 3));
            group.set_admin(0, Admin::Maintenance);
            let expected = match (all_backups, rule) {
                (true, PickerRule::First) | (false, _) => "bb",
                (true, PickerRule::StaticRoundRobin) => "bc",
                (true, _) => "bc",
            };
            let mut picked: Vec<char> = picks(&mut picker, &group, 2).chars().collect();
            picked.sort_unstable();
            assert_eq!(picked.iter().collect::<String>(), expected, "{rule:?}");
            group.set_admin(1, Admin::Maintenance);
            assert_eq!(picks(&mut picker, &group, 1), "c");
            [0, 1].iter().for_each(|server| group.set_admin(*server, Admin::Ready));
        }
    }
}

#[test]
fn the_least_loaded_for_its_weight_is_next() {
    let group = group(&[1, 1, 2]);
    let mut picker = Picker::new(PickerRule::LeastConnections, 0);
    let mut placed = [0; 3];
    for _ in 0..40 {
        let Placement::Placed(server) = group.try_place(&mut picker, None, &[]) else { panic!() };
        placed[server] += 1;
    }
    assert_eq!(placed, [10, 10, 20]);
    for _ in 0..10 {
        group.leave(0);
    }
    assert_eq!(group.try_place(&mut picker, None, &[]), Placement::Placed(0));
}

#[test]
fn equals_among_the_least_loaded_take_turns() {
    let group = group(&[1, 1, 1]);
    assert_eq!(picks(&mut Picker::new(PickerRule::LeastConnections, 0), &group, 6), "abcabc");
}

#[test]
fn first_selects_the_lowest_number_with_a_free_slot() {
    let limited = |id| MemberSettings { connections_max: 2, ..settings(id, 1) };
    let group =
        ServerGroup::new(GroupPolicy::default(), [limited(30), limited(10), settings(20, 1)]);
    let mut picker = Picker::new(PickerRule::First, 0);
    let mut places = || match group.try_place(&mut picker, None, &[]) {
        Placement::Placed(server) => server,
        other => panic!("{other:?}"),
    };
    assert_eq!([places(), places(), places(), places()], [1, 1, 2, 2]);
}

#[test]
fn failed_servers_are_avoided_if_possible() {
    let group = group(&[1, 1]);
    let rules = [
        PickerRule::RoundRobin,
        PickerRule::StaticRoundRobin,
        PickerRule::LeastConnections,
        PickerRule::First,
        PickerRule::Random { draws: 2 },
        PickerRule::MapHash,
        PickerRule::ConsistentHash { balance_factor: 0 },
        PickerRule::ConsistentHash { balance_factor: 150 },
    ];
    for rule in rules {
        let mut picker = Picker::new(rule, 0);
        for key in 0..20 {
            assert_eq!(picker.pick(&group, Some(key), &[0]), Some(1), "{rule:?}");
            assert_eq!(picker.pick(&group, Some(key), &[1]), Some(0), "{rule:?}");
            assert!(picker.pick(&group, Some(key), &[0, 1]).is_some(), "{rule:?}");
            assert!(picker.pick(&group, None, &[0, 1]).is_some(), "{rule:?}");
        }
    }
}

#[test]
fn random_draws_follow_weights_and_prefer_the_less_loaded() {
    let weighted = group(&[3, 1]);
    let seen = counts(&mut Picker::new(PickerRule::Random { draws: 1 }, 0), &weighted, 4_000);
    assert!((2_850..3_150).contains(&seen[&0]), "{seen:?}");
    let equal = group(&[1, 1, 1, 1]);
    let mut picker = Picker::new(PickerRule::Random { draws: 2 }, 3);
    for _ in 0..400 {
        assert!(matches!(equal.try_place(&mut picker, None, &[]), Placement::Placed(_)));
    }
    let loads: Vec<_> = equal.members().iter().map(|member| member.sessions()).collect();
    assert!(loads.iter().all(|load| (90..=110).contains(load)), "{loads:?}");
}

#[test]
fn a_busy_server_of_a_ring_is_skipped() {
    let group = group(&[1, 1, 1]);
    let mut picker = Picker::new(PickerRule::ConsistentHash { balance_factor: 150 }, 0);
    for _ in 0..300 {
        let placed = group.try_place(&mut picker, Some(12_345), &[]);
        assert!(matches!(placed, Placement::Placed(_)));
    }
    let mut loads: Vec<_> = group.members().iter().map(|member| member.sessions()).collect();
    loads.sort_unstable();
    assert!(loads[2] <= 151 && loads[0] + loads[1] >= 149, "{loads:?}");
}

proptest! {
    #[test]
    fn each_round_is_exactly_by_weight(weights in prop::collection::vec(0..20_u32, 1..8)) {
        let total: u32 = weights.iter().sum();
        prop_assume!(total > 0);
        for rule in [PickerRule::RoundRobin, PickerRule::StaticRoundRobin] {
            let (group, mut picker) = (group(&weights), Picker::new(rule, 0));
            let seen = counts(&mut picker, &group, total as usize * 3);
            for (server, weight) in weights.iter().enumerate() {
                let seen = seen.get(&server).copied().unwrap_or(0);
                prop_assert_eq!(seen, *weight as usize * 3, "{:?}", rule);
            }
        }
    }

    /// In any part of a round, each server has its share of turns, plus or minus one.
    #[test]
    fn turns_are_spread_evenly(weights in prop::collection::vec(1..20_u32, 2..6)) {
        let total: u32 = weights.iter().sum();
        let (group, mut picker) = (group(&weights), Picker::new(PickerRule::RoundRobin, 0));
        let mut seen = vec![0_f64; weights.len()];
        for turn in 1..=total {
            seen[picker.pick(&group, None, &[]).unwrap()] += 1.0;
            for (server, weight) in weights.iter().enumerate() {
                let share = f64::from(turn) * f64::from(*weight) / f64::from(total);
                prop_assert!((seen[server] - share).abs() < weights.len() as f64, "{:?}", weights);
            }
        }
    }

    /// A key moves only if its server is removed, or to an added server.
    #[test]
    fn keys_stay_on_a_ring(
        servers in 2..7_usize,
        gone in 0..7_usize,
        keys in prop::collection::vec(any::<u32>(), 50),
    ) {
        let gone = gone % servers;
        let group = group(&vec![4; servers]);
        let mut picker = Picker::new(PickerRule::ConsistentHash { balance_factor: 0 }, 0);
        let mut owners = || -> Vec<usize> {
            keys.iter().map(|key| picker.pick(&group, Some(*key), &[]).unwrap()).collect()
        };
        let before = owners();
        group.set_health(gone, Health::Down, start_time());
        let during = owners();
        for (before, during) in before.iter().zip(&during) {
            prop_assert!(before == during || *before == gone);
            prop_assert_ne!(*during, gone);
        }
        group.set_health(gone, Health::Up, start_time());
        prop_assert_eq!(owners(), before);
    }

    #[test]
    fn every_rule_selects_a_usable_server_if_there_is_one(
        weights in prop::collection::vec(0..3_u32, 0..5),
        down in any::<u8>(),
        key in prop::option::of(any::<u32>()),
        rule in 0..7_usize,
    ) {
        let rules = [
            PickerRule::RoundRobin,
            PickerRule::StaticRoundRobin,
            PickerRule::LeastConnections,
            PickerRule::First,
            PickerRule::Random { draws: 2 },
            PickerRule::MapHash,
            PickerRule::ConsistentHash { balance_factor: 120 },
        ];
        let group = group(&weights);
        for server in 0..weights.len() {
            if down >> server & 1 == 1 {
                group.set_health(server, Health::Down, start_time());
            }
        }
        let found = Picker::new(rules[rule], 5).pick(&group, key, &[]);
        prop_assert_eq!(found.is_some(), group.usable() > 0);
        prop_assert!(found.is_none_or(|server| group.members()[server].is_usable()));
    }
}

#[test]
fn threads_pick_while_another_changes_servers() {
    let group = group(&[1, 2, 3, 4]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (thread, rule) in
            [PickerRule::RoundRobin, PickerRule::LeastConnections, PickerRule::MapHash]
                .into_iter()
                .enumerate()
        {
            let (group, done) = (&group, &done);
            scope.spawn(move || {
                let mut picker = Picker::new(rule, thread);
                while !done.load(Ordering::Relaxed) {
                    // The first server is always usable.
                    assert!(picker.pick(group, Some(7), &[]).is_some());
                    if let Placement::Placed(server) = group.try_place(&mut picker, Some(9), &[]) {
                        group.leave(server);
                    }
                }
            });
        }
        let now = start_time();
        for turn in 0..20_000_usize {
            let server = 1 + turn % 3;
            match turn % 5 {
                0 => group.set_health(server, Health::Down, now),
                1 => group.set_admin(server, Admin::Drain),
                2 => group
                    .set_weight(server, Weight::Absolute(u32::try_from(turn % 7).expect("small"))),
                3 => group.set_admin(server, Admin::Ready),
                _ => group.set_health(server, Health::Up, now),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(group.load(), 0);
}
