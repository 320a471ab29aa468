//! The options of an easy handle: which there are, and what kind of argument each has.

mod checks;
mod table;

pub(crate) use checks::{auth_mask, check as check_number};
use table::{ALIASES, OPTIONS};

/// The number of an option, as C passes it to `curl_easy_setopt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionId(pub i32);

impl OptionId {
    /// The number without its kind: every option has another one.
    pub(crate) const fn place(self) -> Option<usize> {
        let place = (self.0.unsigned_abs() % KINDS) as usize;
        if self.0 < 0 || place >= PLACES { None } else { Some(place) }
    }
}

/// Numbers of a kind begin at a multiple of this.
const KINDS: u32 = 10_000;
/// More than the number of any option without its kind.
pub(crate) const PLACES: usize = 384;

/// The kind of an option's argument (`curl_easytype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum OptionKind {
    /// A `long` in a range.
    Long,
    /// A `long` of some values, or a bit mask.
    Values,
    /// A `curl_off_t`.
    Offset,
    /// A pointer.
    Object,
    /// A string.
    Text,
    /// A `struct curl_slist *`.
    List,
    /// A pointer for a callback.
    Callback,
    /// A `struct curl_blob *`.
    Blob,
    /// A function.
    Function,
}

/// An option (`struct curl_easyoption`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name, without `CURLOPT_`.
    pub name: &'static str,
    /// Its number.
    pub id: OptionId,
    /// The kind of its argument.
    pub kind: OptionKind,
}

impl OptionInfo {
    /// The option with a number; never by an older name.
    pub fn by_id(id: OptionId) -> Option<&'static Self> {
        let at = POSITIONS.get(id.place()?).copied()?;
        OPTIONS.get(at).filter(|option| option.id == id)
    }
}

/// Where an option is in [`OPTIONS`], by its number without its kind.
static POSITIONS: [usize; PLACES] = {
    let mut positions = [usize::MAX; PLACES];
    let mut at = 0;
    while at < OPTIONS.len() {
        if let Some(place) = OPTIONS[at].id.place() {
            positions[place] = at;
        }
        at += 1;
    }
    positions
};

/// All names in alphabetical order, older ones too, each with its option; true: an older name.
pub fn names() -> impl Iterator<Item = (&'static str, &'static OptionInfo, bool)> {
    let mut names: Vec<_> = OPTIONS.iter().map(|option| (option.name, option, false)).collect();
    names.extend(ALIASES.iter().map(|(alias, id)| {
        (*alias, OptionInfo::by_id(*id).expect("an alias has an option"), true)
    }));
    names.sort_unstable_by_key(|(name, ..)| *name);
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_in_the_range_of_their_kind() {
        let mut seen = std::collections::BTreeSet::new();
        for OptionInfo { name, id, kind } in OPTIONS {
            assert!(seen.insert(id.place().expect("in range")), "{name}");
            assert_eq!(OptionInfo::by_id(*id).map(|option| option.name), Some(*name));
            let base = match kind {
                OptionKind::Long | OptionKind::Values => 0,
                OptionKind::Object | OptionKind::Text | OptionKind::List | OptionKind::Callback => {
                    10_000
                }
                OptionKind::Function => 20_000,
                OptionKind::Offset => 30_000,
                OptionKind::Blob => 40_000,
            };
            assert_eq!(id.0 / 10_000 * 10_000, base, "{name}");
        }
    }

    #[test]
    fn names_are_in_order_and_aliases_lead_to_options() {
        let names: Vec<_> = names().collect();
        assert_eq!((names.len(), OPTIONS.len()), (316, 302));
        assert!(names.is_sorted_by_key(|(name, ..)| *name));
        let file = names.iter().find(|(name, ..)| *name == "FILE").expect("an alias");
        assert_eq!((file.1.id, file.2), (OptionId::WRITEDATA, true));
    }
}
