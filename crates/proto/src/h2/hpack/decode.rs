//! Decoding of header blocks (RFC 7541 §3.2, §6).

use std::ops::Range;

use super::static_table::{self, STATIC_LEN};
use super::table::DynamicTable;
use super::{HpackError, integer, string};

/// The decoder of one direction of a connection.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct HpackDecoder {
    table: DynamicTable,
    /// The limit of size updates.
    table_max: usize,
}

impl HpackDecoder {
    /// A decoder with an empty table. `table_max` is the SETTINGS_HEADER_TABLE_SIZE that the peer
    /// uses: 4,096, or another one that it has acknowledged before its first block.
    ///
    /// # Panics
    /// `table_max` is more than 65,535.
    pub(crate) fn new(table_max: usize) -> Self {
        Self { table: DynamicTable::new(table_max), table_max }
    }

    /// Decodes a whole header block. The name and the value of each field are appended to `out`,
    /// then `field` is called with their ranges. It may truncate `out` to the start of the name.
    ///
    /// # Errors
    /// The block is unsound. The fields before the error have been passed to `field`, and the table
    /// is as they left it: no other block can be decoded.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        out: &mut Vec<u8>,
        mut field: impl FnMut(&mut Vec<u8>, Range<u32>, Range<u32>),
    ) -> Result<(), HpackError> {
        self.read_size_updates(&mut block)?;
        while let Some(first) = block.first().copied() {
            let start = out.len();
            let name_end = match first {
                0x80.. => self.read_indexed(&mut block, out)?,
                0x40..0x80 => {
                    let index = integer::read::<6>(&mut block)?;
                    let name_end = self.read_literal(index, &mut block, out)?;
                    self.table.insert(0, &out[start..name_end], &out[name_end..]);
                    name_end
                }
                0x20..0x40 => return Err(HpackError::MisplacedSizeUpdate),
                0x00..0x20 => {
                    let index = integer::read::<4>(&mut block)?;
                    self.read_literal(index, &mut block, out)?
                }
            };
            let [start, middle, end] = [offset(start)?, offset(name_end)?, offset(out.len())?];
            field(out, start..middle, middle..end);
        }
        Ok(())
    }

    /// Reads the size updates at the beginning of a block (§6.3).
    fn read_size_updates(&mut self, block: &mut &[u8]) -> Result<(), HpackError> {
        while let Some(0x20..0x40) = block.first() {
            let size = integer::read::<5>(block)?;
            if size > self.table_max {
                return Err(HpackError::SizeUpdateTooLarge);
            }
            self.table.resize(size);
        }
        Ok(())
    }

    /// Reads an indexed field (§6.1) and appends it. Returns where its name ends.
    #[inline]
    fn read_indexed(&self, block: &mut &[u8], out: &mut Vec<u8>) -> Result<usize, HpackError> {
        let index = integer::read::<7>(block)?;
        let start = out.len();
        match index.checked_sub(STATIC_LEN + 1) {
            None => {
                let (name, value) = static_table::get(index).ok_or(HpackError::UnknownIndex)?;
                out.extend_from_slice(name);
                out.extend_from_slice(value);
                Ok(start + name.len())
            }
            Some(at) => {
                let (text, name_len) = self.table.get(at).ok_or(HpackError::UnknownIndex)?;
                out.extend_from_slice(text);
                Ok(start + name_len)
            }
        }
    }

    /// Reads the rest of a literal field (§6.2) and appends the field. Returns where its name ends.
    fn read_literal(
        &self,
        index: usize,
        block: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, HpackError> {
        match index {
            0 => string::read(block, out)?,
            _ => out.extend_from_slice(self.name(index)?),
        }
        let name_end = out.len();
        string::read(block, out)?;
        Ok(name_end)
    }

    /// The name of an entry of the static or the dynamic table (§2.3.3).
    fn name(&self, index: usize) -> Result<&[u8], HpackError> {
        let name = match index.checked_sub(STATIC_LEN + 1) {
            None => static_table::get(index).map(|(name, _)| name),
            Some(at) => self.table.get(at).map(|(text, name_len)| &text[..name_len]),
        };
        name.ok_or(HpackError::UnknownIndex)
    }
}

fn offset(len: usize) -> Result<u32, HpackError> {
    u32::try_from(len).map_err(|_| HpackError::ListTooLong)
}

#[cfg(test)]
impl HpackDecoder {
    pub(super) fn table(&self) -> &DynamicTable {
        &self.table
    }
}
