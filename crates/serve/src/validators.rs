//! How one state of a file is told from another (RFC 9110 §8.8).

use fulmar_semantics::date::is_http_time;
use fulmar_sys::FileInfo;

/// What identifies one state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// A strong entity tag, with its quotes.
    pub etag: String,
    /// Seconds since 1970, if HTTP can say so and it is not in the future.
    pub modified: Option<i64>,
}

impl Validators {
    /// Of an open file. The tag is made of inode, length and time of change in nanoseconds: the
    /// same file copied to another machine has another one.
    ///
    /// A time in the future would have to be replaced by that of the message in each of them
    /// (§8.8.2.1); it is left out.
    pub fn of(info: &FileInfo, unix_now: i64) -> Self {
        let (seconds, nanos) = info.modified;
        let modified = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            etag: format!("\"{:x}-{:x}-{:x}\"", info.inode, info.len, modified),
            modified: (is_http_time(seconds) && seconds <= unix_now).then_some(seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_sys::FileKind;

    fn info(modified: (i64, u32)) -> FileInfo {
        FileInfo { kind: FileKind::Regular, len: 0x20, modified, inode: 0x10, device: 1 }
    }

    #[test]
    fn a_tag_is_inode_length_and_time() {
        let validators = Validators::of(&info((1, 1)), 10);
        assert_eq!(validators.etag, "\"10-20-3b9aca01\"");
        assert_eq!(validators.modified, Some(1));
    }

    #[test]
    fn times_that_http_cannot_say_are_left_out() {
        for seconds in [-1, i64::MIN, 11, i64::MAX] {
            assert_eq!(Validators::of(&info((seconds, 0)), 10).modified, None);
        }
        assert_eq!(Validators::of(&info((253_402_300_800, 0)), i64::MAX).modified, None);
    }
}
