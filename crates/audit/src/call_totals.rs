//! The totals of the calls with one number.

use std::collections::{BTreeMap, HashMap};

use crate::counts::CallTally;
use crate::{kinds, names};

/// The totals of one call.
#[derive(Debug, Default)]
pub(crate) struct CallTotals {
    count: u64,
    bytes: u64,
    errors: HashMap<i32, u64>,
    kinds: HashMap<u32, u64>,
}

impl CallTotals {
    /// Adds one call with this result.
    pub(crate) fn enter(&mut self, number: u32, result: i64) {
        self.count += 1;
        if result >= 0 || !names::is_signal_return(number) {
            self.conclude(result);
        }
    }

    /// Adds one call of this kind.
    pub(crate) fn enter_kind(&mut self, kind: u32) {
        *self.kinds.entry(kind).or_default() += 1;
    }

    fn conclude(&mut self, result: i64) {
        match names::error(result) {
            Some(errno) => *self.errors.entry(errno).or_default() += 1,
            None => self.bytes = self.bytes.wrapping_add(result.unsigned_abs()),
        }
    }

    /// Adds a completed operation; only its result if the operation is not counted.
    pub(crate) fn complete(&mut self, is_counted: bool, result: i64) {
        self.count += u64::from(is_counted);
        self.conclude(result);
    }

    /// Counts an operation with received data that were not read.
    pub(crate) fn unseen(&mut self) {
        self.enter_kind(UNSEEN);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The name and the tally of the operation.
    pub(crate) fn operation(&self, opcode: u32) -> (String, CallTally) {
        let name = names::operation(opcode);
        let kinds = self.kinds.values().map(|count| (kinds::UNSEEN.to_owned(), *count)).collect();
        let tally = self.tally(names::operates_on_bytes(&name), kinds);
        (name, tally)
    }

    /// The name and the tally of the call.
    pub(crate) fn call(&self, number: u32) -> (String, CallTally) {
        let name = names::call(number);
        let kind = |(kind, count): (&u32, &u64)| (kinds::name(number, *kind), *count);
        let tally = self.tally(names::moves_bytes(&name), self.kinds.iter().map(kind).collect());
        (name, tally)
    }

    fn tally(&self, moves_bytes: bool, kinds: BTreeMap<String, u64>) -> CallTally {
        let bytes = if moves_bytes { self.bytes } else { 0 };
        let errors = self.errors.iter().map(|(errno, count)| (*errno, *count)).collect();
        CallTally { count: self.count, errors, bytes, kinds }
    }
}

/// The only kind of an operation.
const UNSEEN: u32 = 0;
