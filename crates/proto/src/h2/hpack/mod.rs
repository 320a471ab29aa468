//! Header compression of HTTP/2 (RFC 7541).
//!
//! A [`HpackDecoder`] turns the header blocks of a peer into fields, an [`HpackEncoder`] turns
//! fields into header blocks. Each has the dynamic table of its direction, so the blocks of a
//! connection pass through it in the order of the wire.
//!
//! A field is a name and a value of any bytes: their syntax, pseudo-header fields and limits of
//! lists are the connection's work.

mod decode;
mod encode;

mod table;

mod static_table;

mod string;

mod huffman;
mod integer;

mod word;

pub(super) use decode::HpackDecoder;
pub(super) use encode::HpackEncoder;

/// Why a header block cannot be decoded. The dynamic table is then unknown, so the connection ends
/// with COMPRESSION_ERROR (RFC 9113 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HpackError {
    /// The block ends within a field.
    Truncated,
    /// An integer has more octets than any sound one (§5.1).
    IntegerTooLong,
    /// No entry of the tables has this index (§2.3.3).
    UnknownIndex,
    /// A size update follows a field (§4.2).
    MisplacedSizeUpdate,
    /// A size update exceeds SETTINGS_HEADER_TABLE_SIZE (§6.3).
    SizeUpdateTooLarge,
    /// A string contains the end-of-string symbol (§5.2).
    EndOfString,
    /// The last code of a string is incomplete: the padding has 8 bits or more, or a zero (§5.2).
    BadPadding,
    /// The fields have 4 GB or more.
    ListTooLong,
}

#[cfg(test)]
mod tests;
