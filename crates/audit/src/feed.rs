//! What becomes of each call, and each operation of io_uring, that a counter tells of: a place in its
//! connection's life, a line in a timeline.

use std::collections::HashMap;

use crate::counts::{ByPhase, Phase, Tally};
use crate::event::Event;
use crate::operation::UNTOLD;
use crate::phases::Connections;
use crate::timeline::Timeline;
use crate::tracer::Entry;

/// Takes the calls in the order in which they returned.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    phases: Option<Phases>,
    recording: Option<Recording>,
}

/// Calls by the part of a connection's life that they belong to.
#[derive(Debug, Default)]
struct Phases {
    connections: Connections,
    calls: HashMap<(Phase, u32), Entry>,
    /// Operations of io_uring by their opcodes, entered as they are done.
    operations: HashMap<(Phase, u32), Entry>,
}

/// Calls one after the other.
#[derive(Debug, Default)]
struct Recording {
    calls: Vec<Event>,
    /// Those that came when it was full.
    left_out: u64,
}

impl Feed {
    /// For phases, for a timeline, or for both. `None` for neither: then nobody needs the calls.
    pub(crate) fn new(phases: bool, timeline: bool) -> Option<Self> {
        (phases || timeline).then(|| Self {
            phases: phases.then(Phases::default),
            recording: timeline.then(Recording::default),
        })
    }

    /// A call returned, or an operation was done.
    pub(crate) fn enter(&mut self, event: Event) {
        if let Some(phases) = &mut self.phases {
            phases.enter(&event);
        }
        match &mut self.recording {
            Some(recording) if recording.calls.len() < RECORDED_MAX => recording.calls.push(event),
            Some(recording) => recording.left_out += 1,
            None => {}
        }
    }

    /// Forgets the timeline so far.
    pub(crate) fn record(&mut self) {
        if let Some(recording) = &mut self.recording {
            *recording = Recording::default();
        }
    }

    /// What was recorded, if that was asked for; so many events never came here.
    pub(crate) fn timeline(&self, lost: u64) -> Option<Timeline> {
        let Recording { calls, left_out } = self.recording.as_ref()?;
        Some(Timeline::of(calls, *left_out, lost))
    }

    /// Calls by phase and name, if that was asked for.
    pub(crate) fn by_phase(&self) -> Option<ByPhase> {
        Some(by_phase(&self.phases.as_ref()?.calls, Entry::call))
    }

    /// The same of operations.
    pub(crate) fn ring_by_phase(&self) -> Option<ByPhase> {
        Some(by_phase(&self.phases.as_ref()?.operations, Entry::operation))
    }

    /// How many calls are in a phase.
    pub(crate) fn phased(&self) -> u64 {
        self.phases.as_ref().map_or(0, |phases| phases.calls.values().map(Entry::count).sum())
    }

    /// What phases do not tell, when so many events never came here. Nothing if nobody asked.
    pub(crate) fn lost(&self, events: u64) -> u64 {
        self.phases.as_ref().map_or(0, |phases| phases.connections.lost + events)
    }
}

impl Phases {
    fn enter(&mut self, event: &Event) {
        let phase = self.connections.phase(event);
        let Some(operation) = event.operation() else {
            let entry = self.calls.entry((phase, event.call)).or_default();
            return entry.enter(event.call, event.result);
        };
        let opcode = if operation.is_repeated { UNTOLD } else { operation.opcode };
        let entry = self.operations.entry((phase, opcode)).or_default();
        // One that was asked for before anybody looked is in no count; its result is.
        let is_counted = operation.is_repeated || event.start.is_some();
        entry.complete(is_counted, event.result);
        if operation.chooses_buffer && event.result > 0 && phase != Phase::Other {
            entry.unseen();
        }
    }
}

fn by_phase(
    entries: &HashMap<(Phase, u32), Entry>,
    tally: impl Fn(&Entry, u32) -> (String, Tally),
) -> ByPhase {
    let mut by_phase = ByPhase::new();
    for ((phase, number), entry) in entries {
        by_phase.entry(*phase).or_default().extend([tally(entry, *number)]);
    }
    by_phase
}

/// More than anybody reads; some megabytes.
const RECORDED_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn done(call: u32, start: Option<u64>, result: i64) -> Event {
        let (arguments, memory) = ([7, 0, 0, 0, 0, 1], Vec::new());
        Event { start, end: 9, process: 1, thread: 1, call, result, arguments, memory }
    }

    /// As in the table of operations: those that were asked for before are in no count.
    #[test]
    fn operations_are_counted_once_they_are_done() {
        let mut feed = Feed::new(true, false).expect("phases");
        feed.enter(done(1_024 + 27, Some(1), 40));
        feed.enter(done(1_024 + 27, None, -104));
        feed.enter(done(0x1000 + 1_024 + 13, Some(1), 8));
        let by_phase = feed.ring_by_phase().expect("phases");
        let recv = &by_phase[&Phase::Other]["recv"];
        assert_eq!((recv.count, recv.bytes, recv.errors[&104]), (1, 40, 1));
        let accepted = &by_phase[&Phase::Accept]["(repeated)"];
        assert_eq!((accepted.count, accepted.bytes), (1, 0));
        assert_eq!(feed.by_phase(), Some(ByPhase::new()));
    }

    /// Flag 32 of an entry: the ring chooses the buffer.
    #[test]
    fn what_is_received_into_a_buffer_of_the_rings_own_is_told_as_unseen() {
        let mut feed = Feed::new(true, false).expect("phases");
        feed.enter(done(0x1000 + 1_024 + 13, Some(1), 7));
        for result in [40, 0] {
            let mut received = done(1_024 + 27, Some(1), result);
            received.arguments[4] = 32 << 32;
            feed.enter(received);
        }
        let by_phase = feed.ring_by_phase().expect("phases");
        let unseen = |phase| by_phase[&phase]["recv"].kinds.get("unseen").copied();
        assert_eq!((unseen(Phase::Head), unseen(Phase::Close)), (Some(1), None));
    }
}
