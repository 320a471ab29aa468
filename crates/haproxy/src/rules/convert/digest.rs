//! Hash converters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc::{CRC_32_ISCSI, CRC_32_ISO_HDLC, Crc};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use xxhash_rust::xxh32::xxh32;
use xxhash_rust::xxh64::xxh64;

use super::{ConvertFn, Converter};
use crate::rules::args::{Arg, ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::hash::{avalanche, djb2, sdbm, wt6};
use crate::rules::sample::{Sample, Type};

pub(super) const TABLE: &[Converter] = &[
    spreading(&["crc32"], |v, a, _| hashed(v, a, |bytes| CRC32.checksum(bytes))),
    spreading(&["crc32c"], |v, a, _| hashed(v, a, |bytes| CRC32C.checksum(bytes))),
    spreading(&["djb2"], |v, a, _| hashed(v, a, djb2)),
    spreading(&["sdbm"], |v, a, _| hashed(v, a, sdbm)),
    spreading(&["wt6"], |v, a, _| hashed(v, a, wt6)),
    #[expect(clippy::cast_possible_truncation, reason = "a seed of 32 bits is asked for")]
    spreading(&["xxh32"], |v, a, _| {
        Some(Sample::Int(xxh32(&v.into_binary()?, seed(a) as u32).into()))
    }),
    spreading(&["xxh64"], |v, a, _| {
        Some(Sample::Int(xxh64(&v.into_binary()?, seed(a)).cast_signed()))
    }),
    spreading(&["xxh3"], |v, a, _| {
        Some(Sample::Int(xxh3_64_with_seed(&v.into_binary()?, seed(a)).cast_signed()))
    }),
    recognizing(&["sha1"], Takes::NONE, |v, _, _| {
        Some(Sample::Binary(Sha1::digest(v.into_binary()?).to_vec().into()))
    }),
    recognizing(&["sha2"], Takes::from(0, &[BITS]), sha2),
    recognizing(&["digest"], Takes::all(&[ArgKind::Text]), digest).checked(check_algorithm),
    recognizing(&["hmac"], Takes::all(&[ArgKind::Text, ArgKind::TextOrVariable]), authenticate)
        .checked(check_key),
];

const fn spreading(names: &'static [&'static str], run: ConvertFn) -> Converter {
    Converter::new(names, Takes::from(0, &[ArgKind::Int]), Type::Binary, Type::Int, run)
}

const fn recognizing(names: &'static [&'static str], takes: Takes, run: ConvertFn) -> Converter {
    Converter::new(names, takes, Type::Binary, Type::Binary, run)
}

fn hashed<'a>(value: Sample<'a>, args: &Args, hash: impl Fn(&[u8]) -> u32) -> Option<Sample<'a>> {
    let hash = hash(&value.into_binary()?);
    let spread = args.int(0).is_some_and(|flag| flag != 0);
    Some(Sample::Int(if spread { avalanche(hash) } else { hash }.into()))
}

fn seed(args: &Args) -> u64 {
    args.int(0).unwrap_or(0).cast_unsigned()
}

fn sha2<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let algorithm = match args.text(0) {
        Some(b"224") => ConverterDigest::Sha224,
        Some(b"384") => ConverterDigest::Sha384,
        Some(b"512") => ConverterDigest::Sha512,
        _ => ConverterDigest::Sha256,
    };
    Some(Sample::Binary(algorithm.digest(&value.into_binary()?).into()))
}

/// A digest algorithm.
#[derive(Clone, Copy)]
enum ConverterDigest {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl ConverterDigest {
    fn named(name: &[u8]) -> Option<Self> {
        let known = |(known, _): &&(&str, Self)| known.as_bytes().eq_ignore_ascii_case(name);
        ALGORITHMS.iter().find(known).map(|(_, algorithm)| *algorithm)
    }

    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Md5 => Md5::digest(bytes).to_vec(),
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha224 => Sha224::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }

    fn authenticate(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Md5 => code::<Hmac<Md5>>(key, bytes),
            Self::Sha1 => code::<Hmac<Sha1>>(key, bytes),
            Self::Sha224 => code::<Hmac<Sha224>>(key, bytes),
            Self::Sha256 => code::<Hmac<Sha256>>(key, bytes),
            Self::Sha384 => code::<Hmac<Sha384>>(key, bytes),
            Self::Sha512 => code::<Hmac<Sha512>>(key, bytes),
        }
    }
}

fn code<M: Mac + KeyInit>(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(bytes);
    mac.finalize().into_bytes().to_vec()
}

fn check_algorithm(args: &mut Args) -> Result<(), String> {
    let name = args.text(0).unwrap_or_default();
    match ConverterDigest::named(name) {
        Some(_) => Ok(()),
        None => Err(format!(
            "unknown digest algorithm '{}', expected md5, sha1, sha224, sha256, sha384 or sha512",
            String::from_utf8_lossy(name)
        )),
    }
}

/// Decodes a literal key during parsing.
fn check_key(args: &mut Args) -> Result<(), String> {
    check_algorithm(args)?;
    if let Arg::Text(text) = args.get(1) {
        let key = STANDARD.decode(text);
        let key = key.map_err(|_| "the key is neither valid base64 nor a variable".to_owned())?;
        args.set(1, Arg::Text(key.into()));
    }
    Ok(())
}

fn digest<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let algorithm = ConverterDigest::named(args.text(0)?)?;
    Some(Sample::Binary(algorithm.digest(&value.into_binary()?).into()))
}

fn authenticate<'a>(
    value: Sample<'a>,
    args: &'a Args,
    subject: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let algorithm = ConverterDigest::named(args.text(0)?)?;
    let bytes = value.into_binary()?;
    let code = match args.get(1) {
        Arg::Text(key) => algorithm.authenticate(key, &bytes),
        Arg::Variable(variable) => {
            let key = STANDARD.decode(subject.variable(variable)?.into_text()?).ok()?;
            algorithm.authenticate(&key, &bytes)
        }
        _ => return None,
    };
    Some(Sample::Binary(code.into()))
}

const CRC32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
const CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

const BITS: ArgKind = ArgKind::OneOf(&["224", "256", "384", "512"]);

const ALGORITHMS: &[(&str, ConverterDigest)] = &[
    ("md5", ConverterDigest::Md5),
    ("sha1", ConverterDigest::Sha1),
    ("sha-1", ConverterDigest::Sha1),
    ("sha224", ConverterDigest::Sha224),
    ("sha-224", ConverterDigest::Sha224),
    ("sha256", ConverterDigest::Sha256),
    ("sha-256", ConverterDigest::Sha256),
    ("sha384", ConverterDigest::Sha384),
    ("sha-384", ConverterDigest::Sha384),
    ("sha512", ConverterDigest::Sha512),
    ("sha-512", ConverterDigest::Sha512),
];
