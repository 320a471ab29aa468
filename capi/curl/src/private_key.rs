//! Private keys in PEM and DER, encrypted or not.
//!
//! PKCS#8 is decrypted by the crate `pkcs8`. The older form, whose PEM has a field `DEK-Info`
//! (RFC 1423), is that of OpenSSL: its key is the MD5 of password and salt.

use std::borrow::Cow;

use aes::{Aes128, Aes192, Aes256};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use des::TdesEde3;
use md5::{Digest as _, Md5};
use pkcs8::EncryptedPrivateKeyInfoRef;

/// There is no key, or its password is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrivateKeyError;

/// The key as PEM without encryption.
///
/// # Errors
/// There is none, it has no known form, or the password is another one.
pub(crate) fn private_key(
    bytes: &[u8],
    is_pem: bool,
    password: &[u8],
) -> Result<Vec<u8>, PrivateKeyError> {
    if !is_pem {
        return Ok(to_pem(label(bytes)?, bytes));
    }
    for label in [ENCRYPTED, PKCS8, RSA, EC] {
        let Some(section) = PemSection::find(bytes, label) else { continue };
        let key = section.decode(password)?;
        let label = if label == ENCRYPTED { PKCS8 } else { label };
        return Ok(to_pem(label, &key));
    }
    Err(PrivateKeyError)
}

/// A section of a PEM file (RFC 7468), with the fields of RFC 1421 in front of its bytes.
#[derive(Debug)]
struct PemSection<'a> {
    is_encrypted: bool,
    /// Cipher and initialisation vector of the older form.
    key_info: Option<(&'a str, &'a str)>,
    base64: &'a str,
}

impl<'a> PemSection<'a> {
    fn find(file: &'a [u8], label: &str) -> Option<Self> {
        let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} {label}-----"));
        let at = memchr::memmem::find(file, begin.as_bytes())? + begin.len();
        let rest = &file[at..];
        let len = memchr::memmem::find(rest, end.as_bytes())?;
        let text = std::str::from_utf8(&rest[..len]).ok()?.trim_start();
        let key_info = text.lines().find_map(|line| line.strip_prefix("DEK-Info:"));
        let is_field = |line: &&str| line.contains(':');
        let fields: usize = text.split_inclusive('\n').take_while(is_field).map(str::len).sum();
        Some(Self {
            is_encrypted: label == ENCRYPTED,
            key_info: key_info.and_then(|info| info.trim().split_once(',')),
            base64: &text[fields..],
        })
    }

    /// The key in DER.
    fn decode(&self, password: &[u8]) -> Result<Vec<u8>, PrivateKeyError> {
        let base64: String = self.base64.split_whitespace().collect();
        let bytes = STANDARD.decode(base64).map_err(|_| PrivateKeyError)?;
        match self.key_info {
            _ if self.is_encrypted => decrypt_pkcs8(&bytes, password),
            Some((cipher, vector)) => decrypt_traditional(&bytes, cipher, vector, password),
            None => Ok(bytes),
        }
    }
}

fn decrypt_pkcs8(der: &[u8], password: &[u8]) -> Result<Vec<u8>, PrivateKeyError> {
    let info = EncryptedPrivateKeyInfoRef::try_from(der).map_err(|_| PrivateKeyError)?;
    let key = info.decrypt(password).map_err(|_| PrivateKeyError)?;
    Ok(key.as_bytes().to_vec())
}

/// Decrypts a key of the older form.
fn decrypt_traditional(
    bytes: &[u8],
    cipher: &str,
    vector: &str,
    password: &[u8],
) -> Result<Vec<u8>, PrivateKeyError> {
    let vector = hex(vector.trim()).ok_or(PrivateKeyError)?;
    let salt = vector.get(..8).ok_or(PrivateKeyError)?;
    let key = |len| derive(password, salt, len);
    let decrypted = match cipher.trim() {
        "AES-128-CBC" => decrypt::<cbc::Decryptor<Aes128>>(&key(16), &vector, bytes),
        "AES-192-CBC" => decrypt::<cbc::Decryptor<Aes192>>(&key(24), &vector, bytes),
        "AES-256-CBC" => decrypt::<cbc::Decryptor<Aes256>>(&key(32), &vector, bytes),
        "DES-EDE3-CBC" => decrypt::<cbc::Decryptor<TdesEde3>>(&key(24), &vector, bytes),
        _ => None,
    };
    // A wrong password often leaves a valid padding.
    decrypted.filter(|key| label(key).is_ok()).ok_or(PrivateKeyError)
}

fn decrypt<D: KeyIvInit + BlockModeDecrypt>(
    key: &[u8],
    vector: &[u8],
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let cipher = D::new_from_slices(key, vector).ok()?;
    cipher.decrypt_padded_vec::<Pkcs7>(bytes).ok()
}

/// `EVP_BytesToKey` of OpenSSL, with MD5 and one round.
fn derive(password: &[u8], salt: &[u8], len: usize) -> Vec<u8> {
    let mut key = Vec::new();
    let mut last = Cow::Borrowed(&[][..]);
    while key.len() < len {
        let hash = Md5::new().chain_update(&last).chain_update(password).chain_update(salt);
        last = hash.finalize().to_vec().into();
        key.extend_from_slice(&last);
    }
    key.truncate(len);
    key
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// The label of a key in DER, by its first elements: a version, and what follows.
fn label(der: &[u8]) -> Result<&'static str, PrivateKeyError> {
    const INTEGER: u8 = 2;
    const OCTETS: u8 = 4;
    const SEQUENCE: u8 = 0x30;
    // The length of the outer sequence has one to four bytes.
    let body = match der {
        [SEQUENCE, len, body @ ..] if *len < 0x80 => body,
        [SEQUENCE, len @ 0x81..=0x84, rest @ ..] => {
            rest.get(usize::from(len & 0x7f)..).ok_or(PrivateKeyError)?
        }
        _ => return Err(PrivateKeyError),
    };
    match body {
        [INTEGER, 1, 0 | 1, SEQUENCE, ..] => Ok(PKCS8),
        [INTEGER, 1, 0, INTEGER, ..] => Ok(RSA),
        [INTEGER, 1, 1, OCTETS, ..] => Ok(EC),
        _ => Err(PrivateKeyError),
    }
}

fn to_pem(label: &str, der: &[u8]) -> Vec<u8> {
    let base64 = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n").into_bytes()
}

const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
const PKCS8: &str = "PRIVATE KEY";
const RSA: &str = "RSA PRIVATE KEY";
const EC: &str = "EC PRIVATE KEY";

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a key with the password `pw`, as OpenSSL 3.0 has written it.
    const TRADITIONAL: [(&str, &str); 3] = [
        (
            "AES-128-CBC,C2333F4282C3AA596A6D0940C8425455",
            "4gW/cRBewd4w5SIV56HNM9/tMql1GPwfq4b4AIkjNbo1NapDQkfgvjclK9Z4Pe7R
XUSSCy6brhHQAjqSgiFgWqwJyQp4V0iqfBYUg3VF0QZnt524vOqar1S/GQv+2MTG
q314QSRMXL1wDlWG/BO33bFS6ahYXVBJzBBfLNfYIvE=",
        ),
        (
            "DES-EDE3-CBC,C97F660E3303437A",
            "xJAtCcuVPa3cg5Dld6125JkvcaZc+aWKmzv6GAHuW+f85ylk+ee2M4T3paA3KuXZ
E3jS4kkhtRjXr1QEqJMzsmi25Mr0RLu9Ai9Qxo+71aQUmb9sJEyZZJ3u/fOu0IiK
G0rEuXIAcLh2y6NQkU5hq5NCzWPnKkkglpYKx5DqJXY=",
        ),
        (
            "AES-192-CBC,C1615A0BB075F2520D01D7EED9C0BC06",
            "o1IEREYdd2fjKcMdQ4VwP9Fx3WFHz4Quuq+Pfnhsh8TG7rGXoe1U8sWXOs9MFZUB
U+Q9GI85i2fG5q3VV4i7iWBqqnONfxpmM67uOWLDbcatB5FxPtCGXd2k+vrcGHUH
GVohEy//tDvcdQwhw6eYLU5eqZD+YA3Efwme9AV0dcM=",
        ),
    ];
    const PLAIN: &str = "MHcCAQEEILmL2RAHxRW9pegdjRc+Bn1HvgMIKVBZT5w4mtiqtfgmoAoGCCqGSM49AwEH\
        oUQDQgAEmq/Ehnj/RDwUOft0fy/c/jAlYMfaD1BrLdl1FhAauqNTU6C48rmiTKDHFBTjMIMJsqRbcY4w5EAloTL\
        r9bEpjg==";
    const PKCS8_ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHrMFYGCSqGSIb3DQEFDTBJMCgGCSqGSIb3DQEFDDAbBAjn9qyNos1hBQIBZDAM
BggqhkiG9w0CCQUAMB0GCWCGSAFlAwQBAgQQx+pHd1ghRKMUPzq6yb9KOwSBkMSg
Z8Fvg193TF42PMQDUasUNuAdwxYKiJ+yk2PaOT2eVjpV/jiCg/P/QA0dF2gNrfxj
BORNd2KDWjnukp9H4il9O7NuDcrdEWCdz+5lpuGXFo7iXyoO26jLloxs6b6Wr/sP
Y/UzdGpaEiQvcNh3pGXc9AQSBRo3h86LPSmW6hHdWZ5PIhJAcLxapAzUhuElCQ==
-----END ENCRYPTED PRIVATE KEY-----
";
    const PKCS8_PLAIN: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQguYvZEAfFFb2l6B2NFz4G\
        fUe+AwgpUFlPnDia2Kq1+CahRANCAASar8SGeP9EPBQ5+3R/L9z+MCVgx9oPUGst2XUWEBq6o1NToLjyuaJMoMcU\
        FOMwgwmypFtxjjDkQCWhMuv1sSmO";

    fn pem(label: &str, text: &str) -> Vec<u8> {
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n").into_bytes()
    }

    #[test]
    fn keys_are_decrypted() {
        let of = |file: &[u8], password: &str| private_key(file, true, password.as_bytes());
        for (info, base64) in TRADITIONAL {
            let text = format!("Proc-Type: 4,ENCRYPTED\nDEK-Info: {info}\n\n{base64}");
            for text in [text.clone(), text.replace('\n', "\r\n")] {
                let file = [b"a certificate\n", &pem(EC, &text)[..]].concat();
                assert_eq!(of(&file, "pw"), Ok(pem(EC, PLAIN)), "{info}");
                assert_eq!(of(&file, "other"), Err(PrivateKeyError));
            }
        }
        assert_eq!(of(PKCS8_ENCRYPTED.as_bytes(), "pw"), Ok(pem(PKCS8, PKCS8_PLAIN)));
        assert_eq!(of(PKCS8_ENCRYPTED.as_bytes(), "other"), Err(PrivateKeyError));
        assert_eq!(of(&pem(EC, PLAIN), ""), Ok(pem(EC, PLAIN)));
        for bad in
            [&b""[..], b"-----BEGIN EC PRIVATE KEY-----", &pem(EC, "DEK-Info: AES,0\n\nAA==")]
        {
            assert_eq!(of(bad, "pw"), Err(PrivateKeyError));
        }
    }

    #[test]
    fn keys_in_der_have_the_label_of_their_form() {
        let der = |base64: &str| STANDARD.decode(base64).expect("base64");
        for (label, base64) in [(EC, PLAIN), (PKCS8, PKCS8_PLAIN)] {
            assert_eq!(private_key(&der(base64), false, b""), Ok(pem(label, base64)));
        }
        assert_eq!(label(&[0x30, 0x82, 1, 0, 2, 1, 0, 2]), Ok(RSA));
        for bad in [&[][..], &[0x30], &[0x30, 0x85], &[0x30, 3, 2, 1, 2, 2], b"-----BEGIN"] {
            assert_eq!(label(bad), Err(PrivateKeyError));
        }
    }
}
