//! Encoding of header blocks (RFC 7541 §6).
//!
//! A field that is in a table takes one or two octets. Another field is a literal, which enters the
//! dynamic table if it is likely to come again ([`Indexing`]). Tags find entries without comparing
//! texts.

use super::static_table::{self, STATIC_LEN, StaticName};
use super::table::{DynamicTable, ENTRY_OVERHEAD};
use super::{integer, string, word};

/// The encoder of one direction of a connection.
#[derive(Debug)]
pub(crate) struct HpackEncoder {
    table: DynamicTable,
    /// The smallest maximum of the table since the last block, if the peer must learn of one.
    smallest_max: Option<usize>,
    /// The tag of the last `date` that was not indexed.
    date: u32,
}

/// Whether the literals of a name enter the dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Indexing {
    /// Yes: the next message is likely to have the same value.
    Always,
    /// The second one with the same value. A date is the same for a second: a connection with fewer
    /// messages would fill both tables with dates that never come again.
    Repeated,
    /// No: the next message is likely to have another value.
    Without,
    /// No, and intermediaries must not either (§7.1.3).
    Never,
    /// As `Never` if the value is short enough to be guessed, otherwise as `Always` (§7.1.3).
    Cookie,
}

impl Indexing {
    /// The pattern of a literal that is not indexed, whatever the table has.
    fn unindexed(self, value: &[u8]) -> Option<u8> {
        match self {
            Self::Without => Some(WITHOUT_INDEXING),
            Self::Never => Some(NEVER_INDEXED),
            Self::Cookie => (value.len() < COOKIE_LEN_MIN).then_some(NEVER_INDEXED),
            Self::Always | Self::Repeated => None,
        }
    }
}

impl HpackEncoder {
    /// An encoder with an empty table, for a peer with the initial SETTINGS_HEADER_TABLE_SIZE.
    pub(crate) fn new() -> Self {
        let table = DynamicTable::new(TABLE_SIZE_MAX);
        Self { table, smallest_max: None, date: 0 }
    }

    /// An encoder without a dynamic table: its blocks are valid on each connection, at any time.
    pub(crate) fn without_table() -> Self {
        Self { table: DynamicTable::new(0), smallest_max: None, date: 0 }
    }

    /// Obeys SETTINGS_HEADER_TABLE_SIZE of the peer. The table has at most 4,096 bytes.
    pub(crate) fn set_table_max(&mut self, size: u32) {
        let size_max = usize::try_from(size).unwrap_or(TABLE_SIZE_MAX).min(TABLE_SIZE_MAX);
        if size_max != self.table.size_max() {
            self.resize(size_max);
        }
    }

    /// Frees the memory of the table if it is more than `max` bytes. The next block empties the
    /// table of the peer.
    pub(crate) fn release_memory(&mut self, max: usize) {
        if self.table.memory() > max {
            let size_max = self.table.size_max();
            self.resize(0);
            self.resize(size_max);
        }
    }

    fn resize(&mut self, size_max: usize) {
        self.smallest_max = Some(self.smallest_max.map_or(size_max, |size| size.min(size_max)));
        self.table.resize(size_max);
    }

    /// Begins a block with the size updates that are due (§4.2): to the smallest maximum since the
    /// last block, and to the current one.
    #[inline]
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.smallest_max {
            self.update_size(out, smallest);
        }
    }

    #[cold]
    fn update_size(&mut self, out: &mut Vec<u8>, smallest: usize) {
        let size_max = self.table.size_max();
        if smallest < size_max {
            integer::write::<5>(out, SIZE_UPDATE, smallest);
        }
        integer::write::<5>(out, SIZE_UPDATE, size_max);
        self.smallest_max = None;
    }

    /// Appends a field. The name is written in lower case (RFC 9113 §8.2).
    pub(crate) fn field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        debug_assert!(self.smallest_max.is_none(), "a block begins with `begin`");
        let Some(known) = static_table::find(name) else {
            return self.unknown_field(out, name, value);
        };
        match known.find_value(value) {
            Some(index) => out.push(INDEXED | index),
            None => self.known_field(out, known, value),
        }
    }

    /// Appends the `:status` of a response: 100 to 999.
    pub(crate) fn status(&mut self, out: &mut Vec<u8>, status: u16) {
        debug_assert!(self.smallest_max.is_none(), "a block begins with `begin`");
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let digit = |unit: u16| b'0' + (status / unit % 10).to_le_bytes()[0];
                let value = [digit(100), digit(10), digit(1)];
                return self.known_field(out, &STATUS, &value);
            }
        };
        out.push(INDEXED | index);
    }

    /// A field with a name of the static table, but another value.
    #[inline]
    fn known_field(&mut self, out: &mut Vec<u8>, known: &StaticName, value: &[u8]) {
        let indexing = INDEXING[usize::from(known.index)];
        if !matches!(indexing, Indexing::Always | Indexing::Repeated)
            && let Some(pattern) = indexing.unindexed(value)
        {
            return literal(out, pattern, known.index, value);
        }
        let tag = tag(known.index.into(), word::sample_value(value));
        match self.table.find(tag, WHOLE_TAG, |entry| entry.1 == value) {
            Some(at) => indexed(out, at),
            None => self.literal_of(out, known, value, tag),
        }
    }

    /// A literal of a name in the static table, indexed if it is likely to come again.
    #[cold]
    fn literal_of(&mut self, out: &mut Vec<u8>, known: &StaticName, value: &[u8], tag: u32) {
        let is_first = INDEXING[usize::from(known.index)] == Indexing::Repeated && self.date != tag;
        if is_first {
            self.date = tag;
        }
        if is_first || !self.has_room(known.name, value) {
            return literal(out, WITHOUT_INDEXING, known.index, value);
        }
        integer::write::<6>(out, WITH_INDEXING, known.index.into());
        string::write(out, value.iter().copied());
        self.table.insert(tag, known.name, value);
    }

    /// A field whose name is not in the static table.
    #[inline(never)]
    fn unknown_field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let tag = tag(UNKNOWN | word::sample_name(name), word::sample_value(value));
        let is_same = |entry: (&[u8], &[u8])| word::is_name(entry.0, name) && entry.1 == value;
        if let Some(at) = self.table.find(tag, WHOLE_TAG, is_same) {
            return indexed(out, at);
        }
        let known = self.table.find(tag, NAME_OF_TAG, |entry| word::is_name(entry.0, name));
        let index = known.map_or(0, |at| at + FIRST_INDEX);
        let inserts = self.has_room(name, value) && !varies(name);
        match inserts {
            true => integer::write::<6>(out, WITH_INDEXING, index),
            false => integer::write::<4>(out, WITHOUT_INDEXING, index),
        }
        if index == 0 {
            string::write(out, name.iter().map(u8::to_ascii_lowercase));
        }
        string::write(out, value.iter().copied());
        if inserts {
            self.table.insert(tag, name, value);
            self.table.newest_name_mut().make_ascii_lowercase();
        }
    }

    /// False if the field would evict half of the table or more.
    fn has_room(&self, name: &[u8], value: &[u8]) -> bool {
        name.len() + value.len() + ENTRY_OVERHEAD < self.table.size_max() / 2
    }
}

/// An entry of the dynamic table; 0 is the newest one.
#[inline]
fn indexed(out: &mut Vec<u8>, at: usize) {
    integer::write::<7>(out, INDEXED, at + FIRST_INDEX);
}

/// A literal without indexing, of a name in the static table.
#[inline]
fn literal(out: &mut Vec<u8>, pattern: u8, index: u8, value: &[u8]) {
    integer::write::<4>(out, pattern, index.into());
    string::write(out, value.iter().copied());
}

/// A tag of a field: its value in the lower half, its name in the upper one.
fn tag(name: u16, value: u16) -> u32 {
    u32::from(name) << 16 | u32::from(value)
}

/// True of names that are not in the static table and rarely have the same value again.
fn varies(name: &[u8]) -> bool {
    VARYING.iter().any(|lower| word::is_name(lower, name))
}

const VARYING: [&[u8]; 8] = [
    b"content-digest",
    b"content-md5",
    b"repr-digest",
    b"server-timing",
    b"traceparent",
    b"x-correlation-id",
    b"x-request-id",
    b"x-runtime",
];

/// By index; of names that are not listed, `Always`.
static INDEXING: [Indexing; STATIC_LEN + 1] = {
    let mut table = [Indexing::Always; STATIC_LEN + 1];
    let mut row = 0;
    while row < EXCEPTIONS.len() {
        let (name, indexing) = EXCEPTIONS[row];
        table[static_table::named(name).index as usize] = indexing;
        row += 1;
    }
    table
};

const EXCEPTIONS: [(&[u8], Indexing); 21] = [
    (b":path", Indexing::Without),
    (b"age", Indexing::Without),
    (b"authorization", Indexing::Never),
    (b"content-disposition", Indexing::Without),
    (b"content-length", Indexing::Without),
    (b"content-location", Indexing::Without),
    (b"content-range", Indexing::Without),
    (b"cookie", Indexing::Cookie),
    (b"date", Indexing::Repeated),
    (b"etag", Indexing::Without),
    (b"expires", Indexing::Without),
    (b"if-match", Indexing::Without),
    (b"if-modified-since", Indexing::Without),
    (b"if-none-match", Indexing::Without),
    (b"if-range", Indexing::Without),
    (b"if-unmodified-since", Indexing::Without),
    (b"last-modified", Indexing::Without),
    (b"location", Indexing::Without),
    (b"proxy-authorization", Indexing::Never),
    (b"range", Indexing::Without),
    (b"set-cookie", Indexing::Never),
];

/// The initial SETTINGS_HEADER_TABLE_SIZE (RFC 9113 §6.5.2), and the largest that is used.
const TABLE_SIZE_MAX: usize = 4096;

/// Shorter cookies might be guessed from the sizes of blocks (§7.1.3).
const COOKIE_LEN_MIN: usize = 20;

/// The first octets of fields and size updates (§6), above the prefix of an integer.
const INDEXED: u8 = 0x80;
const WITH_INDEXING: u8 = 0x40;
const SIZE_UPDATE: u8 = 0x20;
const NEVER_INDEXED: u8 = 0x10;
const WITHOUT_INDEXING: u8 = 0x00;

/// The index of the newest entry of the dynamic table.
const FIRST_INDEX: usize = STATIC_LEN + 1;

/// The name of `:status`.
static STATUS: StaticName = static_table::named(b":status");

/// Bits of a tag.
const WHOLE_TAG: u32 = u32::MAX;
const NAME_OF_TAG: u32 = 0xffff_0000;

/// In the half of a name: it is not an index of the static table, but a hash.
const UNKNOWN: u16 = 0x8000;

#[cfg(test)]
impl HpackEncoder {
    pub(super) fn table(&self) -> &DynamicTable {
        &self.table
    }
}
