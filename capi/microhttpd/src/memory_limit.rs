//! What fits into `MHD_OPTION_CONNECTION_MEMORY_LIMIT`.
//!
//! The original keeps the head of a request, a record for each of its values, and the head of the
//! response in one pool per connection. Programs set the limit to bound heads, and their clients
//! see 414, 431 or a closed connection; so the same sizes have the same results here. The pool
//! itself is not built.

/// The size of a request's head in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadCost {
    /// Size of the request line in bytes, with its line end.
    pub line_size: usize,
    /// Size of the head in bytes, with the request line and the empty line.
    pub head_size: usize,
    /// Number of header fields, cookies and arguments.
    pub values: usize,
}

/// Why the head of a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRefusal {
    /// 414: the request line does not fit.
    LineTooLong,
    /// 431: the head does not fit.
    HeadTooLarge,
}

impl HeadRefusal {
    /// The status of the response.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::LineTooLong => 414,
            Self::HeadTooLarge => 431,
        }
    }
}

impl HeadCost {
    /// The part of the limit that is left for the head of the response, in bytes. It is also right
    /// for a head that has not arrived completely, with the bytes so far.
    ///
    /// # Errors
    /// [`HeadRefusal`].
    pub fn check(self, limit: usize) -> Result<usize, HeadRefusal> {
        if self.line_size > limit {
            return Err(HeadRefusal::LineTooLong);
        }
        let records = self.values.saturating_mul(VALUE_SIZE);
        limit.checked_sub(self.head_size.saturating_add(records)).ok_or(HeadRefusal::HeadTooLarge)
    }
}

/// True if the head of a response fits into the rest; otherwise the connection is closed without a
/// response.
#[must_use]
pub fn reply_head_fits(left: usize, head_size: usize) -> bool {
    head_size.checked_next_multiple_of(ALIGNMENT).is_some_and(|size| size <= left)
}

/// `MHD_OPTION_CONNECTION_MEMORY_LIMIT` by default, in bytes.
pub const MEMORY_LIMIT_DEFAULT: usize = 32 * 1024;

/// Size of the record of a value in bytes.
const VALUE_SIZE: usize = 64;

/// Sizes in the pool are multiples of it.
const ALIGNMENT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests to daemons of 0.9.75 with `Host: a`, whose length grew by 7 bytes. Limit, sizes of
    /// the line and of the head, number of values; each pair is the last one before a change and
    /// the first one after it.
    const RECORDED: &[(usize, usize, usize, usize, u16)] = &[
        // A long path.
        (1024, 899, 910, 1, 200),
        (1024, 906, 917, 1, 0),
        (1024, 948, 959, 1, 0),
        (1024, 955, 966, 1, 431),
        (1024, 1018, 1029, 1, 431),
        (1024, 1025, 1036, 1, 414),
        (512, 388, 399, 1, 200),
        (512, 395, 406, 1, 0),
        (512, 437, 448, 1, 0),
        (512, 444, 455, 1, 431),
        (512, 507, 518, 1, 431),
        (512, 514, 525, 1, 414),
        (256, 129, 140, 1, 200),
        (256, 136, 147, 1, 0),
        (256, 178, 189, 1, 0),
        (256, 185, 196, 1, 431),
        (256, 255, 266, 1, 431),
        (256, 262, 273, 1, 414),
        // A long field beside Host.
        (1024, 16, 845, 2, 200),
        (1024, 16, 852, 2, 0),
        (1024, 16, 894, 2, 0),
        (1024, 16, 901, 2, 431),
        (512, 16, 383, 2, 0),
        (512, 16, 390, 2, 431),
        (256, 16, 124, 2, 0),
        (256, 16, 131, 2, 431),
        // Many fields.
        (1024, 16, 105, 14, 0),
        (1024, 16, 111, 15, 431),
        (512, 16, 63, 7, 0),
        (512, 16, 69, 8, 431),
        (256, 16, 39, 3, 0),
        (256, 16, 45, 4, 431),
        // A long method.
        (1024, 945, 956, 1, 0),
        (1024, 952, 963, 1, 431),
        (1024, 1022, 1033, 1, 431),
        (1024, 1029, 1040, 1, 414),
    ];

    /// 0 is a connection that was closed without a response.
    #[test]
    fn sizes_have_the_statuses_of_the_original() {
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        for (limit, line_size, head_size, values, expected) in RECORDED.iter().copied() {
            let cost = HeadCost { line_size, head_size, values };
            let status = match cost.check(limit) {
                Ok(left) if reply_head_fits(left, reply.len()) => 200,
                Ok(_) => 0,
                Err(refusal) => refusal.status(),
            };
            assert_eq!(status, expected, "{limit} {cost:?}");
        }
    }

    #[test]
    fn sizes_do_not_overflow() {
        let cost = HeadCost { line_size: 0, head_size: usize::MAX, values: usize::MAX };
        assert_eq!(cost.check(usize::MAX - 1), Err(HeadRefusal::HeadTooLarge));
        assert!(!reply_head_fits(usize::MAX, usize::MAX));
    }
}
