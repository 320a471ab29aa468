//! Header fields to send: built one by one, or copied from a received message and then changed.

use std::borrow::Cow;

use crate::errors::UsageError;
use crate::head::{FieldOrigin, Header, Headers, is_field_value, is_hop, is_token};

/// Header fields to send: checked when they are added, stored as sent.
///
/// ```
/// use fulmar_proto::HeaderBuf;
/// let mut headers = HeaderBuf::new();
/// headers.push("Content-Type", b"text/plain").unwrap();
/// assert!(headers.push("X-Split", b"a\r\nSet-Cookie: b").is_err());
/// assert_eq!(headers.as_headers().get("content-type"), Some(&b"text/plain"[..]));
/// assert!(headers.as_headers().has("content-type") && !headers.as_headers().has("Date"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeaderBuf {
    block: Vec<u8>, // nothing but `name: value CRLF`, one for each of `index`, in its order
    index: Vec<Header>, // in the order of the block
    hops: bool,     // some field of `index` is a hop's
}

impl HeaderBuf {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.as_headers().iter()
    }

    /// Adds a field.
    ///
    /// # Errors
    /// [`UsageError::BadHead`] if the name is not a token, or the value has CR, LF, NUL or another
    /// control character, or blanks around it (RFC 9110 §5.5): nothing is added.
    pub fn push(&mut self, name: &str, value: &[u8]) -> Result<(), UsageError> {
        self.check(name, value)?;
        self.append(name.as_bytes(), value, is_hop(name.as_bytes()));
        Ok(())
    }

    /// Adds the end-to-end fields of a message that arrived, as they are. They were checked when
    /// they did, so this is one pass that only copies.
    ///
    /// # Errors
    /// [`UsageError::BadHead`] if the block would have 4 GB or more: nothing is added.
    pub fn extend(&mut self, fields: Headers<'_>) -> Result<(), UsageError> {
        let lines = fields.end_to_end().map(|(name, value)| name.len() + value.len() + MARKS);
        let size = lines.sum();
        self.check_room(size)?;
        self.block.reserve(size);
        self.index.reserve(fields.len());
        for (name, value) in fields.end_to_end() {
            self.append(name, value, false);
        }
        Ok(())
    }

    /// Replaces all fields with this name by one, behind the others.
    ///
    /// # Errors
    /// As [`HeaderBuf::push`]: then nothing has changed.
    pub fn replace(&mut self, name: &str, value: &[u8]) -> Result<(), UsageError> {
        self.check(name, value)?;
        self.remove(name);
        self.append(name.as_bytes(), value, is_hop(name.as_bytes()));
        Ok(())
    }

    /// Replaces the value of every field with this name by the result of a function; `None` keeps
    /// it.
    ///
    /// # Errors
    /// As [`HeaderBuf::push`]: then nothing has changed.
    pub fn rewrite(
        &mut self,
        name: &str,
        mut new_value: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<(), UsageError> {
        let mut new = Self::default();
        let mut changed = false;
        for header in &self.index {
            let (own_name, value) = self.field(header);
            let is_meant = own_name.eq_ignore_ascii_case(name.as_bytes());
            let value = match is_meant.then(|| new_value(value)).flatten() {
                None => Cow::Borrowed(value),
                Some(value) => {
                    changed = true;
                    Cow::Owned(value)
                }
            };
            new.check(name, &value)?;
            new.append(own_name, &value, header.hop);
        }
        if changed {
            *self = new;
        }
        Ok(())
    }

    /// Removes every field with this name.
    pub fn remove(&mut self, name: &str) {
        if self.as_headers().has(name) {
            self.retain(|other, _| !other.eq_ignore_ascii_case(name.as_bytes()));
        }
    }

    /// Removes every field for which `keep` returns false. It is called once for each, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) {
        let Self { block, index, hops } = self;
        let mut end = 0; // of what is kept, in the block
        *hops = false;
        index.retain_mut(|header| {
            let (start, line_end) = (header.name.start, header.value.end + LINE_END);
            let part = |from: u32, to: u32| &block[from as usize..to as usize];
            let name = part(start, header.name.end);
            if !keep(name, part(header.value.start, header.value.end)) {
                return false;
            }
            block.copy_within(start as usize..line_end as usize, end as usize);
            let gap = start - end;
            header.name = start - gap..header.name.end - gap;
            header.value = header.value.start - gap..header.value.end - gap;
            *hops |= header.hop;
            end = line_end - gap;
            true
        });
        block.truncate(end as usize);
    }

    /// Removes every field, and keeps the memory.
    pub fn clear(&mut self) {
        self.block.clear();
        self.index.clear();
        self.hops = false;
    }

    /// The capacity in bytes for names and values.
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// The fields, to be sent or read.
    pub fn as_headers(&self) -> Headers<'_> {
        let origin = if self.hops { FieldOrigin::Built } else { FieldOrigin::Wire };
        Headers::with_origin(&self.block, &self.index, origin)
    }

    fn field(&self, header: &Header) -> (&[u8], &[u8]) {
        self.as_headers().field(header)
    }

    fn check(&self, name: &str, value: &[u8]) -> Result<(), UsageError> {
        if !is_token(name.as_bytes()) || !is_field_value(value) {
            return Err(UsageError::BadHead);
        }
        self.check_room(name.len() + value.len() + MARKS)
    }

    /// Offsets have 32 bits.
    fn check_room(&self, size: usize) -> Result<(), UsageError> {
        let end = self.block.len().checked_add(size).ok_or(UsageError::BadHead)?;
        u32::try_from(end).map(|_| ()).map_err(|_| UsageError::BadHead)
    }

    /// Adds what has been checked.
    fn append(&mut self, name: &[u8], value: &[u8], hop: bool) {
        let start = self.end();
        self.block.extend_from_slice(name);
        let name_end = self.end();
        self.block.extend_from_slice(b": ");
        let value_start = self.end();
        self.block.extend_from_slice(value);
        let value_end = self.end();
        self.block.extend_from_slice(b"\r\n");
        self.hops |= hop;
        self.index.push(Header { name: start..name_end, value: value_start..value_end, hop });
    }

    fn end(&self) -> u32 {
        u32::try_from(self.block.len()).expect("its room was checked")
    }
}

/// The bytes of a line besides name and value: a colon, a blank, CR and LF.
const MARKS: usize = 4;

/// CR and LF.
const LINE_END: u32 = 2;
