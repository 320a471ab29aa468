//! A list as compiled for one condition or map.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use super::entries::PatternEntry;
use super::text::typed;
use super::{LookedUp, Unfit};
use crate::rules::pattern::{MatchMethod, Patterns};
use crate::rules::sample::{Sample, Type};

/// How a condition or a map uses a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) method: MatchMethod,
    pub(crate) ignore_case: bool,
    /// The type of a map's values.
    pub(crate) to: Option<Type>,
}

/// The compiled entries of a list.
#[derive(Debug)]
pub(crate) struct Matcher {
    how: Use,
    /// The initial entries: used without a lock until the first change.
    first: CompiledEntries,
    is_changed: AtomicBool,
    now: RwLock<CompiledEntries>,
}

/// Keys, which are patterns, and their values.
#[derive(Clone, Debug)]
struct CompiledEntries {
    keys: Patterns,
    values: Vec<Sample<'static>>,
}

impl CompiledEntries {
    fn new(method: MatchMethod) -> Self {
        Self { keys: Patterns::new(method), values: Vec::new() }
    }

    fn add(&mut self, how: Use, key: &[u8], value: &[u8]) -> Result<(), String> {
        let value = how
            .to
            .map(|to| typed(value, to).ok_or_else(|| format!("the value is not of type {to}")));
        let value = value.transpose()?;
        self.keys.add(key, how.ignore_case)?;
        self.values.extend(value);
        Ok(())
    }
}

impl Matcher {
    pub(super) fn new(how: Use, entries: &[PatternEntry]) -> Result<Self, Unfit> {
        let mut first = CompiledEntries::new(how.method);
        for PatternEntry { line, key, value, .. } in entries {
            first.add(how, key, value).map_err(|why| Unfit { line: *line, why })?;
        }
        let now = RwLock::new(CompiledEntries::new(how.method));
        Ok(Self { how, first, is_changed: AtomicBool::new(false), now })
    }

    pub(crate) fn method(&self) -> MatchMethod {
        self.how.method
    }

    /// True if it had no entries after parsing.
    pub(crate) fn was_empty(&self) -> bool {
        self.first.keys.is_empty()
    }

    /// True if an entry matches a value. `-m found` matches even false.
    pub(crate) fn matches(&self, value: Sample<'_>) -> bool {
        self.how.method == MatchMethod::Found || self.with(|table| table.keys.find(value).is_some())
    }

    /// The value of the first matching key, or of the most specific one.
    pub(crate) fn find(&self, value: Sample<'_>) -> Option<Sample<'_>> {
        if !self.is_changed.load(Ordering::Acquire) {
            return self.first.values.get(self.first.keys.find(value)?).map(Sample::borrowed);
        }
        self.with(|table| table.values.get(table.keys.find(value)?).cloned())
    }

    /// The same for a text; `expand` processes the value with the groups of the key's regex.
    pub(crate) fn find_expanded(
        &self,
        text: &[u8],
        expand: impl FnOnce(&[u8], &regex::bytes::Captures<'_>) -> Vec<u8>,
    ) -> Option<Vec<u8>> {
        self.with(|table| {
            let at = table.keys.find(Sample::text(text))?;
            let groups = table.keys.regex(at)?.captures(text)?;
            let Sample::Text(template) = table.values.get(at)? else { return None };
            Some(expand(template, &groups))
        })
    }

    /// Checks whether an entry is valid.
    pub(super) fn check(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        CompiledEntries::new(self.how.method).add(self.how, key, value)
    }

    /// Adds a checked entry.
    pub(super) fn add(&self, key: &[u8], value: &[u8]) {
        self.change(|table, how| {
            table.add(how, key, value).expect("the entry was checked");
        });
    }

    /// Replaces the entries by checked ones.
    pub(super) fn rebuild(&self, entries: &[PatternEntry]) {
        let mut table = CompiledEntries::new(self.how.method);
        for entry in entries {
            table.add(self.how, &entry.key, &entry.value).expect("the entry was checked");
        }
        self.change(|now, _| *now = table);
    }

    pub(super) fn look_up(&self, value: &[u8], entries: &[PatternEntry]) -> LookedUp {
        let found = self.with(|table| table.keys.find(Sample::text(value)));
        LookedUp {
            method: self.how.method.name(),
            ignores_case: self.how.ignore_case,
            is_indexed: self.how.method.is_indexed(self.how.ignore_case),
            found: found.and_then(|at| entries.get(at).cloned()),
            to: self.how.to,
        }
    }

    fn with<R>(&self, ask: impl FnOnce(&CompiledEntries) -> R) -> R {
        match self.is_changed.load(Ordering::Acquire) {
            false => ask(&self.first),
            true => ask(&self.now.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn change(&self, act: impl FnOnce(&mut CompiledEntries, Use)) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if !self.is_changed.load(Ordering::Relaxed) {
            *now = self.first.clone();
        }
        act(&mut now, self.how);
        self.is_changed.store(true, Ordering::Release);
    }
}
