//! The eBPF counter: loads `bpf/audit.bpf.c`, selects the processes to watch, and reads its maps.
//!
//! The C source describes what is counted and how tasks are followed.

use std::collections::BTreeMap;
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::{fs, io, iter};

use aya::maps::{
    Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuHashMap, PerCpuValues, RingBuf,
};
use aya::programs::{BtfTracePoint, Program, ProgramError, RawTracePoint};
use aya::{Btf, Ebpf, EbpfError, EbpfLoader, include_bytes_aligned};
use fulmar_sys as sys;

use crate::counts::{CallCounts, CallTally, CountingBackend};
use crate::error::{AuditError, KernelRefusal};
use crate::event::{self, CallEvent};
use crate::feed::EventFeed;
use crate::timeline::Timeline;
use crate::{kinds, names, operation};

/// The loaded programs and their maps. They count until this is dropped.
pub(crate) struct Kernel {
    seeds: HashMap<MapData, u64, u32>,
    tasks: HashMap<MapData, u64, u32>,
    processes: HashMap<MapData, u32, u32>,
    calls: PerCpuArray<MapData, [u64; 2]>,
    failures: PerCpuHashMap<MapData, u32, u64>,
    kinds: PerCpuHashMap<MapData, u64, u64>,
    operations: PerCpuArray<MapData, [u64; 2]>,
    totals: PerCpuArray<MapData, u64>,
    /// The event of each call, if phases, times or a timeline were requested.
    events: Option<EventStream>,
    ring: RingSupport,
    /// This process is in a nested pid namespace, so its process numbers differ from the kernel's.
    in_namespace: bool,
    /// Declared last, so that the maps are closed first.
    _programs: Ebpf,
}

/// Limits of the counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Tasks followed at a time. Tasks beyond it are counted as lost.
    pub(crate) tasks_max: u32,
    /// Whether to count operations of io_uring. Loading the kernel's types for them takes the
    /// longest.
    pub(crate) rings: bool,
    /// Events read at a time.
    pub(crate) drained_max: usize,
}

/// How much the kernel reports of io_uring.
enum RingSupport {
    /// Operations and their results.
    Results,
    /// Operations only; why not their results.
    Operations(String),
    /// Nothing; the reason.
    Nothing(String),
}

/// The stream of events and their consumer.
struct EventStream {
    events: RingBuf<MapData>,
    feed: EventFeed,
    /// Events lost before the timeline began.
    lost_before: u64,
    /// As [`Extent::drained_max`].
    drained_max: usize,
    /// The last read left events in the buffer.
    is_behind: bool,
}

/// Which processes to watch. The eBPF program resolves the number to a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seed {
    /// The threads of this process, from now on.
    Process(u32),
    /// Processes that this thread starts, from their `execve` on.
    Parent(u32),
}

impl Default for Extent {
    fn default() -> Self {
        Self { tasks_max: TASKS_MAX, rings: true, drained_max: DRAINED_MAX }
    }
}

impl Kernel {
    /// Loads the programs and attaches them. From then on every system call on the machine runs the
    /// counter, which counts only tasks of a seed. The feed receives each event.
    pub(crate) fn load(feed: Option<EventFeed>, extent: Extent) -> Result<Self, KernelRefusal> {
        if !cfg!(target_arch = "x86_64") {
            return Err(KernelRefusal::Machine);
        }
        let types = match extent.rings {
            true => Btf::from_sys_fs().map_err(|_| "this kernel has no type information (BTF)"),
            false => Err("not requested"),
        };
        let (device, inode) = namespace();
        let object = if feed.is_some() { EACH } else { OBJECT };
        let mut loader = EbpfLoader::new();
        loader
            .btf(types.as_ref().ok())
            .map_max_entries("tasks", extent.tasks_max)
            .override_global("namespace_dev", &device, true)
            .override_global("namespace_ino", &inode, true);
        let loaded = with_locked_memory(|| loader.load(object));
        let mut programs = loaded.map_err(|e| refusal(lacking(&e), &e))?;
        select_arguments(&mut programs).map_err(|e| refusal(TABLES, &e))?;
        let starts = feed.iter().map(|_| &STARTS);
        for (program, tracepoint, doing) in starts.chain(&TRACEPOINTS) {
            attach(&mut programs, program, tracepoint).map_err(|e| refusal(doing, &e))?;
        }
        let events = feed
            .map(|feed| EventStream::new(&mut programs, feed, extent.drained_max))
            .transpose()?;
        let ring = match &types {
            Ok(types) => attach_ring(&mut programs, types),
            Err(why) => RingSupport::Nothing((*why).to_owned()),
        };
        Ok(Self {
            seeds: map(&mut programs, "seeds")?,
            tasks: map(&mut programs, "tasks")?,
            processes: map(&mut programs, "processes")?,
            calls: map(&mut programs, "calls")?,
            failures: map(&mut programs, "failures")?,
            kinds: map(&mut programs, "kinds")?,
            operations: map(&mut programs, "operations")?,
            totals: map(&mut programs, "totals")?,
            events,
            ring,
            in_namespace: inode != 0,
            _programs: programs,
        })
    }

    /// Starts watching what the seed names.
    pub(crate) fn plant(&mut self, seed: Seed) -> Result<(), AuditError> {
        self.seeds.insert(seed.key(), 0, 0).map_err(unreadable)
    }

    /// Stops looking for the seed. Tasks found so far are still watched.
    pub(crate) fn lift(&mut self, seed: Seed) -> Result<(), AuditError> {
        self.seeds.remove(&seed.key()).map_err(unreadable)
    }

    /// True if a task of this process is watched and alive. In a nested pid namespace it is always
    /// true, because the numbers are unknown there.
    pub(crate) fn watches(&self, pid: u32) -> Result<bool, AuditError> {
        if self.in_namespace {
            return Ok(true);
        }
        match self.processes.get(&pid, 0) {
            Ok(live) => Ok(live > 0),
            Err(MapError::KeyNotFound) => Ok(false),
            Err(e) => Err(unreadable(e)),
        }
    }

    /// True while a watched task lives.
    pub(crate) fn has_tasks(&self) -> Result<bool, AuditError> {
        for entry in self.tasks.iter() {
            let (_, state) = entry.map_err(unreadable)?;
            if state != AWAITS_EXEC {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads pending events, so that the buffer has room. True if events are used at all.
    pub(crate) fn drain(&mut self) -> bool {
        self.events.as_mut().map(EventStream::drain).is_some()
    }

    /// Restarts the timeline.
    pub(crate) fn record(&mut self) -> Result<(), AuditError> {
        let lost = self.total(LOST_EVENTS)?;
        if let Some(events) = &mut self.events {
            events.drain();
            events.feed.record();
            events.lost_before = lost;
        }
        Ok(())
    }

    /// The timeline so far, if one was requested.
    pub(crate) fn timeline(&mut self) -> Result<Option<Timeline>, AuditError> {
        let lost = self.total(LOST_EVENTS)?;
        Ok(self.events.as_mut().and_then(|events| {
            events.drain();
            events.feed.timeline(lost - events.lost_before)
        }))
    }

    fn total(&self, which: u32) -> Result<u64, AuditError> {
        self.totals.get(&which, 0).map(|values| sum(&values)).map_err(unreadable)
    }

    /// The counts so far. The caller sets the elapsed time.
    pub(crate) fn snapshot(&mut self) -> Result<CallCounts, AuditError> {
        self.drain();
        let mut counts = CallCounts::none(CountingBackend::Ebpf);
        counts.calls = self.calls().map_err(unreadable)?;
        if !matches!(self.ring, RingSupport::Nothing(_)) {
            counts.ring = Some(self.operations().map_err(unreadable)?);
        }
        if let RingSupport::Operations(why) | RingSupport::Nothing(why) = &self.ring {
            counts.ring_why.clone_from(why);
        }
        counts.lost = LOST.into_iter().map(|which| self.total(which)).sum::<Result<u64, _>>()?;
        counts.foreign = self.total(FOREIGN)?;
        counts.threads = self.total(THREADS)?;
        counts.processes = self.total(PROCESSES)?;
        if let Some(events) = &self.events {
            counts.by_phase = events.feed.by_phase();
            counts.times = events.feed.times();
            counts.ring_by_phase = events.feed.ring_by_phase().filter(|_| counts.ring.is_some());
            counts.lost += events.lost(counts.total(), self.total(LOST_EVENTS)?);
        }
        Ok(counts)
    }

    fn calls(&self) -> Result<BTreeMap<String, CallTally>, MapError> {
        let mut calls = tallies(&self.calls, names::call, names::moves_bytes)?;
        for (number, errno, count) in self.failures()? {
            let tally = calls.get_mut(&names::call(number));
            if let Some(tally) = tally.filter(|_| number < operation::FIRST) {
                tally.errors.insert(errno, count);
            }
        }
        for entry in self.kinds.iter() {
            let (key, values) = entry?;
            let [call, kind] = [key >> 32, key & 0xffff_ffff]
                .map(|half| u32::try_from(half).expect("thirty-two bits"));
            if let Some(tally) = calls.get_mut(&names::call(call)) {
                tally.kinds.insert(kinds::name(call, kind), sum(&values));
            }
        }
        Ok(calls)
    }

    fn operations(&self) -> Result<BTreeMap<String, CallTally>, MapError> {
        let mut operations = tallies(&self.operations, names::operation, names::operates_on_bytes)?;
        for (number, errno, count) in self.failures()? {
            let Some(opcode) = number.checked_sub(operation::FIRST) else { continue };
            if let Some(tally) = operations.get_mut(&names::operation(opcode)) {
                tally.errors.insert(errno, count);
            }
        }
        Ok(operations)
    }

    /// Failures: the number of the call (operations follow the calls), the error, and how often.
    fn failures(&self) -> Result<Vec<(u32, i32, u64)>, MapError> {
        let each = self.failures.iter().map(|entry| {
            let (key, values) = entry?;
            let errno = i32::try_from(key & 0xffff).expect("sixteen bits");
            Ok((key >> 16, errno, sum(&values)))
        });
        each.collect()
    }
}

impl EventStream {
    fn new(
        programs: &mut Ebpf,
        feed: EventFeed,
        drained_max: usize,
    ) -> Result<Self, KernelRefusal> {
        look(programs).map_err(|e| refusal(TABLES, &e))?;
        let events = map(programs, EVENTS)?;
        Ok(Self { events, feed, lost_before: 0, drained_max, is_behind: false })
    }

    fn drain(&mut self) {
        for _ in 0..self.drained_max {
            let Some(bytes) = self.events.next() else {
                self.is_behind = false;
                return;
            };
            self.feed
                .enter(CallEvent::read(&bytes).expect("the eBPF program writes complete events"));
        }
        self.is_behind = true;
    }

    /// The number of events missing from phases and times, given the numbers of calls and of lost
    /// events.
    /// It includes events still in the buffer, if the program calls faster than they are read.
    fn lost(&self, calls: u64, events: u64) -> u64 {
        let untaken = match self.is_behind {
            true => calls.saturating_sub(self.feed.processed() + events),
            false => 0,
        };
        self.feed.lost(events + untaken)
    }
}

impl Seed {
    /// `enum seed` of the eBPF program.
    fn key(self) -> u64 {
        match self {
            Self::Process(pid) => u64::from(pid),
            Self::Parent(thread) => 1 << 32 | u64::from(thread),
        }
    }
}

/// Before Linux 5.11 maps are locked memory of their creator, and need more than the usual limit.
/// So the limit is raised as far as permitted while loading, and restored afterwards for child
/// processes.
fn with_locked_memory<T>(load: impl FnOnce() -> T) -> T {
    let before = sys::locked_memory();
    if let Ok((_, hard)) = before {
        let raised = sys::allow_locked_memory(u64::MAX, u64::MAX);
        let _ = raised.or_else(|_| sys::allow_locked_memory(hard, hard)); // may suffice
    }
    let loaded = load();
    if let Ok((soft, hard)) = before {
        let _ = sys::allow_locked_memory(soft, hard); // lowering needs no privilege
    }
    loaded
}

/// Selects the arguments that are counted.
fn select_arguments(programs: &mut Ebpf) -> Result<(), MapError> {
    let map = programs.map_mut("questions").expect("the object has a map of this name");
    let mut questions: Array<&mut MapData, u32> = map.try_into()?;
    kinds::QUESTIONS
        .iter()
        .try_for_each(|(call, question)| questions.set(*call as u32, question.packed(), 0))
}

/// Selects the data that are read.
fn look(programs: &mut Ebpf) -> Result<(), MapError> {
    let map = programs.map_mut("looks").expect("the object has a map of this name");
    let mut looks: Array<&mut MapData, u32> = map.try_into()?;
    event::looks().try_for_each(|(number, look)| looks.set(number, look.packed(), 0))
}

fn attach(programs: &mut Ebpf, program: &str, tracepoint: &str) -> Result<(), ProgramError> {
    let program: &mut RawTracePoint = named(programs, program).try_into()?;
    program.load()?;
    program.attach(tracepoint).map(drop)
}

/// An operation is counted when it is submitted, and its result when it completes. The tracepoint
/// differs between kernels: the verifier accepts the matching program.
fn attach_ring(programs: &mut Ebpf, types: &Btf) -> RingSupport {
    let mut attach = |program: &str, tracepoint: &str| -> Result<(), ProgramError> {
        let program: &mut BtfTracePoint = named(programs, program).try_into()?;
        program.load(tracepoint, types)?;
        program.attach().map(drop)
    };
    let why = |e: &ProgramError| format!("this kernel does not report them: {}", root(e));
    if let Err(e) = attach("on_submit", "io_uring_submit_req") {
        return RingSupport::Nothing(why(&e));
    }
    let mut complete = |program| attach(program, "io_uring_complete");
    match complete("on_complete").or_else(|_| complete("on_complete_by_value")) {
        Ok(()) => RingSupport::Results,
        Err(e) => RingSupport::Operations(why(&e)),
    }
}

fn named<'a>(programs: &'a mut Ebpf, name: &str) -> &'a mut Program {
    programs.program_mut(name).expect("the object has a program of this name")
}

fn map<M: TryFrom<Map, Error = MapError>>(
    programs: &mut Ebpf,
    name: &str,
) -> Result<M, KernelRefusal> {
    let map = programs.take_map(name).expect("the object has a map of this name");
    M::try_from(map).map_err(|e| refusal(TABLES, &e))
}

/// Converts the kernel's tallies (`struct tally`) by number to tallies by name.
fn tallies(
    counted: &PerCpuArray<MapData, [u64; 2]>,
    name: impl Fn(u32) -> String,
    moves_bytes: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, CallTally>, MapError> {
    let mut tallies = BTreeMap::new();
    for (number, values) in iter::zip(0_u32.., counted.iter()) {
        let values = values?;
        let [count, bytes] = [0, 1].map(|at| values.iter().map(|v| v[at]).sum());
        if count > 0 {
            let name = name(number);
            let bytes = if moves_bytes(&name) { bytes } else { 0 };
            tallies.insert(name, CallTally { count, bytes, ..CallTally::default() });
        }
    }
    Ok(tallies)
}

fn sum(values: &PerCpuValues<u64>) -> u64 {
    values.iter().sum()
}

/// Device and inode of this process's pid namespace, which the eBPF program needs to translate
/// numbers. Zeros in the first namespace, which needs no translation, and if `/proc` does not show
/// it.
fn namespace() -> (u64, u64) {
    let found = fs::metadata("/proc/self/ns/pid").map(|info| (info.dev(), info.ino()));
    found.ok().filter(|(_, inode)| *inode != FIRST_NAMESPACE).unwrap_or((0, 0))
}

/// What the kernel lacks if it rejects the object.
fn lacking(error: &EbpfError) -> &'static str {
    match error {
        EbpfError::MapError(MapError::CreateError { name, .. }) if name == EVENTS => RING_BUFFER,
        _ => TABLES,
    }
}

/// Without privileges the first call fails. A program that the verifier rejects gives `EACCES`,
/// which is a different failure.
fn refusal(what: &'static str, error: &(dyn Error + 'static)) -> KernelRefusal {
    let root = root(error);
    let number = root.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    match number {
        Some(sys::errno::EPERM) => KernelRefusal::Privileges,
        _ => KernelRefusal::Kernel { what, why: error_chain(error) },
    }
}

/// The chain of errors on one line. Only the first line of each: the verifier's log is long.
fn error_chain(mut error: &(dyn Error + 'static)) -> String {
    let line = |error: &dyn Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let mut text = line(error);
    while let Some(source) = error.source() {
        error = source;
        text += &format!(": {}", line(error));
    }
    text
}

/// The root cause: the error of the operating system.
fn root<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

fn unreadable(error: MapError) -> AuditError {
    AuditError::Read(root(&error).to_string())
}

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/audit.bpf.o");
/// The same, and sends an event for each call.
static EACH: &[u8] = include_bytes_aligned!("../bpf/each.bpf.o");

/// The tracepoints that follow tasks come first, so that no task is counted before it can be
/// followed.
const TRACEPOINTS: [(&str, &str, &str); 3] = [
    ("on_fork", "sched_process_fork", "raw tracepoints (sched_process_fork)"),
    ("on_end", "sched_process_exit", "raw tracepoints (sched_process_exit)"),
    ("on_return", "sys_exit", "raw tracepoints (sys_exit)"),
];

/// Capacity of the `tasks` map, which is allocated at load: one megabyte.
const TASKS_MAX: u32 = 32_768;

/// Attached only if events are requested.
const STARTS: (&str, &str, &str) = ("on_enter", "sys_enter", "raw tracepoints (sys_enter)");

/// Missing support for the maps of the object.
const TABLES: &str = "the maps of the counter";
/// The ring buffer of events.
const EVENTS: &str = "events";
const RING_BUFFER: &str = "BPF ring buffers (Linux 5.8 or later)";

/// `enum state` of the program.
const AWAITS_EXEC: u32 = 0;

/// `enum total` of the program.
const LOST: [u32; 4] = [0, 1, 2, FOREIGN];
const FOREIGN: u32 = 3;
const THREADS: u32 = 4;
const PROCESSES: u32 = 5;
const LOST_EVENTS: u32 = 6;

/// More events than the buffer holds. If a program calls faster, the reader still returns.
const DRAINED_MAX: usize = 1 << 18;
/// `PROC_PID_INIT_INO` of the kernel: the inode of the pid namespace that holds all others.
const FIRST_NAMESPACE: u64 = 0xefff_fffc;
