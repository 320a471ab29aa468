//! Those of one thread who wait for places at servers.

use fulmar_balance::Queue;
use fulmar_haproxy::Mode;

use crate::live::Live;

/// A queue for each backend of one mode. What threads tell each other of a backend's waiters has
/// room for one queue of each thread, so the backends of the other mode have none here.
#[derive(Debug)]
pub(crate) struct Queues<T>(Box<[Option<Queue<T>>]>);

impl<T> Queues<T> {
    /// Those of this thread's engine of a mode.
    pub(crate) fn new(live: &Live, thread: usize, mode: Mode) -> Self {
        let queue = |it: &crate::LiveBackend| {
            (it.config.mode == mode).then(|| Queue::new(thread, &it.group))
        };
        Self(live.backends.iter().map(queue).collect())
    }

    /// The queue of a backend; `None`: it has the other mode.
    pub(crate) fn of(&mut self, backend: usize) -> Option<&mut Queue<T>> {
        self.0[backend].as_mut()
    }

    /// All that there are, with their backends.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = (usize, &mut Queue<T>)> {
        let each = self.0.iter_mut().enumerate();
        each.filter_map(|(backend, queue)| Some((backend, queue.as_mut()?)))
    }
}
