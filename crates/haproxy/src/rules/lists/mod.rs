//! Lists of patterns, and maps, that can be changed while they are used (HAProxy's management guide,
//! §9.3: `show acl`, `add map` and their like).
//!
//! ```text
//!  words of a line ─▶ List: entries as they are written, in versions
//!  a file          ─▶   │   one for each file, and one for each list without a file
//!                       └─▶ Matcher: what they are to one condition or map, ready to be asked
//! ```
//!
//! A change is checked against all who use a list before any of them sees it. Who only asks does
//! not wait, as long as nothing was ever changed.

mod entries;
mod files;
mod matcher;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use entries::Entries;
pub use entries::{Entry, Version};
pub use files::{Files, NoFiles};
pub(crate) use matcher::{Matcher, Use};

/// All lists of a configuration. What is cloned is the same.
#[derive(Clone, Debug, Default)]
pub struct Lists(Arc<Mutex<Vec<Arc<List>>>>);

/// A list, or a map.
#[derive(Debug)]
pub struct List {
    id: usize,
    /// `None`: it stands in a line.
    file: Option<String>,
    /// Its entries have values.
    is_map: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: Entries,
    uses: Vec<(Used, Weak<Matcher>)>,
}

/// Who uses a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// By a map; or else by a condition.
    pub by_map: bool,
    /// What the condition asks for: `path_beg`.
    pub criterion: String,
    /// The file of the configuration, and the line.
    pub place: (String, u32),
}

/// Which of an operator's lists are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Those that conditions use.
    Acl,
    /// Those that maps use.
    Map,
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// An entry is none to who uses the list.
    Unfit(String),
    /// There is no such entry.
    Absent,
    /// There is no such version.
    NoVersion,
    /// There are [`ENTRIES_LEN_MAX`].
    Full,
}

/// Entries that are meant.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those with this key.
    Key(&'a [u8]),
    /// The one with this number.
    Number(u64),
}

impl Lists {
    /// All of them, in the order of their numbers.
    pub fn all(&self) -> Vec<Arc<List>> {
        self.lock().clone()
    }

    /// By the name of its file, or its number behind `#`.
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
        let state = Mutex::new(State { entries, uses: Vec::new() });
        let list = Arc::new(List { id: all.len(), file, is_map, state });
        all.push(Arc::clone(&list));
        list
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<List>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The list that is in a file: the one that is there, or it is read.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn of_file(path: &str, is_map: bool, files: &dyn Files) -> Result<Arc<List>, String> {
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

/// A list of what stands in a line.
pub(crate) fn of_line(keys: Vec<String>, files: &dyn Files) -> Arc<List> {
    let mut entries = Entries::default();
    for (at, key) in keys.iter().enumerate() {
        entries.push(Some(at), key.as_bytes(), b"");
    }
    files.lists().add(None, false, entries)
}

/// An entry that is none to a user of its list.
#[derive(Clone, Debug)]
pub(crate) struct Unfit {
    /// The line of its file; or its place among the words of a line.
    pub(crate) line: Option<usize>,
    pub(crate) why: String,
}

impl Unfit {
    /// As it is told of a file.
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

    /// The file that it was read from; `None`: it stands in a line.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Who uses it.
    pub fn uses(&self) -> Vec<Used> {
        let state = self.lock();
        let uses = state.uses.iter().filter(|(_, matcher)| matcher.strong_count() > 0);
        uses.map(|(used, _)| used.clone()).collect()
    }

    /// The version that counts, and the latest that was begun.
    pub fn versions(&self) -> (Version, Version) {
        self.lock().entries.versions()
    }

    /// Entries of a version; `None`: of the one that counts.
    pub fn entries(&self, version: Option<Version>) -> Vec<Entry> {
        self.lock().entries.of(version)
    }

    /// How many entries there are, in all versions.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What each user of the list makes of a value: in its own words, and the entry that is found.
    pub fn look_up(&self, value: &[u8]) -> Vec<LookedUp> {
        let state = self.lock();
        let matchers: Vec<_> = state.uses.iter().filter_map(|(_, it)| it.upgrade()).collect();
        let current = state.entries.of(None);
        matchers.iter().map(|it| it.look_up(value, &current)).collect()
    }

    /// Adds entries to a version; none of them, if one is refused.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn add(&self, version: Option<Version>, entries: &[(&[u8], &[u8])]) -> Result<(), Refused> {
        let mut state = self.lock();
        let version = state.entries.version(version).ok_or(Refused::NoVersion)?;
        if state.entries.len() + entries.len() > ENTRIES_LEN_MAX {
            return Err(Refused::Full);
        }
        let matchers = state.matchers();
        for (key, value) in entries {
            matchers.iter().try_for_each(|it| it.check(key, value)).map_err(Refused::Unfit)?;
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

    /// Gives entries another value.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn set(&self, which: Which<'_>, value: &[u8]) -> Result<(), Refused> {
        let mut state = self.lock();
        let key = state.entries.key(which).ok_or(Refused::Absent)?;
        let matchers = state.matchers();
        matchers.iter().try_for_each(|it| it.check(&key, value)).map_err(Refused::Unfit)?;
        state.entries.set(which, value);
        state.rebuild();
        Ok(())
    }

    /// Takes entries away.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn remove(&self, which: Which<'_>) -> Result<(), Refused> {
        let mut state = self.lock();
        match state.entries.remove(which) {
            true => state.rebuild(),
            false => return Err(Refused::Absent),
        }
        Ok(())
    }

    /// Takes all entries of a version away.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn clear(&self, version: Option<Version>) -> Result<(), Refused> {
        let mut state = self.lock();
        let version = state.entries.version(version).ok_or(Refused::NoVersion)?;
        state.entries.clear(version);
        state.rebuild();
        Ok(())
    }

    /// Begins a version, empty: its number.
    pub fn prepare(&self) -> Version {
        self.lock().entries.prepare()
    }

    /// From now on a version counts; those before it are gone.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn commit(&self, version: Version) -> Result<(), Refused> {
        let mut state = self.lock();
        if !state.entries.commit(version) {
            return Err(Refused::NoVersion);
        }
        state.rebuild();
        Ok(())
    }

    fn is_used_as(&self, sort: Sort) -> bool {
        self.uses().iter().any(|used| used.by_map == (sort == Sort::Map))
    }

    /// Makes what its entries are to a new user.
    ///
    /// # Errors
    /// An entry is none to it.
    pub(crate) fn matcher(&self, used: Used, how: Use) -> Result<Arc<Matcher>, Unfit> {
        let mut state = self.lock();
        let matcher = Arc::new(Matcher::new(how, &state.entries.of(None))?);
        state.uses.push((used, Arc::downgrade(&matcher)));
        Ok(matcher)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn matchers(&self) -> Vec<Arc<Matcher>> {
        self.uses.iter().filter_map(|(_, it)| it.upgrade()).collect()
    }

    fn rebuild(&self) {
        let current = self.entries.of(None);
        self.matchers().iter().for_each(|it| it.rebuild(&current));
    }
}

/// What a user of a list makes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// How it compares, by its name behind `-m`.
    pub method: &'static str,
    /// Case does not matter.
    pub ignores_case: bool,
    /// Looked up, not tried one after the other.
    pub is_indexed: bool,
    /// The entry that was found.
    pub found: Option<Entry>,
    /// The type of its values, if it is a map.
    pub to: Option<crate::rules::sample::Type>,
}

/// Entries of a list, in all versions: some gigabytes of memory.
pub const ENTRIES_LEN_MAX: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rules::pattern::Method;
    use crate::rules::sample::{Sample, Type};

    /// Something that an operator does.
    #[derive(Clone, Debug)]
    enum Act {
        Add(String, i64),
        Set(String, i64),
        Remove(String),
        Number(u64),
        Clear,
        Prepare,
        AddLater(String, i64),
        Commit(Version),
    }

    fn act() -> impl Strategy<Value = Act> {
        let key = || "[ab]{1,3}";
        prop_oneof![
            4 => (key(), 0..9i64).prop_map(|(key, value)| Act::Add(key, value)),
            2 => (key(), 0..9i64).prop_map(|(key, value)| Act::Set(key, value)),
            2 => key().prop_map(Act::Remove),
            1 => (0..9u64).prop_map(Act::Number),
            1 => Just(Act::Clear),
            1 => Just(Act::Prepare),
            2 => (key(), 0..9i64).prop_map(|(key, value)| Act::AddLater(key, value)),
            1 => (0..4u32).prop_map(Act::Commit),
        ]
    }

    fn perform(list: &List, act: Act) {
        let text = |value: i64| value.to_string();
        let latest = list.versions().1;
        let outcome = match act {
            Act::Add(key, value) => list.add(None, &[(key.as_bytes(), text(value).as_bytes())]),
            Act::Set(key, value) => list.set(Which::Key(key.as_bytes()), text(value).as_bytes()),
            Act::Remove(key) => list.remove(Which::Key(key.as_bytes())),
            Act::Number(number) => list.remove(Which::Number(number)),
            Act::Clear => list.clear(None),
            Act::Prepare => {
                list.prepare();
                Ok(())
            }
            Act::AddLater(key, value) => {
                list.add(Some(latest), &[(key.as_bytes(), text(value).as_bytes())])
            }
            Act::Commit(version) => list.commit(version),
        };
        assert!(!matches!(outcome, Err(Refused::Unfit(_) | Refused::Full)), "{outcome:?}");
    }

    proptest! {
        /// However a list has come to what it is, its users make of it what a new one does.
        #[test]
        fn changed_lists_are_as_if_they_had_been_read_so(
            acts in prop::collection::vec(act(), 0..24),
            asked in "[ab]{1,4}",
        ) {
            let list = Lists::default().add(None, true, Entries::default());
            let used = Used { by_map: true, criterion: String::new(), place: Default::default() };
            let how = |method| Use { method, ignore_case: false, to: Some(Type::Int) };
            for method in [Method::Str, Method::Beg, Method::Sub, Method::Reg] {
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
    fn nothing_is_taken_of_entries_of_which_one_is_wrong() {
        let list = Lists::default().add(None, true, Entries::default());
        let used = Used { by_map: true, criterion: String::new(), place: Default::default() };
        let how = Use { method: Method::Str, ignore_case: false, to: Some(Type::Int) };
        let matcher = list.matcher(used, how).unwrap();
        let refused = list.add(None, &[(b"a", b"1"), (b"b", b"x")]);
        assert_eq!(refused, Err(Refused::Unfit("the value is no integer".to_owned())));
        assert!(list.is_empty() && matcher.find(Sample::text(b"a")).is_none());
        assert_eq!(list.add(Some(1), &[]), Err(Refused::NoVersion));
    }
}
