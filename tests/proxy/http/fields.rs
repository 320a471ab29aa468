//! Fields that no message may have: those of requests and responses alike.

/// Lengths and codings that two readers could read differently (RFC 9112 §6).
pub(crate) const AMBIGUOUS_LENGTHS: &[&str] = &[
    "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    "Content-Length: 3\r\nContent-Length: 4\r\n",
    "Content-Length: 5, 6\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: 5\r\nContent-Length: 5\r\n",
    "Content-Length: x\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 0x5\r\n",
    "Content-Length: 5 5\r\n",
    "Content-Length: \r\n",
    "Content-Length: 5,\r\n",
    "Content-Length: 1_0\r\n",
    "Content-Length: 5\x0b\r\n",
    "Content-Length: 9223372036854775808\r\n",
    "Content-Length: 18446744073709551621\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Transfer-Encoding: chunked, gzip\r\n",
    "Transfer-Encoding: chunked, chunked\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: \r\n",
    "Transfer-Encoding: ,chunked\r\n",
    "Transfer-Encoding: chunked\x0b\r\n",
    "Transfer-Encoding: chunked\x0c\r\n",
    "Transfer-Encoding: \"chunked\"\r\n",
    "Transfer-Encoding : chunked\r\n",
    " Transfer-Encoding: chunked\r\n",
    "X: y\r\n Transfer-Encoding: chunked\r\n",
];

/// Unknown codings, and codings that are not transfer codings.
pub(crate) const UNKNOWN_CODINGS: &[&str] = &[
    "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Transfer-Encoding: gzip\r\n",
];

/// Lines that are no fields (RFC 9112 §5).
pub(crate) const BAD_FIELDS: &[&str] = &[
    "X: y\r\n folded\r\n",
    "X: y\r\n\tfolded\r\n",
    "Content-Length:\r\n 3\r\n",
    " X: y\r\n",
    "X : y\r\n",
    "X\t: y\r\n",
    "X: a\0b\r\n",
    "X: a\x07b\r\n",
    "X: a\x7fb\r\n",
    "X: a\rb\r\n",
    "X: a\nb\r\n",
    "X: a\nContent-Length: 3\r\n",
    "X(y): z\r\n",
    ": empty\r\n",
    "No-Colon\r\n",
];
