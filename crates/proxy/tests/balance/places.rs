//! Slots and waiting sessions on real threads: limits are exact, order is kept, no session is lost.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use fulmar_proxy::balance::{
    Admin, GroupPolicy, MemberSettings, NextWaiting, Picker, PickerRule, Placement, ServerGroup,
    WaitQueue, Wants,
};

fn settings(connections_max: u32) -> MemberSettings {
    MemberSettings { weight: 1, connections_max, ..MemberSettings::default() }
}

fn group(threads: usize, limits: &[u32]) -> ServerGroup {
    let policy = GroupPolicy { threads, ..GroupPolicy::default() };
    ServerGroup::new(policy, limits.iter().map(|limit| settings(*limit)))
}

#[test]
fn sessions_are_served_in_order_across_threads() {
    let group = group(2, &[1]);
    let mut pickers =
        [Picker::new(PickerRule::RoundRobin, 0), Picker::new(PickerRule::RoundRobin, 1)];
    let mut queues = [WaitQueue::new(0, &group), WaitQueue::new(1, &group)];
    let place = group.try_place(&mut pickers[0], None, &[]);
    assert_eq!(place, Placement::Placed(0));
    for (thread, token) in [(1, 'a'), (0, 'b'), (1, 'c')] {
        let wait = group.try_place(&mut pickers[thread], None, &[]);
        assert_eq!(wait, Placement::Wait(Wants::Any));
        queues[thread].push(&group, Wants::Any, token);
        assert_eq!(queues[thread].next(&group), NextWaiting::None);
    }
    assert_eq!(group.queued(), 3);
    group.leave(0);
    assert_eq!(queues[0].next_for(&group, 0), NextWaiting::Wake(1), "a came before b");
    assert_eq!(
        queues[0].next_for(&group, 0),
        NextWaiting::None,
        "the other thread is already woken"
    );
    let late = group.try_place(&mut pickers[0], None, &[]);
    assert_eq!(late, Placement::Wait(Wants::Any), "a new session does not overtake");
    assert!(queues[1].take_wake(&group));
    assert!(!queues[1].take_wake(&group));
    assert_eq!(queues[1].next(&group), NextWaiting::Place { token: 'a', server: 0 });
    assert_eq!(queues[1].next(&group), NextWaiting::None);
    group.leave(0);
    assert_eq!(queues[1].next_for(&group, 0), NextWaiting::Wake(0));
    assert_eq!(queues[0].next(&group), NextWaiting::Place { token: 'b', server: 0 });
}

#[test]
fn cancelling_passes_the_turn_on() {
    let group = group(2, &[1]);
    let mut picker = Picker::new(PickerRule::RoundRobin, 0);
    let mut queues = [WaitQueue::new(0, &group), WaitQueue::new(1, &group)];
    assert_eq!(group.try_place(&mut picker, None, &[]), Placement::Placed(0));
    let first = queues[1].push(&group, Wants::Any, 'a');
    let second = queues[0].push(&group, Wants::Any, 'b');
    assert_eq!(queues[0].position(second), Some(0));
    group.leave(0);
    assert_eq!(queues[0].next_for(&group, 0), NextWaiting::Wake(1));
    assert_eq!(queues[1].cancel(&group, first), Some('a'));
    assert_eq!(queues[1].cancel(&group, first), None);
    assert!(queues[1].take_wake(&group));
    assert_eq!(queues[1].next(&group), NextWaiting::Wake(0));
    assert_eq!(queues[0].next(&group), NextWaiting::Place { token: 'b', server: 0 });
    assert!(queues[0].is_empty() && group.queued() == 0);
}

#[test]
fn queues_for_one_and_for_any_server_share_one_order() {
    let group = group(1, &[1, 1]);
    let mut picker = Picker::new(PickerRule::RoundRobin, 0);
    let mut queue = WaitQueue::new(0, &group);
    for server in [0, 1] {
        assert_eq!(group.try_place(&mut picker, None, &[]), Placement::Placed(server));
    }
    assert_eq!(group.try_place_at(1), Placement::Wait(Wants::Server(1)));
    queue.push(&group, Wants::Server(1), "bound");
    queue.push(&group, Wants::Any, "any");
    assert_eq!((group.members()[1].queued(), group.queued(), group.load()), (1, 1, 4));
    group.leave(0);
    assert_eq!(queue.next(&group), NextWaiting::Place { token: "any", server: 0 });
    queue.push(&group, Wants::Any, "later");
    group.leave(1);
    assert_eq!(queue.next_for(&group, 1), NextWaiting::Place { token: "bound", server: 1 });
}

#[test]
fn a_draining_server_takes_only_persistent_sessions() {
    let group = group(1, &[1]);
    let mut queue = WaitQueue::new(0, &group);
    let mut picker = Picker::new(PickerRule::RoundRobin, 0);
    assert_eq!(group.try_place_at(0), Placement::Placed(0));
    queue.push(&group, Wants::Any, "any");
    queue.push(&group, Wants::Server(0), "bound");
    group.set_admin(0, Admin::Drain);
    assert_eq!(group.threads_to_wake().collect::<Vec<_>>(), [0]);
    assert_eq!(group.try_place(&mut picker, None, &[]), Placement::NoServer);
    group.leave(0);
    assert_eq!(queue.next(&group), NextWaiting::Place { token: "bound", server: 0 });
    group.leave(0);
    assert_eq!(queue.next(&group), NextWaiting::None);
    queue.push(&group, Wants::Server(0), "late");
    group.set_admin(0, Admin::Maintenance);
    assert_eq!(group.try_place_at(0), Placement::NoServer);
    assert_eq!(queue.take_unreachable(&group), Some("late"));
    assert_eq!(queue.take_unreachable(&group), None);
    group.set_admin(0, Admin::Ready);
    assert_eq!(queue.next(&group), NextWaiting::Place { token: "any", server: 0 });
}

#[test]
fn full_queues_reject_and_limits_change_at_runtime() {
    let crowd = MemberSettings { queue_max: 1, ..settings(1) };
    let group = ServerGroup::new(GroupPolicy::default(), [crowd]);
    let mut queue = WaitQueue::new(0, &group);
    assert_eq!(group.try_place_at(0), Placement::Placed(0));
    assert_eq!(group.try_place_at(0), Placement::Wait(Wants::Server(0)));
    queue.push(&group, Wants::Server(0), 1);
    assert_eq!(group.try_place_at(0), Placement::QueueFull(0));
    group.set_connections_max(0, 2);
    assert_eq!(queue.next(&group), NextWaiting::Place { token: 1, server: 0 });
    assert_eq!(group.try_place_at(0), Placement::Wait(Wants::Server(0)));
    group.set_connections_max(0, 0);
    assert_eq!(group.try_place_at(0), Placement::Placed(0));
    group.set_connections_max(0, 1);
    group.leave(0);
    group.leave(0);
    assert_eq!(group.try_place_at(0), Placement::Wait(Wants::Server(0)), "one is left");
}

#[test]
fn a_dynamic_limit_follows_the_load() {
    let policy = GroupPolicy { connections_full: 100, ..GroupPolicy::default() };
    let limits = MemberSettings { connections_min: 2, ..settings(10) };
    let group = ServerGroup::new(policy, [limits, limits]);
    assert_eq!(group.limit(0), 2);
    let mut queue = WaitQueue::new(0, &group);
    for waiter in 0..50 {
        queue.push(&group, Wants::Any, waiter);
    }
    assert_eq!(group.limit(0), 5);
    for waiter in 0..200 {
        queue.push(&group, Wants::Any, waiter);
    }
    assert_eq!(group.limit(1), 10);
}

#[test]
fn many_cancelled_sessions_free_their_memory() {
    let group = group(1, &[1]);
    assert_eq!(group.try_place_at(0), Placement::Placed(0));
    let mut queue = WaitQueue::new(0, &group);
    queue.push(&group, Wants::Any, 0);
    let mut last = queue.push(&group, Wants::Any, 1);
    for token in 2..100_000 {
        let next = queue.push(&group, Wants::Any, token);
        assert_eq!(queue.cancel(&group, last), Some(token - 1));
        assert_eq!(queue.position(last), None);
        last = next;
    }
    assert_eq!((queue.len(), queue.position(last)), (2, Some(1)));
}

/// A thread of the test below: sessions arrive, wait, are served in order, and end. Threads only
/// exchange wake-ups.
struct BalanceWorker<'g> {
    thread: usize,
    group: &'g ServerGroup,
    wakers: Vec<Sender<()>>,
    bell: Receiver<()>,
    picker: Picker,
    queue: WaitQueue<u32>,
    served: Vec<usize>,
    inside: &'g [AtomicU32],
    limits: &'g [u32],
    done: u32,
    finished: &'g AtomicUsize,
}

impl BalanceWorker<'_> {
    fn enter(&mut self, server: usize) {
        let now = self.inside[server].fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= self.limits[server], "{now} sessions at server {server}");
        self.served.push(server);
    }

    fn handle_next(&mut self, next: NextWaiting<u32>) -> bool {
        match next {
            NextWaiting::None => return false,
            NextWaiting::Wake(thread) => {
                self.wakers[thread].send(()).expect("all threads are running")
            }
            NextWaiting::Place { server, .. } => self.enter(server),
        }
        true
    }

    fn leave_one(&mut self) {
        let Some(server) = self.served.pop() else { return };
        self.inside[server].fetch_sub(1, Ordering::SeqCst);
        self.group.leave(server);
        self.done += 1;
        loop {
            let next = self.queue.next_for(self.group, server);
            if !self.handle_next(next) {
                break;
            }
        }
    }

    fn handle_wake(&mut self) {
        if self.queue.take_wake(self.group) {
            self.serve_waiters();
        }
    }

    fn serve_waiters(&mut self) {
        loop {
            let next = self.queue.next(self.group);
            if !self.handle_next(next) {
                break;
            }
        }
    }

    fn come(&mut self, number: u32) {
        let server = number as usize % self.limits.len();
        let placement = match number % 3 {
            0 => self.group.try_place_at(server),
            _ => self.group.try_place(&mut self.picker, None, &[]),
        };
        match placement {
            Placement::Placed(server) => self.enter(server),
            Placement::Wait(wants) => {
                let ticket = self.queue.push(self.group, wants, number);
                if number.is_multiple_of(7) && self.queue.cancel(self.group, ticket).is_some() {
                    self.done += 1;
                }
                self.serve_waiters();
            }
            other => panic!("{other:?}"),
        }
    }

    /// `count` sessions; at most one ends for each that arrives, then all others.
    fn run(mut self, count: u32) {
        for number in 0..count {
            self.come(number.wrapping_add(u32::try_from(self.thread).expect("few")));
            if !number.is_multiple_of(4) {
                self.leave_one();
            }
            while self.bell.try_recv().is_ok() {
                self.handle_wake();
            }
        }
        while self.done < count {
            self.leave_one();
            if self.served.is_empty() && self.done < count {
                self.wait_for_wake();
            }
            self.handle_wake();
        }
        // Other threads may still rely on this thread's reaction.
        if self.finished.fetch_add(1, Ordering::SeqCst) + 1 == self.wakers.len() {
            self.wakers.iter().for_each(|waker| waker.send(()).expect("all threads are running"));
        }
        while self.finished.load(Ordering::SeqCst) < self.wakers.len() {
            self.wait_for_wake();
            self.handle_wake();
        }
    }

    fn wait_for_wake(&self) {
        let bell = self.bell.recv_timeout(Duration::from_secs(60));
        bell.unwrap_or_else(|_| {
            panic!("{} sessions wait forever: {:?}", self.queue.len(), self.group)
        });
    }
}

/// Threads take and release slots of few servers as fast as possible.
fn run_threads(threads: usize, limits: &[u32], count: u32) {
    let group = group(threads, limits);
    let inside: Vec<_> = limits.iter().map(|_| AtomicU32::new(0)).collect();
    let finished = AtomicUsize::new(0);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    std::thread::scope(|scope| {
        for (thread, bell) in receivers.into_iter().enumerate() {
            let worker = BalanceWorker {
                thread,
                group: &group,
                wakers: senders.clone(),
                bell,
                picker: Picker::new(PickerRule::LeastConnections, thread),
                queue: WaitQueue::new(thread, &group),
                served: Vec::new(),
                inside: &inside,
                limits,
                done: 0,
                finished: &finished,
            };
            scope.spawn(move || worker.run(count));
        }
    });
    assert_eq!(group.load(), 0);
}

#[test]
fn limits_hold_and_no_session_is_lost_among_threads() {
    run_threads(4, &[1], 4_000);
    run_threads(3, &[2, 1], 6_000);
    run_threads(2, &[1, 1, 5], 10_000);
    run_threads(8, &[3, 1], 2_000);
}
