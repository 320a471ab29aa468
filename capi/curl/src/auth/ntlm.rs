//! NTLM messages (MS-NLMP), with libcurl's flags and layout. The state belongs to a connection.

use des::Des;
use des::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use hmac::{Hmac, Mac as _};
use md4::{Digest as _, Md4};
use md5::Md5;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The message of the server is invalid; libcurl stops the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadNtlm;

/// The challenge of a server: the type 2 message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NtlmChallenge {
    flags: u32,
    nonce: [u8; 8],
    target_info: Vec<u8>,
}

/// The input of the response besides the challenge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NtlmLogin<'a> {
    /// With a domain before a backslash or slash, if there is one.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
    /// Random bytes, for NTLMv2.
    pub entropy: [u8; 8],
    /// Seconds since 1970, for NTLMv2.
    pub now: i64,
}

/// The value of the first request: the type 1 message.
pub(crate) fn ntlm_negotiate() -> Vec<u8> {
    let mut message = SIGNATURE.to_vec();
    for word in [1, NEGOTIATED, 0, 0, 0, 0] {
        message.extend_from_slice(&u32::to_le_bytes(word));
    }
    value(&message)
}

impl NtlmChallenge {
    /// Parses what follows `NTLM` in a field.
    ///
    /// # Errors
    /// [`BadNtlm`].
    pub(crate) fn parse(text: &[u8]) -> Result<Self, BadNtlm> {
        let message = STANDARD.decode(text).map_err(|_| BadNtlm)?;
        let word = |at: usize| {
            let bytes = message.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes)
        };
        let nonce = message.get(24..32).and_then(|bytes| bytes.try_into().ok()).ok_or(BadNtlm)?;
        if !message.starts_with(SIGNATURE) || word(8) != Some(2) {
            return Err(BadNtlm);
        }
        let flags = word(20).ok_or(BadNtlm)?;
        let mut target_info = Vec::new();
        let has_info = flags & TARGET_INFO != 0 && message.len() >= HEAD_LEN;
        if let (true, Some(len), Some(start)) = (has_info, word(40), word(44)) {
            let (len, start) = (len as usize & 0xffff, start as usize);
            if len > 0 {
                let info = message.get(start..start.saturating_add(len));
                let info = info.filter(|_| start >= HEAD_LEN);
                target_info = info.ok_or(BadNtlm)?.to_vec();
            }
        }
        Ok(Self { flags, nonce, target_info })
    }

    /// The value of the second request: the type 3 message. `None` if it would be too long.
    pub(crate) fn authorize(&self, login: NtlmLogin<'_>) -> Option<Vec<u8>> {
        let slash = login.user.iter().position(|byte| matches!(byte, b'\\' | b'/'));
        let (domain, user) = match slash {
            Some(at) => (&login.user[..at], &login.user[at + 1..]),
            None => (&b""[..], login.user),
        };
        let (lm, nt) = match self.flags & NTLM2_KEY {
            0 => self.version_1(login.password),
            _ => self.version_2(domain, user, login),
        };
        let text = |text: &[u8]| match self.flags & UNICODE {
            0 => text.to_vec(),
            _ => widened(text),
        };
        let parts = [lm, nt, text(domain), text(user), text(WORKSTATION)];
        let mut message = SIGNATURE.to_vec();
        message.extend_from_slice(&3_u32.to_le_bytes());
        let mut start = ANSWER_HEAD_LEN;
        for part in &parts {
            let len = u16::try_from(part.len()).ok()?.to_le_bytes();
            message.extend_from_slice(&[len, len].concat());
            message.extend_from_slice(&u32::try_from(start).ok()?.to_le_bytes());
            start += part.len();
        }
        message.extend_from_slice(&[0; 8]); // no session key
        message.extend_from_slice(&self.flags.to_le_bytes());
        parts.iter().for_each(|part| message.extend_from_slice(part));
        (message.len() < MESSAGE_LEN_MAX).then(|| value(&message))
    }

    fn version_1(&self, password: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut upper = password.to_ascii_uppercase();
        upper.resize(14, 0);
        let lm_hash = upper.chunks(7).flat_map(|key| encrypt(key, *b"KGS!@#$%")).collect();
        (self.encrypt_nonce(lm_hash), self.encrypt_nonce(nt_hash(password)))
    }

    /// The nonce, encrypted with three keys of 7 bytes from a hash.
    fn encrypt_nonce(&self, mut hash: Vec<u8>) -> Vec<u8> {
        hash.resize(21, 0);
        hash.chunks(7).flat_map(|key| encrypt(key, self.nonce)).collect()
    }

    fn version_2(&self, domain: &[u8], user: &[u8], login: NtlmLogin<'_>) -> (Vec<u8>, Vec<u8>) {
        let identity = [widened(&user.to_ascii_uppercase()), widened(domain)].concat();
        let key = hmac(&nt_hash(login.password), &[&identity]);
        let ticks = login.now.saturating_add(EPOCH_1601).saturating_mul(TICKS);
        let mut blob = vec![1, 1, 0, 0, 0, 0, 0, 0];
        blob.extend_from_slice(&ticks.to_le_bytes());
        blob.extend_from_slice(&login.entropy);
        blob.extend_from_slice(&[0; 4]);
        blob.extend_from_slice(&self.target_info);
        blob.extend_from_slice(&[0; 4]);
        let lm = [hmac(&key, &[&self.nonce, &login.entropy]), login.entropy.to_vec()].concat();
        let nt = [hmac(&key, &[&self.nonce, &blob]), blob].concat();
        (lm, nt)
    }
}

fn value(message: &[u8]) -> Vec<u8> {
    format!("NTLM {}", STANDARD.encode(message)).into_bytes()
}

/// Each byte as a character of 16 bits; libcurl knows no other characters.
fn widened(text: &[u8]) -> Vec<u8> {
    text.iter().flat_map(|byte| [*byte, 0]).collect()
}

fn nt_hash(password: &[u8]) -> Vec<u8> {
    Md4::digest(widened(password)).to_vec()
}

/// DES with a key of 56 bits, which gets its parity bits here.
fn encrypt(key: &[u8], block: [u8; 8]) -> [u8; 8] {
    let bits = key.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    let mut key = [0; 8];
    for (byte, at) in key.iter_mut().zip((0..8).rev()) {
        [*byte, ..] = (bits >> (7 * at) << 1 & 0xfe).to_le_bytes();
    }
    let mut block = block.into();
    Des::new(&key.into()).encrypt_block(&mut block);
    block.into()
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <Hmac<Md5> as hmac::KeyInit>::new_from_slice(key).expect("any key length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

const SIGNATURE: &[u8] = b"NTLMSSP\0";

/// OEM, request target, NTLM, always sign, NTLM2 key.
const NEGOTIATED: u32 = 0x0008_8206;

const UNICODE: u32 = 1;

const NTLM2_KEY: u32 = 1 << 19;

const TARGET_INFO: u32 = 1 << 23;

/// Of a type 2 message with target information.
const HEAD_LEN: usize = 48;

/// Of a type 3 message.
const ANSWER_HEAD_LEN: usize = 64;

const MESSAGE_LEN_MAX: usize = 1024;

/// libcurl does not send the name of the machine.
const WORKSTATION: &[u8] = b"WORKSTATION";

/// Seconds from 1601 to 1970.
const EPOCH_1601: i64 = 11_644_473_600;

/// Per second.
const TICKS: i64 = 10_000_000;
