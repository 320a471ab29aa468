//! Mutation with a seed, for unattended runs.

/// Changes `data` a little; sometimes it goes on as another case does. It is never left empty.
pub fn mutate(data: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(data.len());
    match random.below(6) {
        0 => data[at] = random.next().to_le_bytes()[0],
        1 => data[at] ^= 1 << random.below(8),
        2 => drop(data.remove(at)),
        3 => data.insert(at, SPECIAL[random.below(SPECIAL.len())]),
        4 => {
            let other = &corpus[random.below(corpus.len())];
            data.truncate(at.max(4));
            data.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        _ => {
            let end = (at + random.below(40)).min(data.len());
            let piece = data[at..end].to_vec();
            data.splice(at..at, piece);
        }
    }
    if data.len() < 5 {
        data.extend_from_slice(b"GET /");
    }
}

/// xorshift64*: reproducible, and good enough to break things.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// One below `n`, or 0.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % n.max(1)
    }
}

const SPECIAL: &[u8] = b"\r\n\0 \t:;,=\"\\#%0fF\x7f\xff";
