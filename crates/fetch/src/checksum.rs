//! The expected digest of a file: `sha256:HEX` and the like.
//!
//! Pure: text and bytes go in, a result comes out. MD5 and SHA-1 are for lists without better
//! digests: they detect damage, not manipulation.

use std::fmt;

use sha2::digest::DynDigest;

/// The expected digest of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct FileChecksum {
    algorithm: DigestAlgorithm,
    digest: Box<[u8]>,
}

/// The digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigestAlgorithm {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

/// A digest in progress.
pub(crate) struct Hasher(Box<dyn DynDigest>);

/// Why a text is no checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChecksumError {
    /// The algorithm is unknown.
    Algorithm,
    /// The number of hexadecimal digits is wrong; the expected number.
    Digits(usize),
}

impl FileChecksum {
    /// Parses `ALGORITHM:HEX`.
    ///
    /// ```
    /// use fulmar_fetch::FileChecksum;
    /// let text = "md5:d41d8cd98f00b204e9800998ecf8427e";
    /// assert_eq!(FileChecksum::parse(text).unwrap().to_string(), text);
    /// ```
    ///
    /// # Errors
    /// The text is no checksum.
    pub fn parse(text: &str) -> Result<Self, ChecksumError> {
        let (name, digits) = text.split_once(':').ok_or(ChecksumError::Algorithm)?;
        let known = ALGORITHMS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
        let (_, algorithm, len) = *known.ok_or(ChecksumError::Algorithm)?;
        let wrong = ChecksumError::Digits(2 * len);
        let digest: Option<Box<[u8]>> = digits.as_bytes().chunks(2).map(byte).collect();
        let digest = digest.filter(|digest| digest.len() == len).ok_or(wrong)?;
        Ok(Self { algorithm, digest })
    }

    pub(crate) fn hasher(&self) -> Hasher {
        Hasher(match self.algorithm {
            DigestAlgorithm::Md5 => Box::new(md5::Md5::default()),
            DigestAlgorithm::Sha1 => Box::new(sha1::Sha1::default()),
            DigestAlgorithm::Sha256 => Box::new(sha2::Sha256::default()),
            DigestAlgorithm::Sha512 => Box::new(sha2::Sha512::default()),
        })
    }

    /// The actual digest, if it differs.
    pub(crate) fn differs(&self, mut hasher: Hasher) -> Option<Self> {
        let mut digest = vec![0; self.digest.len()].into_boxed_slice();
        hasher.0.finalize_into_reset(&mut digest).expect("the length is that of the algorithm");
        let found = Self { algorithm: self.algorithm, digest };
        (found != *self).then_some(found)
    }
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

/// Parses two hexadecimal digits.
fn byte(pair: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

impl fmt::Display for FileChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALGORITHMS.iter().find(|(_, known, _)| *known == self.algorithm);
        write!(f, "{}:", name.expect("every algorithm is listed").0)?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for FileChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher(..)")
    }
}

impl fmt::Display for ChecksumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm => f.write_str(
                "the checksum must be md5:, sha1:, sha256: or sha512: and hexadecimal digits; \
                     if a name has spaces, separate the fields by tabs",
            ),
            Self::Digits(count) => write!(f, "the checksum must have {count} hexadecimal digits"),
        }
    }
}

impl std::error::Error for ChecksumError {}

/// Algorithms: name and digest length in bytes.
const ALGORITHMS: [(&str, DigestAlgorithm, usize); 4] = [
    ("md5", DigestAlgorithm::Md5, 16),
    ("sha1", DigestAlgorithm::Sha1, 20),
    ("sha256", DigestAlgorithm::Sha256, 32),
    ("sha512", DigestAlgorithm::Sha512, 64),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_digests_of_abc_are_the_published_ones() {
        for (text, ours) in [
            ("md5:900150983cd24fb0d6963f7d28e17f72", true),
            ("sha1:a9993e364706816aba3e25717850c26c9cd0d89d", true),
            ("SHA256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", true),
            (
                "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                 2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
                true,
            ),
            ("md5:900150983cd24fb0d6963f7d28e17f73", false),
        ] {
            let checksum = FileChecksum::parse(text).unwrap();
            let mut hasher = checksum.hasher();
            hasher.update(b"a");
            hasher.update(b"bc");
            assert_eq!(checksum.differs(hasher).is_none(), ours, "{text}");
            assert_eq!(checksum.to_string(), text.to_ascii_lowercase());
        }
    }

    #[test]
    fn invalid_checksums_are_refused() {
        let error = |text: &str| FileChecksum::parse(text).unwrap_err();
        for text in ["", "900150983cd24fb0d6963f7d28e17f72", "crc:00", ":00", "sha3-256:00"] {
            assert_eq!(error(text), ChecksumError::Algorithm, "{text}");
        }
        for text in ["md5:", "md5:00", "md5:900150983cd24fb0d6963f7d28e17f7", "md5:+0015098"] {
            assert_eq!(error(text), ChecksumError::Digits(32), "{text}");
        }
        let long = format!("sha256:{}", "00".repeat(33));
        assert_eq!(error(&long), ChecksumError::Digits(64));
    }

    proptest! {
        #[test]
        fn any_text_is_a_checksum_or_none(text in "(md5|sha1|x)?:?[0-9a-fg]{0,44}.?") {
            if let Ok(checksum) = FileChecksum::parse(&text) {
                prop_assert_eq!(checksum.to_string(), text.to_ascii_lowercase());
            }
        }
    }
}
