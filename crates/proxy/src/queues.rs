//! The sessions of one thread that wait for slots of servers.

use crate::balance::WaitQueue;
use fulmar_haproxy::Mode;

use crate::live::Live;
use crate::shared::ThreadContext;

/// A queue for each backend of one mode. A thread may have only one queue for each group
/// ([`WaitQueue::new`]), so backends of the other mode have none here.
#[derive(Debug)]
pub(crate) struct Queues<T>(Box<[Option<WaitQueue<T>>]>);

impl<T> Queues<T> {
    /// The queues of this thread's engine of a mode.
    pub(crate) fn new(live: &Live, thread: usize, mode: Mode) -> Self {
        let queue = |it: &crate::LiveBackend| {
            (it.config.mode == mode).then(|| WaitQueue::new(thread, &it.group))
        };
        Self(live.backends.iter().map(queue).collect())
    }

    /// The queue of a backend; `None` if the backend has the other mode.
    pub(crate) fn of(&mut self, backend: usize) -> Option<&mut WaitQueue<T>> {
        self.0[backend].as_mut()
    }

    /// The backends of this mode that the thread was woken for. Takes the alarms even if no session
    /// waits here any more, so that the wake-up can be passed on.
    pub(crate) fn woken(&self, shared: &ThreadContext) -> Vec<usize> {
        let is_ours = |at: &usize| {
            let queue = self.0[*at].as_ref();
            queue.is_some_and(|queue| queue.take_wake(&shared.live.backends[*at].group))
        };
        shared.woken.iter().copied().filter(is_ours).collect()
    }
}
