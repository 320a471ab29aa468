//! The counter in the kernel: loads `bpf/audit.bpf.c`, tells it whom to watch, reads its maps.
//!
//! What is counted and how tasks are followed is written there.

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

use crate::counts::{Backend, Counts, Tally};
use crate::error::{AuditError, Refusal};
use crate::event::{self, Event};
use crate::feed::Feed;
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
    /// Each call, if somebody wants it.
    told: Option<Told>,
    ring: Ring,
    /// Our numbers of processes are not those of the first namespace.
    in_namespace: bool,
    /// Last, so that the programs go first.
    _programs: Ebpf,
}

/// How much is to be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Tasks that are followed at a time; more are told as lost.
    pub(crate) tasks_max: u32,
    /// Operations of io_uring too. Reading the kernel's types for them takes the longest.
    pub(crate) rings: bool,
}

/// How much the kernel tells of io_uring.
enum Ring {
    /// Which operations, and what came of them.
    Results,
    /// Which operations; why not their results.
    Operations(String),
    /// Nothing; why.
    Nothing(String),
}

/// Calls one by one, and what is made of them.
struct Told {
    events: RingBuf<MapData>,
    feed: Feed,
    /// Events that were lost before the timeline began.
    lost_before: u64,
}

/// Whom the program looks for, by number, until it knows their tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seed {
    /// The threads of this process, from now on.
    Process(u32),
    /// Processes that this thread starts, from their `execve` on.
    Parent(u32),
}

impl Default for Extent {
    fn default() -> Self {
        Self { tasks_max: TASKS_MAX, rings: true }
    }
}

impl Kernel {
    /// Loads and attaches: from here on every system call on the machine passes by the counter,
    /// which counts nobody's before it is told of a seed. A feed is told of each call.
    pub(crate) fn load(feed: Option<Feed>, extent: Extent) -> Result<Self, Refusal> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Refusal::Machine);
        }
        let types = match extent.rings {
            true => Btf::from_sys_fs().map_err(|_| "this kernel does not tell its types (BTF)"),
            false => Err("nobody asked"),
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
        ask(&mut programs).map_err(|e| refusal(TABLES, &e))?;
        let starts = feed.iter().map(|_| &STARTS);
        for (program, tracepoint, doing) in starts.chain(&TRACEPOINTS) {
            attach(&mut programs, program, tracepoint).map_err(|e| refusal(doing, &e))?;
        }
        let told = feed.map(|feed| Told::new(&mut programs, feed)).transpose()?;
        let ring = match &types {
            Ok(types) => attach_ring(&mut programs, types),
            Err(why) => Ring::Nothing((*why).to_owned()),
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
            told,
            ring,
            in_namespace: inode != 0,
            _programs: programs,
        })
    }

    /// Watches whom the seed names.
    pub(crate) fn plant(&mut self, seed: Seed) -> Result<(), AuditError> {
        self.seeds.insert(seed.key(), 0, 0).map_err(unreadable)
    }

    /// Looks for them no longer; those who were found are watched on.
    pub(crate) fn lift(&mut self, seed: Seed) -> Result<(), AuditError> {
        self.seeds.remove(&seed.key()).map_err(unreadable)
    }

    /// True if a task of this process is watched and lives; also if that is not for us to know, in
    /// a namespace of our own.
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

    /// Takes what was told of calls, so that there is room for others. True if that is wanted.
    pub(crate) fn drain(&mut self) -> bool {
        self.told.as_mut().map(Told::drain).is_some()
    }

    /// Begins the timeline anew.
    pub(crate) fn record(&mut self) -> Result<(), AuditError> {
        let lost = self.total(LOST_EVENTS)?;
        if let Some(told) = &mut self.told {
            told.drain();
            told.feed.record();
            told.lost_before = lost;
        }
        Ok(())
    }

    /// The timeline so far, if one was asked for.
    pub(crate) fn timeline(&mut self) -> Result<Option<Timeline>, AuditError> {
        let lost = self.total(LOST_EVENTS)?;
        Ok(self.told.as_mut().and_then(|told| {
            told.drain();
            told.feed.timeline(lost - told.lost_before)
        }))
    }

    fn total(&self, which: u32) -> Result<u64, AuditError> {
        self.totals.get(&which, 0).map(|values| sum(&values)).map_err(unreadable)
    }

    /// What was counted so far. The time is the caller's to tell.
    pub(crate) fn snapshot(&mut self) -> Result<Counts, AuditError> {
        self.drain();
        let mut counts = Counts::none(Backend::Ebpf);
        counts.calls = self.calls().map_err(unreadable)?;
        if !matches!(self.ring, Ring::Nothing(_)) {
            counts.ring = Some(self.operations().map_err(unreadable)?);
        }
        if let Ring::Operations(why) | Ring::Nothing(why) = &self.ring {
            counts.ring_why.clone_from(why);
        }
        counts.lost = LOST.into_iter().map(|which| self.total(which)).sum::<Result<u64, _>>()?;
        counts.foreign = self.total(FOREIGN)?;
        counts.threads = self.total(THREADS)?;
        counts.processes = self.total(PROCESSES)?;
        if let Some(Told { feed, .. }) = &self.told {
            counts.by_phase = feed.by_phase();
            counts.ring_by_phase = feed.ring_by_phase().filter(|_| counts.ring.is_some());
            counts.lost += feed.lost(self.total(LOST_EVENTS)?);
        }
        Ok(counts)
    }

    fn calls(&self) -> Result<BTreeMap<String, Tally>, MapError> {
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

    fn operations(&self) -> Result<BTreeMap<String, Tally>, MapError> {
        let mut operations = tallies(&self.operations, names::operation, names::operates_on_bytes)?;
        for (number, errno, count) in self.failures()? {
            let Some(opcode) = number.checked_sub(operation::FIRST) else { continue };
            if let Some(tally) = operations.get_mut(&names::operation(opcode)) {
                tally.errors.insert(errno, count);
            }
        }
        Ok(operations)
    }

    /// Of calls by their numbers, and of operations behind them: the error, and how often.
    fn failures(&self) -> Result<Vec<(u32, i32, u64)>, MapError> {
        let each = self.failures.iter().map(|entry| {
            let (key, values) = entry?;
            let errno = i32::try_from(key & 0xffff).expect("sixteen bits");
            Ok((key >> 16, errno, sum(&values)))
        });
        each.collect()
    }
}

impl Told {
    fn new(programs: &mut Ebpf, feed: Feed) -> Result<Self, Refusal> {
        look(programs).map_err(|e| refusal(TABLES, &e))?;
        Ok(Self { events: map(programs, EVENTS)?, feed, lost_before: 0 })
    }

    fn drain(&mut self) {
        for _ in 0..DRAINED_MAX {
            let Some(bytes) = self.events.next() else { break };
            self.feed.enter(Event::read(&bytes).expect("the program writes whole events"));
        }
    }
}

impl Seed {
    /// As in `enum seed` of the program.
    fn key(self) -> u64 {
        match self {
            Self::Process(pid) => u64::from(pid),
            Self::Parent(thread) => 1 << 32 | u64::from(thread),
        }
    }
}

/// Before Linux 5.11 tables of the kernel are locked memory of who makes them, and the usual limit is
/// less than they take: it is raised as far as we may. What is started later has the limit that was
/// there.
fn with_locked_memory<T>(load: impl FnOnce() -> T) -> T {
    let before = sys::locked_memory();
    if let Ok((_, hard)) = before {
        let raised = sys::allow_locked_memory(u64::MAX, u64::MAX);
        let _ = raised.or_else(|_| sys::allow_locked_memory(hard, hard)); // it may be enough as it is
    }
    let loaded = load();
    if let Ok((soft, hard)) = before {
        let _ = sys::allow_locked_memory(soft, hard); // to less, which everybody may
    }
    loaded
}

/// Of which calls an argument is looked at.
fn ask(programs: &mut Ebpf) -> Result<(), MapError> {
    let map = programs.map_mut("questions").expect("the object has a map of this name");
    let mut questions: Array<&mut MapData, u32> = map.try_into()?;
    kinds::QUESTIONS
        .iter()
        .try_for_each(|(call, question)| questions.set(*call as u32, question.packed(), 0))
}

/// Which calls and operations point to what is looked at.
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

/// An operation is counted as it is submitted, and its result when it completes. How a kernel tells
/// of that has changed: the verifier takes the program that fits.
fn attach_ring(programs: &mut Ebpf, types: &Btf) -> Ring {
    let mut attach = |program: &str, tracepoint: &str| -> Result<(), ProgramError> {
        let program: &mut BtfTracePoint = named(programs, program).try_into()?;
        program.load(tracepoint, types)?;
        program.attach().map(drop)
    };
    let why = |e: &ProgramError| format!("this kernel does not tell of them: {}", root(e));
    if let Err(e) = attach("on_submit", "io_uring_submit_req") {
        return Ring::Nothing(why(&e));
    }
    let mut complete = |program| attach(program, "io_uring_complete");
    match complete("on_complete").or_else(|_| complete("on_complete_by_value")) {
        Ok(()) => Ring::Results,
        Err(e) => Ring::Operations(why(&e)),
    }
}

fn named<'a>(programs: &'a mut Ebpf, name: &str) -> &'a mut Program {
    programs.program_mut(name).expect("the object has a program of this name")
}

fn map<M: TryFrom<Map, Error = MapError>>(programs: &mut Ebpf, name: &str) -> Result<M, Refusal> {
    let map = programs.take_map(name).expect("the object has a map of this name");
    M::try_from(map).map_err(|e| refusal(TABLES, &e))
}

/// What was counted by number, by name: `struct tally` of the program.
fn tallies(
    counted: &PerCpuArray<MapData, [u64; 2]>,
    name: impl Fn(u32) -> String,
    moves_bytes: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Tally>, MapError> {
    let mut tallies = BTreeMap::new();
    for (number, values) in iter::zip(0_u32.., counted.iter()) {
        let values = values?;
        let [count, bytes] = [0, 1].map(|at| values.iter().map(|v| v[at]).sum());
        if count > 0 {
            let name = name(number);
            let bytes = if moves_bytes(&name) { bytes } else { 0 };
            tallies.insert(name, Tally { count, bytes, ..Tally::default() });
        }
    }
    Ok(tallies)
}

fn sum(values: &PerCpuValues<u64>) -> u64 {
    values.iter().sum()
}

/// Device and inode of our pid namespace, for a program that is to know our numbers; zeros in the
/// first namespace, whose numbers it knows anyway, and where there is no telling.
fn namespace() -> (u64, u64) {
    let found = fs::metadata("/proc/self/ns/pid").map(|info| (info.dev(), info.ino()));
    found.ok().filter(|(_, inode)| *inode != FIRST_NAMESPACE).unwrap_or((0, 0))
}

/// What a kernel cannot do that does not take the object.
fn lacking(error: &EbpfError) -> &'static str {
    match error {
        EbpfError::MapError(MapError::CreateError { name, .. }) if name == EVENTS => RING_BUFFER,
        _ => TABLES,
    }
}

/// Without privileges the first call fails, whatever the kernel could do. A program that the
/// kernel does not understand is `EACCES`, which is another matter.
fn refusal(what: &'static str, error: &(dyn Error + 'static)) -> Refusal {
    let root = root(error);
    let number = root.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    match number {
        Some(sys::errno::EPERM) => Refusal::Privileges,
        _ => Refusal::Kernel { what, why: told(error) },
    }
}

/// What was tried and what the system said, on one line: of a program that was refused, the
/// verifier says much more.
fn told(mut error: &(dyn Error + 'static)) -> String {
    let line = |error: &dyn Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let mut text = line(error);
    while let Some(source) = error.source() {
        error = source;
        text += &format!(": {}", line(error));
    }
    text
}

/// What lies at the bottom of an error: what the system said.
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
/// The same, and tells of each call.
static EACH: &[u8] = include_bytes_aligned!("../bpf/each.bpf.o");

/// Those who follow tasks come first, so that no task is counted before it can be followed.
const TRACEPOINTS: [(&str, &str, &str); 3] = [
    ("on_fork", "sched_process_fork", "tell of new processes (raw tracepoints)"),
    ("on_end", "sched_process_exit", "tell of ended processes (raw tracepoints)"),
    ("on_return", "sys_exit", "tell of system calls (raw tracepoints)"),
];

/// Room in `tasks`, which is made when the counter is loaded: a megabyte.
const TASKS_MAX: u32 = 32_768;

/// Only where each call is wanted.
const STARTS: (&str, &str, &str) =
    ("on_enter", "sys_enter", "tell of system calls that begin (raw tracepoints)");

/// What a kernel cannot do that does not take the object's maps.
const TABLES: &str = "hold the counter's tables";
/// Calls are handed out through it, one by one.
const EVENTS: &str = "events";
const RING_BUFFER: &str = "tell of each call (a ring buffer, which Linux has since 5.8)";

/// `enum state` of the program.
const AWAITS_EXEC: u32 = 0;

/// `enum total` of the program.
const LOST: [u32; 4] = [0, 1, 2, FOREIGN];
const FOREIGN: u32 = 3;
const THREADS: u32 = 4;
const PROCESSES: u32 = 5;
const LOST_EVENTS: u32 = 6;

/// More than there is room for; a program that calls faster than that is taken leaves us time.
const DRAINED_MAX: usize = 1 << 18;
/// `PROC_PID_INIT_INO` of the kernel: the inode of the pid namespace that holds all others.
const FIRST_NAMESPACE: u64 = 0xefff_fffc;
