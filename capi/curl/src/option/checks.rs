//! Which numbers `curl_easy_setopt` accepts for an option, as libcurl 7.88.1 with OpenSSL does.

use super::OptionId as Id;
use crate::code::CurlCode;

/// Checks a `long` or a `curl_off_t`.
pub(crate) fn check(id: Id, value: i64) -> Result<(), CurlCode> {
    let range = match id {
        Id::EXPECT_100_TIMEOUT_MS
        | Id::LOW_SPEED_LIMIT
        | Id::LOW_SPEED_TIME
        | Id::MAXAGE_CONN
        | Id::MAXCONNECTS
        | Id::MAXFILESIZE
        | Id::MAXFILESIZE_LARGE
        | Id::MAXLIFETIME_CONN
        | Id::MAX_RECV_SPEED_LARGE
        | Id::MAX_SEND_SPEED_LARGE
        | Id::POSTREDIR
        | Id::TCP_KEEPIDLE
        | Id::TCP_KEEPINTVL
        | Id::TFTP_BLKSIZE
        | Id::UPKEEP_INTERVAL_MS => 0..=i64::MAX,
        Id::CA_CACHE_TIMEOUT
        | Id::DNS_CACHE_TIMEOUT
        | Id::INFILESIZE
        | Id::INFILESIZE_LARGE
        | Id::MAXREDIRS
        | Id::POSTFIELDSIZE
        | Id::POSTFIELDSIZE_LARGE
        | Id::RESUME_FROM
        | Id::RESUME_FROM_LARGE => -1..=i64::MAX,
        Id::CONNECTTIMEOUT | Id::SERVER_RESPONSE_TIMEOUT | Id::TIMEOUT => 0..=SECONDS_MAX,
        Id::LOCALPORT | Id::LOCALPORTRANGE | Id::PORT | Id::PROXYPORT => 0..=0xffff,
        Id::NEW_DIRECTORY_PERMS | Id::NEW_FILE_PERMS => 0..=0o777,
        Id::FTPSSLAUTH | Id::FTP_CREATE_MISSING_DIRS | Id::FTP_SSL_CCC => 0..=2,
        Id::IPRESOLVE | Id::NETRC => 0..=2,
        Id::FTP_FILEMETHOD | Id::TIMECONDITION | Id::USE_SSL => 0..=3,
        Id::PROXYTYPE => 0..=7,
        Id::PROXY_TRANSFER_MODE => 0..=1,
        Id::ADDRESS_SCOPE => 0..=0xffff_ffff,
        Id::CONNECT_ONLY => i64::MIN..=2,
        Id::HTTP09_ALLOWED => i64::MIN..=1,
        Id::ALTSVC_CTRL if value == 0 => return Err(CurlCode::BadFunctionArgument),
        Id::HTTP_VERSION if value > HTTP_VERSION_MAX => {
            return Err(CurlCode::UnsupportedProtocol);
        }
        Id::HTTP_VERSION => 0..=HTTP_VERSION_MAX,
        Id::SSLVERSION | Id::PROXY_SSLVERSION => return check_tls_versions(value),
        Id::HTTPAUTH | Id::PROXYAUTH if !has_scheme(value) && value != 0 => {
            return Err(CurlCode::NotBuiltIn);
        }
        // It is kept in 8 bits.
        Id::SOCKS5_AUTH if bits(value) & 0xff & !(AUTH_BASIC | AUTH_NEGOTIATE) != 0 => {
            return Err(CurlCode::NotBuiltIn);
        }
        Id::SSL_FALSESTART => return Err(CurlCode::NotBuiltIn),
        _ => return Ok(()),
    };
    match range.contains(&value) {
        true => Ok(()),
        false => Err(CurlCode::BadFunctionArgument),
    }
}

/// True if a mask has a scheme that may be built in; libcurl accepts bits that it does not know.
fn has_scheme(mask: i64) -> bool {
    bits(mask) & !(AUTH_ONLY | AUTH_NTLM_WB) != 0
}

/// The bits of a mask of authentication schemes, as the application has set them.
pub(crate) fn auth_mask(mask: i64) -> u32 {
    bits(mask)
}

/// The lower half has the lowest version, the upper half the highest one
/// (CURLOPT_SSLVERSION(3)). SSLv2 and SSLv3 are not accepted.
fn check_tls_versions(value: i64) -> Result<(), CurlCode> {
    let value = bits(value);
    let (lowest, highest) = (value & 0xffff, value >> 16);
    let is_version = |version| matches!(version, 0 | 1 | 4..=7);
    match is_version(lowest) && matches!(highest, 0 | 1 | 4..=7) {
        true => Ok(()),
        false => Err(CurlCode::BadFunctionArgument),
    }
}

/// C passes a mask as a `long`, of which 32 bits count.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bit mask")]
fn bits(value: i64) -> u32 {
    value as u32
}

/// Milliseconds are kept in an `int`.
const SECONDS_MAX: i64 = i32::MAX as i64 / 1000;
/// `CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE`.
const HTTP_VERSION_MAX: i64 = 5;

const AUTH_BASIC: u32 = 1;
const AUTH_NEGOTIATE: u32 = 1 << 2;
/// NTLM by a helper program, which is not built in.
const AUTH_NTLM_WB: u32 = 1 << 5;
/// `CURLAUTH_ONLY`.
const AUTH_ONLY: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::super::table::OPTIONS;
    use super::*;

    /// What libcurl returns for numbers.
    #[test]
    fn numbers_are_accepted_as_by_libcurl() {
        let mut ranges: Vec<(i64, i64, i32)> = Vec::new();
        let mut compared = 0;
        for line in include_str!("numbers.txt").lines().filter(|line| !line.starts_with('#')) {
            let Some(names) = line.strip_prefix("    ") else {
                let parse = |range: &str| {
                    let (ends, code) = range.split_once('=').expect("a code");
                    let (low, high) = ends.split_once("..").expect("a range");
                    let number = |text: &str| text.parse().expect("a number");
                    (number(low), number(high), code.parse().expect("a code"))
                };
                ranges = line.split_whitespace().map(parse).collect();
                continue;
            };
            for name in names.split_whitespace() {
                let option = OPTIONS.iter().find(|option| option.name == name).expect(name);
                for (low, high, code) in &ranges {
                    for value in [low, high] {
                        let found = check(option.id, *value).map_or_else(CurlCode::number, |()| 0);
                        assert_eq!(found, *code, "{name} {value}");
                        compared += 1;
                    }
                }
            }
        }
        assert_eq!(compared, 498);
    }
}
