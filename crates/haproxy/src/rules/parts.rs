//! List values of fields.

/// The parts between delimiters, except in quotes (RFC 9110 §5.6.1 and §5.6.4).
pub fn parts<'a>(line: &'a [u8], delimiters: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut left = Some(line);
    std::iter::from_fn(move || {
        let line = left?;
        let end = part_len(line, delimiters);
        left = (end < line.len()).then(|| &line[end + 1..]);
        Some(line[..end].trim_ascii())
    })
}

/// The length of the first part.
pub fn part_len(line: &[u8], delimiters: &[u8]) -> usize {
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in line.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if !quoted && delimiters.contains(byte) => return at,
            _ => {}
        }
    }
    line.len()
}
