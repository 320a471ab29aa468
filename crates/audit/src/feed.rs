//! Processes each event of a counter: assigns calls and io_uring operations to phases, and appends
//! them to the timeline.

use std::collections::HashMap;

use crate::call_times::{CallTimes, TimeTotals};
use crate::call_totals::CallTotals;
use crate::counts::{ByPhase, CallTally, ConnectionPhase};
use crate::event::CallEvent;
use crate::operation::UNKNOWN_OPCODE;
use crate::phases::TrackedConnections;
use crate::timeline::Timeline;

/// Takes the events in the order in which the calls returned.
#[derive(Debug, Default)]
pub(crate) struct EventFeed {
    phases: Option<Phases>,
    times: Option<TimeTotals>,
    recording: Option<Recording>,
}

/// Calls by the phase of their connection.
#[derive(Debug, Default)]
struct Phases {
    connections: TrackedConnections,
    calls: HashMap<(ConnectionPhase, u32), CallTotals>,
    /// Operations of io_uring by opcode, counted when they complete.
    operations: HashMap<(ConnectionPhase, u32), CallTotals>,
}

/// The recorded calls, in order.
#[derive(Debug, Default)]
struct Recording {
    calls: Vec<CallEvent>,
    /// Calls that came when the recording was full.
    left_out: u64,
}

impl EventFeed {
    /// For phases, for times, for a timeline. `None` for none of them: no events are needed.
    pub(crate) fn new(phases: bool, times: bool, timeline: bool) -> Option<Self> {
        (phases || times || timeline).then(|| Self {
            phases: phases.then(Phases::default),
            times: times.then(TimeTotals::default),
            recording: timeline.then(Recording::default),
        })
    }

    /// Adds a completed call or operation.
    pub(crate) fn enter(&mut self, event: CallEvent) {
        if let Some(phases) = &mut self.phases {
            phases.enter(&event);
        }
        if let Some(times) = &mut self.times {
            times.enter(&event);
        }
        match &mut self.recording {
            Some(recording) if recording.calls.len() < RECORDED_MAX => recording.calls.push(event),
            Some(recording) => recording.left_out += 1,
            None => {}
        }
    }

    /// Clears the timeline.
    pub(crate) fn record(&mut self) {
        if let Some(recording) = &mut self.recording {
            *recording = Recording::default();
        }
    }

    /// The recording, if one was requested. `lost` is the number of lost events.
    pub(crate) fn timeline(&self, lost: u64) -> Option<Timeline> {
        let Recording { calls, left_out } = self.recording.as_ref()?;
        Some(Timeline::of(calls, *left_out, lost))
    }

    /// Calls by phase and name, if phases were requested.
    pub(crate) fn by_phase(&self) -> Option<ByPhase> {
        Some(by_phase(&self.phases.as_ref()?.calls, CallTotals::call))
    }

    /// The same for operations.
    pub(crate) fn ring_by_phase(&self) -> Option<ByPhase> {
        Some(by_phase(&self.phases.as_ref()?.operations, CallTotals::operation))
    }

    /// The time of calls by name, if times were requested.
    pub(crate) fn times(&self) -> Option<CallTimes> {
        Some(self.times.as_ref()?.by_name())
    }

    /// The number of calls that have a phase, or a time.
    pub(crate) fn processed(&self) -> u64 {
        let times = self.times.as_ref().map_or(0, TimeTotals::count);
        let phased = |phases: &Phases| phases.calls.values().map(CallTotals::count).sum();
        self.phases.as_ref().map_or(times, phased)
    }

    /// The number of events missing from phases and times, given the number of lost events. 0 if
    /// neither was requested.
    pub(crate) fn lost(&self, events: u64) -> u64 {
        let times = self.times.as_ref().map_or(0, |_| events);
        self.phases.as_ref().map_or(times, |phases| phases.connections.lost + events)
    }
}

impl Phases {
    fn enter(&mut self, event: &CallEvent) {
        let phase = self.connections.phase(event);
        let Some(operation) = event.operation() else {
            let entry = self.calls.entry((phase, event.call)).or_default();
            return entry.enter(event.call, event.result);
        };
        let opcode = if operation.is_repeated { UNKNOWN_OPCODE } else { operation.opcode };
        let entry = self.operations.entry((phase, opcode)).or_default();
        // An operation submitted before counting began is not counted, but its result is.
        let is_counted = operation.is_repeated || event.start.is_some();
        entry.complete(is_counted, event.result);
        if operation.chooses_buffer && event.result > 0 && phase != ConnectionPhase::Other {
            entry.unseen();
        }
    }
}

fn by_phase(
    entries: &HashMap<(ConnectionPhase, u32), CallTotals>,
    tally: impl Fn(&CallTotals, u32) -> (String, CallTally),
) -> ByPhase {
    let mut by_phase = ByPhase::new();
    for ((phase, number), entry) in entries {
        by_phase.entry(*phase).or_default().extend([tally(entry, *number)]);
    }
    by_phase
}

/// More than a person reads; some megabytes.
const RECORDED_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn done(call: u32, start: Option<u64>, result: i64) -> CallEvent {
        let (arguments, memory) = ([7, 0, 0, 0, 0, 1], Vec::new());
        CallEvent { start, end: 9, process: 1, thread: 1, call, result, arguments, memory }
    }

    /// As in the table of operations, operations submitted before counting began are not counted.
    #[test]
    fn operations_are_counted_when_they_complete() {
        let mut feed = EventFeed::new(true, false, false).expect("phases");
        feed.enter(done(1_024 + 27, Some(1), 40));
        feed.enter(done(1_024 + 27, None, -104));
        feed.enter(done(0x1000 + 1_024 + 13, Some(1), 8));
        let by_phase = feed.ring_by_phase().expect("phases");
        let recv = &by_phase[&ConnectionPhase::Other]["recv"];
        assert_eq!((recv.count, recv.bytes, recv.errors[&104]), (1, 40, 1));
        let accepted = &by_phase[&ConnectionPhase::Accept]["(repeated)"];
        assert_eq!((accepted.count, accepted.bytes), (1, 0));
        assert_eq!(feed.by_phase(), Some(ByPhase::new()));
    }

    /// Flag 32 of an entry: the ring chooses the buffer.
    #[test]
    fn data_in_ring_buffers_are_counted_as_unseen() {
        let mut feed = EventFeed::new(true, false, false).expect("phases");
        feed.enter(done(0x1000 + 1_024 + 13, Some(1), 7));
        for result in [40, 0] {
            let mut received = done(1_024 + 27, Some(1), result);
            received.arguments[4] = 32 << 32;
            feed.enter(received);
        }
        let by_phase = feed.ring_by_phase().expect("phases");
        let unseen = |phase| by_phase[&phase]["recv"].kinds.get("unseen").copied();
        assert_eq!(
            (unseen(ConnectionPhase::Head), unseen(ConnectionPhase::Close)),
            (Some(1), None)
        );
    }
}
