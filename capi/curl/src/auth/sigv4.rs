//! AWS signature version 4, as `CURLOPT_AWS_SIGV4` of 7.88.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::hex;
use crate::stamp::format_stamp;

/// The parameters of `CURLOPT_AWS_SIGV4`: `provider1[:provider2[:region[:service]]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SigV4 {
    provider: Vec<u8>,
    header_provider: Vec<u8>,
    region: Vec<u8>,
    service: Vec<u8>,
}

/// Why a request cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum SigV4Error {
    /// There is no provider: `CURLE_BAD_FUNCTION_ARGUMENT`.
    Provider,
    /// Neither the parameters nor the host have a service: `CURLE_URL_MALFORMAT`.
    Service,
    /// Neither the parameters nor the host have a region: `CURLE_URL_MALFORMAT`.
    Region,
}

impl fmt::Display for SigV4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provider => "first provider can't be empty",
            Self::Service => "service missing in parameters and hostname",
            Self::Region => "region missing in parameters and hostname",
        })
    }
}

impl std::error::Error for SigV4Error {}

/// A request to sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignedRequest<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The host of the URL.
    pub host: &'a [u8],
    /// The value of `Host`, if it is not a header of the application.
    pub host_value: &'a [u8],
    /// The path of the URL.
    pub path: &'a [u8],
    /// Without `?`; empty if there is none.
    pub query: &'a [u8],
    /// The lines of `CURLOPT_HTTPHEADER`.
    pub headers: &'a [&'a [u8]],
    /// `CURLOPT_POSTFIELDS`.
    pub body: &'a [u8],
    /// The access key.
    pub user: &'a [u8],
    /// The secret key.
    pub password: &'a [u8],
    /// Seconds since 1970.
    pub now: i64,
}

impl SigV4 {
    /// Parses the option; its default is `aws:amz`.
    ///
    /// # Errors
    /// The first provider is empty.
    pub(crate) fn parse(option: &[u8]) -> Result<Self, SigV4Error> {
        let mut parts = option.splitn(4, |byte| *byte == b':').map(cut);
        let mut next = || parts.next().unwrap_or_default();
        let provider = Some(next()).filter(|part| !part.is_empty()).ok_or(SigV4Error::Provider)?;
        let header_provider = Some(next()).filter(|part| !part.is_empty());
        let header_provider = header_provider.unwrap_or_else(|| provider.clone());
        // An empty part ends the parameters.
        let region = next();
        let service = if region.is_empty() { Vec::new() } else { next() };
        Ok(Self { provider, header_provider, region, service })
    }

    /// The value of `Authorization`, and the line with the date, which follows it. The line is
    /// `None` if the application has it.
    ///
    /// # Errors
    /// Region or service are missing.
    pub(crate) fn sign(
        &self,
        request: &SignedRequest<'_>,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>), SigV4Error> {
        let (region, service) = self.place(request.host)?;
        let stamp = format_stamp(request.now).unwrap_or_default();
        let stamp = stamp.replace(' ', "T").replace(':', "") + "Z";
        let date_name = [b"X-", &capitalized(&self.header_provider)[..], b"-Date"].concat();
        let own_date = value_of(request.headers, &date_name);
        let own_stamp = own_date.map(|date| date[..date.len().min(STAMP_LEN)].to_vec());
        let stamp = own_stamp.unwrap_or_else(|| stamp.into_bytes());
        let date = &stamp[..stamp.len().min(8)];
        let (headers, names) = canonical(request, &date_name, &stamp);
        let payload = self.payload(request);
        let line = [request.method, request.path, request.query, &headers, &names, &payload];
        let canonical = line.join(&b'\n');
        let upper = self.provider.to_ascii_uppercase();
        let kind = [&self.provider.to_ascii_lowercase()[..], b"4_request"].concat();
        let scope = [date, &region[..], &service[..], &kind[..]].join(&b'/');
        let algorithm = [&upper[..], b"4-HMAC-SHA256"].concat();
        let hash = hex(&Sha256::digest(canonical));
        let text = [&algorithm[..], &stamp[..], &scope[..], hash.as_bytes()].join(&b'\n');
        let secret = [&upper[..], b"4", request.password].concat();
        let key = [date, &region[..], &service[..], &kind[..], &text[..]];
        let signature = hex(&key.iter().fold(secret, |key, part| hmac(&key, part)));
        let value = [
            &algorithm[..],
            b" Credential=",
            request.user,
            b"/",
            &scope,
            b", SignedHeaders=",
            &names,
            b", Signature=",
            signature.as_bytes(),
        ];
        let line = own_date.is_none().then(|| [&date_name[..], b": ", &stamp].concat());
        Ok((value.concat(), line))
    }

    /// Region and service: those of the parameters, or the first labels of the host.
    fn place(&self, host: &[u8]) -> Result<(Vec<u8>, Vec<u8>), SigV4Error> {
        if !self.service.is_empty() {
            return Ok((self.region.clone(), self.service.clone()));
        }
        let mut labels = host.splitn(3, |byte| *byte == b'.');
        let service = labels.next().unwrap_or_default();
        let region = labels.next().ok_or(SigV4Error::Service)?;
        if !self.region.is_empty() {
            return Ok((self.region.clone(), service.to_vec()));
        }
        labels.next().ok_or(SigV4Error::Region)?;
        Ok((region.to_vec(), service.to_vec()))
    }

    /// The hash of the body, or what the application sends as that.
    fn payload(&self, request: &SignedRequest<'_>) -> Vec<u8> {
        let name = [b"X-", &self.header_provider[..], b"-Content-Sha256"].concat();
        match value_of(request.headers, &name) {
            Some(value) => value.trim_ascii_end().to_vec(),
            None => hex(&Sha256::digest(request.body)).into_bytes(),
        }
    }
}

/// The header lines to sign, each with its end, and their names.
fn canonical(request: &SignedRequest<'_>, date_name: &[u8], stamp: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = request.headers.iter().map(|line| normalized(line)).collect();
    if value_of(request.headers, b"Host").is_none() {
        lines.push(normalized(&[b"host:", request.host_value].concat()));
    }
    if value_of(request.headers, date_name).is_none() {
        lines.push(normalized(&[date_name, b":", stamp].concat()));
    }
    lines.sort();
    let name =
        |line: &Vec<u8>| line.split(|byte| *byte == b':').next().unwrap_or_default().to_vec();
    let names: Vec<_> = lines.iter().map(name).collect();
    let mut text = Vec::new();
    for line in &lines {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    (text, names.join(&b';'))
}

/// The name in lower case; blanks of the value are joined, and removed at both ends.
fn normalized(line: &[u8]) -> Vec<u8> {
    let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    let (name, value) = line.split_at(colon);
    let mut out = name.to_ascii_lowercase();
    if let Some(value) = value.strip_prefix(b":") {
        let words = value.split(|byte| matches!(byte, b' ' | b'\t'));
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        out.push(b':');
        out.extend_from_slice(&words.join(&b' '));
    }
    out
}

/// The value of a line of the application, without blanks before it.
fn value_of<'a>(lines: &[&'a [u8]], name: &[u8]) -> Option<&'a [u8]> {
    lines.iter().find_map(|line| {
        let (start, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        start.eq_ignore_ascii_case(name).then(|| value.trim_ascii_start())
    })
}

fn capitalized(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_ascii_lowercase();
    if let Some(first) = name.first_mut() {
        first.make_ascii_uppercase();
    }
    name
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC has keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// As in `20200102T030405Z`.
const STAMP_LEN: usize = 16;

/// Longer parts are cut.
fn cut(part: &[u8]) -> Vec<u8> {
    part[..part.len().min(64)].to_vec()
}
