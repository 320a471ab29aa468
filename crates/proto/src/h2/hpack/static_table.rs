//! The static table (RFC 7541 §2.3.1, appendix A).

use super::word;

/// Name and value of an entry; the first index is 1.
#[inline]
pub(super) fn get(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    FIELDS.get(index.checked_sub(1)?).copied()
}

/// A name of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StaticName {
    pub(super) name: &'static [u8],
    /// The index of the first entry with this name.
    pub(super) index: u8,
    /// The number of entries with this name; their indices are consecutive.
    count: u8,
    /// The value of an entry is not empty.
    has_values: bool,
}

/// A name in any case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static StaticName> {
    let known = &SLOTS[slot(name)?];
    word::is_static_name(known.name, name).then_some(known)
}

impl StaticName {
    /// The index of the entry with this value.
    #[inline]
    pub(super) fn find_value(&self, value: &[u8]) -> Option<u8> {
        if !self.has_values {
            return value.is_empty().then_some(self.index);
        }
        let at = usize::from(self.index) - 1;
        let same = FIELDS[at..][..self.count.into()].iter();
        (self.index..).zip(same).find(|(_, field)| field.1 == value).map(|(index, _)| index)
    }
}

/// A name of the table in lower case, at compile time.
///
/// # Panics
/// The table does not have it.
pub(super) const fn named(lower: &[u8]) -> StaticName {
    let Some(slot) = slot(lower) else { panic!("a name is too short") };
    assert!(is_same(SLOTS[slot].name, lower), "no entry has this name");
    SLOTS[slot]
}

/// The slot of a name, in any case: one of its own for each name of the table.
#[inline]
const fn slot(name: &[u8]) -> Option<usize> {
    let [first, .., last] = name else { return None };
    Some((lower(*first) + 4 * lower(*last) + 33 * name.len()) % SLOTS_LEN)
}

const fn lower(byte: u8) -> usize {
    (byte | 0x20) as usize
}

/// The number of entries.
pub(super) const STATIC_LEN: usize = 61;

const SLOTS_LEN: usize = 256;

static FIELDS: [(&[u8], &[u8]); STATIC_LEN] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// The names, each in its slot.
static SLOTS: [StaticName; SLOTS_LEN] = {
    let vacant = StaticName { name: b"", index: 0, count: 0, has_values: false };
    let mut slots = [vacant; SLOTS_LEN];
    let mut index = 1;
    while index as usize <= STATIC_LEN {
        let (name, value) = FIELDS[index as usize - 1];
        let Some(slot) = slot(name) else { panic!("a name is too short") };
        if slots[slot].count == 0 {
            slots[slot] = StaticName { name, index, ..vacant };
        }
        slots[slot].count += 1;
        slots[slot].has_values |= !value.is_empty();
        assert!(is_same(slots[slot].name, name), "two names have the same slot");
        index += 1;
    }
    slots
};

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found() {
        for (field, index) in FIELDS.iter().zip(1..) {
            let known = find(field.0).expect("the name of an entry");
            assert_eq!(known.name, field.0);
            assert_eq!(find(&field.0.to_ascii_uppercase()), Some(known));
            assert_eq!(known.find_value(field.1), Some(index));
            assert_eq!(known.find_value(b"other"), None);
        }
        assert_eq!((get(0), get(62)), (None, None));
        for name in ["", "a", "x-other", "content-lengtx", "dat", ":stat", "content-length1"] {
            assert_eq!(find(name.as_bytes()), None, "{name}");
        }
    }
}
