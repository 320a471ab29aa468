//! Pattern lists and maps that can be changed at run time (HAProxy's management guide, §9.3:
//! `show acl`, `add map` and so on).
//!
//! ```text
//!  words of a line ─▶ List: entries, in versions; one list for each file,
//!  a file          ─▶   │   and one for each line with patterns
//!                       └─▶ Matcher: the entries, compiled for one condition or map
//! ```
//!
//! A change is validated for all users of a list before it takes effect. Lookups take no lock until
//! the first change.

mod entries;
mod files;
mod matcher;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use entries::Entries;
pub use entries::{ListVersion, PatternEntry};
pub use files::{ConfigFiles, NoFiles};
pub(crate) use matcher::{Matcher, Use};

/// All lists of a configuration. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Lists(Arc<Mutex<Vec<Arc<List>>>>);

/// A list or a map.
#[derive(Debug)]
pub struct List {
    id: usize,
    /// `None` for the patterns of a line.
    file: Option<String>,
    /// Its entries have values.
    is_map: bool,
    state: Mutex<ListState>,
}

#[derive(Debug, Default)]
struct ListState {
    entries: Entries,
    uses: Vec<(Used, Weak<Matcher>)>,
}

/// A user of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// A map; otherwise a condition.
    pub by_map: bool,
    /// The criterion of the condition: `path_beg`.
    pub criterion: String,
    /// The configuration file, and the line.
    pub place: (String, u32),
}

/// The kind of list that a command selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Lists used by conditions.
    Acl,
    /// Lists used by maps.
    Map,
}

/// Why a change was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListError {
    /// An entry is invalid for a user of the list.
    Unfit(String),
    /// The entry does not exist.
    Absent,
    /// The version does not exist.
    NoVersion,
    /// The list has [`ENTRIES_LEN_MAX`] entries.
    Full,
}

/// Selection of entries.
#[derive(Clone, Copy, Debug)]
pub enum EntrySelector<'a> {
    /// Entries with this key.
    Key(&'a [u8]),
    /// The entry with this number.
    Number(u64),
}

impl Lists {
    /// All lists, in the order of their numbers.
    pub fn all(&self) -> Vec<Arc<List>> {
        self.lock().clone()
    }

    /// Finds a list by file name or, after `#`, by number.
    pub fn find(&self, name: &str, sort: Sort) -> Option<Arc<List>> {
        let id = name.strip_prefix('#').map(str::parse);
        let is = |list: &&Arc<List>| match &id {
            Some(id) => Ok(list.id) == *id,
            None => list.file.as_deref() == Some(name),
        };
        self.lock().iter().filter(|list| list.is_used_as(sort)).find(is).cloned()
    }

    fn add(&self, file: Option<String>, is_map: bool, entries: Entries) -> Arc<List> {
        let mut all = self.lock();
        let state = Mutex::new(ListState { entries, uses: Vec::new() });
        let list = Arc::new(List { id: all.len(), file, is_map, state });
        all.push(Arc::clone(&list));
        list
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<List>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The list of a file; reads the file unless it is already loaded.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn of_file(
    path: &str,
    is_map: bool,
    files: &dyn ConfigFiles,
) -> Result<Arc<List>, String> {
    let lists = files.lists();
    let same = |list: &&Arc<List>| list.is_map == is_map && list.file.as_deref() == Some(path);
    if let Some(known) = lists.lock().iter().find(same) {
        return Ok(Arc::clone(known));
    }
    let text = files.read(path).map_err(|error| format!("cannot read '{path}': {error}"))?;
    let mut entries = Entries::default();
    for (number, line) in text::lines(&text) {
        let (key, value) = if is_map { text::pair(line) } else { (line, &b""[..]) };
        entries.push(Some(number), key, value);
    }
    Ok(lists.add(Some(path.to_owned()), is_map, entries))
}

/// A list of the patterns in a line.
pub(crate) fn of_line(keys: Vec<String>, files: &dyn ConfigFiles) -> Arc<List> {
    let mut entries = Entries::default();
    for (at, key) in keys.iter().enumerate() {
        entries.push(Some(at), key.as_bytes(), b"");
    }
    files.lists().add(None, false, entries)
}

/// An entry that is invalid for a user of its list.
#[derive(Clone, Debug)]
pub(crate) struct Unfit {
    /// The line of its file, or its index in the words of a line.
    pub(crate) line: Option<usize>,
    pub(crate) why: String,
}

impl Unfit {
    /// The error message for a file.
    pub(crate) fn of(self, path: &str) -> String {
        let Self { line, why } = self;
        line.map_or_else(|| why.clone(), |line| format!("{path}:{line}: {why}"))
    }
}

impl List {
    /// Its number.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Its file; `None` for the patterns of a line.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Its users.
    pub fn uses(&self) -> Vec<Used> {
        let state = self.lock();
        let uses = state.uses.iter().filter(|(_, matcher)| matcher.strong_count() > 0);
        uses.map(|(used, _)| used.clone()).collect()
    }

    /// The current version, and the latest one.
    pub fn versions(&self) -> (ListVersion, ListVersion) {
        self.lock().entries.versions()
    }

    /// The entries of a version; by default the current one.
    pub fn entries(&self, version: Option<ListVersion>) -> Vec<PatternEntry> {
        self.lock().entries.of(version)
    }

    /// The number of entries in all versions.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// True if it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks a value up for each user: the match method, and the entry found.
    pub fn look_up(&self, value: &[u8]) -> Vec<LookedUp> {
        let state = self.lock();
        let matchers: Vec<_> = state.uses.iter().filter_map(|(_, it)| it.upgrade()).collect();
        let current = state.entries.of(None);
        matchers.iter().map(|it| it.look_up(value, &current)).collect()
    }

    /// Adds entries to a version; none if one of them is rejected.
    ///
    /// # Errors
    /// See [`ListError`].
    pub fn add(
        &self,
        version: Option<ListVersion>,
        entries: &[(&[u8], &[u8])],
    ) -> Result<(), ListError> {
        let mut state = self.lock();
        let version = state.entries.version(version).ok_or(ListError::NoVersion)?;
        if state.entries.len() + entries.len() > ENTRIES_LEN_MAX {
            return Err(ListError::Full);
        }
        let matchers = state.matchers();
        for (key, value) in entries {
            matchers.iter().try_for_each(|it| it.check(key, value)).map_err(ListError::Unfit)?;
        }
        let counts = version == state.entries.versions().0;
        for (key, value) in entries {
            state.entries.push_to(version, key, value);
            if counts {
                matchers.iter().for_each(|it| it.add(key, value));
            }
        }
        Ok(())
    }

    /// Sets the value of entries.
    ///
    /// # Errors
    /// See [`ListError`].
    pub fn set(&self, which: EntrySelector<'_>, value: &[u8]) -> Result<(), ListError> {
        let mut state = self.lock();
        let key = state.entries.key(which).ok_or(ListError::Absent)?;
        let matchers = state.matchers();
        matchers.iter().try_for_each(|it| it.check(&key, value)).map_err(ListError::Unfit)?;
        state.entries.set(which, value);
        state.rebuild();
        Ok(())
    }

    /// Removes entries.
    ///
    /// # Errors
    /// See [`ListError`].
    pub fn remove(&self, which: EntrySelector<'_>) -> Result<(), ListError> {
        let mut state = self.lock();
        match state.entries.remove(which) {
            true => state.rebuild(),
            false => return Err(ListError::Absent),
        }
        Ok(())
    }

    /// Removes all entries of a version.
    ///
    /// # Errors
    /// See [`ListError`].
    pub fn clear(&self, version: Option<ListVersion>) -> Result<(), ListError> {
        let mut state = self.lock();
        let version = state.entries.version(version).ok_or(ListError::NoVersion)?;
        state.entries.clear(version);
        state.rebuild();
        Ok(())
    }

    /// Creates an empty version, and returns its number.
    pub fn prepare(&self) -> ListVersion {
        self.lock().entries.prepare()
    }

    /// Makes a version current, and removes the earlier ones.
    ///
    /// # Errors
    /// See [`ListError`].
    pub fn commit(&self, version: ListVersion) -> Result<(), ListError> {
        let mut state = self.lock();
        if !state.entries.commit(version) {
            return Err(ListError::NoVersion);
        }
        state.rebuild();
        Ok(())
    }

    fn is_used_as(&self, sort: Sort) -> bool {
        self.uses().iter().any(|used| used.by_map == (sort == Sort::Map))
    }

    /// Compiles the entries for a new user.
    ///
    /// # Errors
    /// An entry is invalid for it.
    pub(crate) fn matcher(&self, used: Used, how: Use) -> Result<Arc<Matcher>, Unfit> {
        let mut state = self.lock();
        let matcher = Arc::new(Matcher::new(how, &state.entries.of(None))?);
        state.uses.push((used, Arc::downgrade(&matcher)));
        Ok(matcher)
    }

    fn lock(&self) -> MutexGuard<'_, ListState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListState {
    fn matchers(&self) -> Vec<Arc<Matcher>> {
        self.uses.iter().filter_map(|(_, it)| it.upgrade()).collect()
    }

    fn rebuild(&self) {
        let current = self.entries.of(None);
        self.matchers().iter().for_each(|it| it.rebuild(&current));
    }
}

/// The result of a lookup for one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// The match method, as for `-m`.
    pub method: &'static str,
    /// Case-insensitive.
    pub ignores_case: bool,
    /// Found by an index, not by a linear search.
    pub is_indexed: bool,
    /// The entry found.
    pub found: Option<PatternEntry>,
    /// The type of a map's values.
    pub to: Option<crate::rules::sample::Type>,
}

/// Limit of entries in all versions: some gigabytes of memory.
pub const ENTRIES_LEN_MAX: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rules::pattern::MatchMethod;
    use crate::rules::sample::{Sample, Type};

    /// An operation of an operator.
    #[derive(Clone, Debug)]
    enum ListChange {
        Add(String, i64),
        Set(String, i64),
        Remove(String),
        Number(u64),
        Clear,
        Prepare,
        AddLater(String, i64),
        Commit(ListVersion),
    }

    fn act() -> impl Strategy<Value = ListChange> {
        let key = || "[ab]{1,3}";
        prop_oneof![
            4 => (key(), 0..9i64).prop_map(|(key, value)| ListChange::Add(key, value)),
            2 => (key(), 0..9i64).prop_map(|(key, value)| ListChange::Set(key, value)),
            2 => key().prop_map(ListChange::Remove),
            1 => (0..9u64).prop_map(ListChange::Number),
            1 => Just(ListChange::Clear),
            1 => Just(ListChange::Prepare),
            2 => (key(), 0..9i64).prop_map(|(key, value)| ListChange::AddLater(key, value)),
            1 => (0..4u32).prop_map(ListChange::Commit),
        ]
    }

    fn perform(list: &List, act: ListChange) {
        let text = |value: i64| value.to_string();
        let latest = list.versions().1;
        let outcome = match act {
            ListChange::Add(key, value) => {
                list.add(None, &[(key.as_bytes(), text(value).as_bytes())])
            }
            ListChange::Set(key, value) => {
                list.set(EntrySelector::Key(key.as_bytes()), text(value).as_bytes())
            }
            ListChange::Remove(key) => list.remove(EntrySelector::Key(key.as_bytes())),
            ListChange::Number(number) => list.remove(EntrySelector::Number(number)),
            ListChange::Clear => list.clear(None),
            ListChange::Prepare => {
                list.prepare();
                Ok(())
            }
            ListChange::AddLater(key, value) => {
                list.add(Some(latest), &[(key.as_bytes(), text(value).as_bytes())])
            }
            ListChange::Commit(version) => list.commit(version),
        };
        assert!(!matches!(outcome, Err(ListError::Unfit(_) | ListError::Full)), "{outcome:?}");
    }

    proptest! {
        /// After any changes, a list gives the same results as a newly loaded one.
        #[test]
        fn changed_lists_equal_newly_loaded_ones(
            acts in prop::collection::vec(act(), 0..24),
            asked in "[ab]{1,4}",
        ) {
            let list = Lists::default().add(None, true, Entries::default());
            let used = Used { by_map: true, criterion: String::new(), place: Default::default() };
            let how = |method| Use { method, ignore_case: false, to: Some(Type::Int) };
            for method in [MatchMethod::Str, MatchMethod::Beg, MatchMethod::Sub, MatchMethod::Reg] {
                let old = list.matcher(used.clone(), how(method)).unwrap();
                for act in acts.clone() {
                    perform(&list, act);
                }
                let new = list.matcher(used.clone(), how(method)).unwrap();
                let value = || Sample::text(asked.as_bytes());
                prop_assert_eq!(old.find(value()), new.find(value()));
                prop_assert_eq!(old.matches(value()), new.matches(value()));
            }
        }
    }

    #[test]
    fn an_invalid_entry_rejects_all() {
        let list = Lists::default().add(None, true, Entries::default());
        let used = Used { by_map: true, criterion: String::new(), place: Default::default() };
        let how = Use { method: MatchMethod::Str, ignore_case: false, to: Some(Type::Int) };
        let matcher = list.matcher(used, how).unwrap();
        let refused = list.add(None, &[(b"a", b"1"), (b"b", b"x")]);
        assert_eq!(refused, Err(ListError::Unfit("the value is not of type integer".to_owned())));
        assert!(list.is_empty() && matcher.find(Sample::text(b"a")).is_none());
        assert_eq!(list.add(Some(1), &[]), Err(ListError::NoVersion));
    }
}
