//! Checks of simple protocols (HAProxy's manual, §4.2, `option smtpchk` and others): requests, and
//! results in HAProxy's words.
//!
//! ```text
//! SMTP        ◀ 220 · ▶ HELO · ◀ 2xx · ▶ QUIT · ◀ 2xx      (RFC 5321 §4.2)
//! Redis       ▶ PING · ◀ +PONG
//! PostgreSQL  ▶ startup · ◀ R, any authentication request
//! MySQL       ◀ greeting [· ▶ login, COM_QUIT · ◀ OK]
//! LDAP        ▶ anonymous bind · ◀ its result             (RFC 4511 §4.2)
//! SSL         ▶ hello of SSLv3 · ◀ a handshake, or an alert
//! ```

use fulmar_haproxy::model::{CheckProtocol, MySqlLogin};

use super::status::{CheckStatus, Finding};
use super::step::CheckStep;
use super::tcp_check::contains;

/// A conversation in a protocol.
#[derive(Debug, Default)]
pub(super) struct ProtocolCheck {
    /// Number of successful replies.
    replies: usize,
    received: Vec<u8>, // since the last bytes were sent
    version: String,   // as reported by the server
}

/// The result of the received bytes.
enum ReplyVerdict {
    /// More bytes are needed.
    Wait,
    /// Success: send this next.
    Send(Vec<u8>),
    Found(Finding),
}
use ReplyVerdict::{Found, Send, Wait};

impl ProtocolCheck {
    /// The connection was established.
    pub(super) fn begin(protocol: &CheckProtocol) -> CheckStep {
        CheckStep::Send(match protocol {
            CheckProtocol::Redis => b"*1\r\n$4\r\nPING\r\n".to_vec(),
            CheckProtocol::PostgreSql { user } => startup(user),
            CheckProtocol::Ldap => LDAP_BIND.to_vec(),
            CheckProtocol::SslHello => ssl_hello(),
            // The server sends first.
            CheckProtocol::Smtp { .. } | CheckProtocol::MySql { .. } => Vec::new(),
        })
    }

    /// Handles received bytes; `end`: the server has closed.
    pub(super) fn handle_input(
        &mut self,
        protocol: &CheckProtocol,
        bytes: &[u8],
        end: bool,
    ) -> CheckStep {
        let room = RECEIVED_SIZE_MAX - self.received.len();
        self.received.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let last = end || self.received.len() == RECEIVED_SIZE_MAX;
        if self.received.is_empty() {
            return match last {
                true => CheckStep::Done(Vec::new(), self.empty_response(protocol)),
                false => CheckStep::Send(Vec::new()),
            };
        }
        let verdict = match protocol {
            CheckProtocol::Smtp { hello } => self.smtp(hello, last),
            CheckProtocol::Redis => self.redis(last),
            CheckProtocol::PostgreSql { .. } => self.postgres(last),
            CheckProtocol::MySql { login } => self.mysql(login.as_ref(), last),
            CheckProtocol::Ldap => self.ldap(last),
            CheckProtocol::SslHello => self.ssl(last),
        };
        match verdict {
            Wait => CheckStep::Send(Vec::new()),
            Send(bytes) => {
                self.replies += 1;
                self.received.clear();
                CheckStep::Send(bytes)
            }
            Found(finding) => CheckStep::Done(Vec::new(), finding),
        }
    }

    /// The result if the server closes without sending anything.
    fn empty_response(&self, protocol: &CheckProtocol) -> Finding {
        let (status, step) = match (protocol, self.replies) {
            (CheckProtocol::Smtp { .. }, 0) => (CheckStatus::Layer7Invalid, 2),
            (CheckProtocol::Smtp { .. }, replies) => (CheckStatus::Layer7Status, 3 + 2 * replies),
            (CheckProtocol::SslHello, _) => (CheckStatus::Layer6Failure, 2),
            (CheckProtocol::Redis, _) => (CheckStatus::Layer7Status, 2),
            _ => (CheckStatus::Layer7Invalid, 2),
        };
        Finding::new(status, format!("TCPCHK got an empty response at step {step}"))
    }

    fn smtp(&self, hello: &str, last: bool) -> ReplyVerdict {
        // All lines of a reply except the last have a hyphen after the code.
        let lines = self.received.split_inclusive(|byte| *byte == b'\n');
        let mut final_lines = lines.filter(|line| line.get(3) != Some(&b'-'));
        let is_whole = |line: &&[u8]| last || line.ends_with(b"\n");
        let Some(reply) =
            final_lines.next().filter(is_whole).or_else(|| last.then_some(&self.received[..]))
        else {
            return Wait;
        };
        let code = reply.get(..3).and_then(|it| str::from_utf8(it).ok()?.parse::<u16>().ok());
        let text = line(reply.get(4..).unwrap_or_default());
        match (code.filter(|_| reply.len() > 3), self.replies) {
            (None, 0) => Found(Finding::new(CheckStatus::Layer7Invalid, line(reply))),
            (Some(200..=299), 0) => Send(format!("{hello}\r\n").into_bytes()),
            (Some(200..=299), 1) => Send(b"QUIT\r\n".to_vec()),
            (Some(code @ 200..=299), _) => {
                Found(Finding::with_code(CheckStatus::Layer7Ok, code, text))
            }
            (code, _) => {
                let code = code.unwrap_or(0);
                Found(Finding::with_code(CheckStatus::Layer7Status, code, text))
            }
        }
    }

    fn redis(&self, last: bool) -> ReplyVerdict {
        if contains(&self.received, b"+PONG\r\n") {
            return ok("Redis server is ok");
        }
        match last {
            true => Found(Finding::with_code(CheckStatus::Layer7Status, 0, line(&self.received))),
            false => Wait,
        }
    }

    fn postgres(&self, last: bool) -> ReplyVerdict {
        let received = &self.received[..];
        match (received, last) {
            ([b'E', ..], _) => {
                let text = received.get(6..).unwrap_or_default();
                match last || text.contains(&0) {
                    true => Found(Finding::new(CheckStatus::Layer7Invalid, line(text))),
                    false => Wait,
                }
            }
            // AuthenticationOk and all authentication requests (Message Formats, §55.7).
            ([b'R', 0, 0, 0, _, 0, 0, 0, 0 | 2..=7 | 9 | 10, ..], _) => {
                ok("PostgreSQL server is ok")
            }
            (received, false) if received.len() < 9 => Wait,
            _ => {
                let info = "PostgreSQL unknown error";
                Found(Finding::with_code(CheckStatus::Layer7Status, 0, info))
            }
        }
    }

    /// A packet: its size in three bytes, its number, and the payload; 0xff begins an error.
    fn mysql(&mut self, login: Option<&MySqlLogin>, last: bool) -> ReplyVerdict {
        let packet = match &self.received[..] {
            [a, b, c, _, rest @ ..] => {
                let size = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
                rest.get(..size).or_else(|| last.then_some(rest))
            }
            _ => None,
        };
        match (packet, login) {
            (None, _) if !last => Wait,
            (Some([0xff, low, high, text @ ..]), _) => {
                let code = u16::from_le_bytes([*low, *high]);
                Found(Finding::with_code(CheckStatus::Layer7Status, code, line(text)))
            }
            (Some([_, rest @ ..]), _) if self.replies == 0 => {
                self.version = line(rest);
                match login {
                    Some(login) => Send(mysql_login(login)),
                    None => ok(&self.version),
                }
            }
            (Some([0, ..]), _) => ok(&self.version),
            _ => Found(Finding::new(CheckStatus::Layer7Invalid, "MySQL packet is incomplete")),
        }
    }

    fn ldap(&self, last: bool) -> ReplyVerdict {
        if self.received.len() < LDAP_BIND.len() && !last {
            return Wait;
        }
        match ldap_result(&self.received) {
            None => Found(Finding::new(CheckStatus::Layer7Invalid, "Not LDAPv3 protocol")),
            Some(0) => ok("Success"),
            Some(code) => {
                let info = "See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9";
                Found(Finding::with_code(CheckStatus::Layer7Status, code.into(), info))
            }
        }
    }

    fn ssl(&self, last: bool) -> ReplyVerdict {
        match self.received[0] {
            _ if self.received.len() < 5 && !last => Wait,
            0x15 | 0x16 => Found(Finding::new(CheckStatus::Layer6Ok, "")),
            _ => Found(Finding::new(CheckStatus::Layer6Failure, "")),
        }
    }
}

fn ok(info: &str) -> ReplyVerdict {
    Found(Finding::with_code(CheckStatus::Layer7Ok, 0, info))
}

/// The text up to the end of the line, for logs.
fn line(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| b"\r\n\0".contains(byte)).next().unwrap_or_default();
    String::from_utf8_lossy(&text[..text.len().min(LINE_SIZE_MAX)]).into_owned()
}

/// The result of a bind: a sequence of the message number and a response, which begins with the
/// result.
fn ldap_result(received: &[u8]) -> Option<u8> {
    let (message, _) = element(received, 0x30)?;
    let (_, response) = element(message, 0x02)?;
    match element(response, 0x61)?.0 {
        [0x0a, 1, code, ..] => Some(*code),
        _ => None,
    }
}

/// The content of an element with this tag, as far as it was received, and the bytes after it
/// (X.690 §8.1).
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (size, rest) = match bytes {
        [first, size @ 0..=0x7f, rest @ ..] if *first == tag => (usize::from(*size), rest),
        [first, 0x81, size, rest @ ..] if *first == tag => (usize::from(*size), rest),
        [first, 0x82, a, b, rest @ ..] if *first == tag => {
            (usize::from(u16::from_be_bytes([*a, *b])), rest)
        }
        [first, 0x84, 0, 0, a, b, rest @ ..] if *first == tag => {
            (usize::from(u16::from_be_bytes([*a, *b])), rest)
        }
        _ => return None,
    };
    Some(rest.split_at(size.min(rest.len())))
}

/// `StartupMessage` of version 3.0.
fn startup(user: &str) -> Vec<u8> {
    let mut body = vec![0, 3, 0, 0];
    body.extend_from_slice(b"user\0");
    body.extend_from_slice(user.as_bytes());
    body.extend_from_slice(&[0, 0]);
    let size = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&size.to_be_bytes()[..], &body].concat()
}

/// A login without a password, and `COM_QUIT`.
fn mysql_login(login: &MySqlLogin) -> Vec<u8> {
    let mut body = match login.is_old {
        true => vec![0x00, 0x80, 0, 0, 1],
        false => [&[0, 0x82, 0, 0, 0, 0x80, 0, 1, 0x21][..], &[0; 23]].concat(),
    };
    body.extend_from_slice(login.user.as_bytes());
    body.extend_from_slice(&[0, 0]);
    let size = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&size[..3], &[1], &body, &[1, 0, 0, 0, 1]].concat()
}

/// A hello of SSLv3 with all of its suites. Current servers refuse it; that is a valid reply.
fn ssl_hello() -> Vec<u8> {
    let suites: Vec<u8> = (1..=0x1b).chain(0x2f..=0x3a).flat_map(|suite| [0, suite]).collect();
    let mut hello = vec![0x16, 3, 0, 0, 0x79, 1, 0, 0, 0x75, 3, 0];
    hello.extend_from_slice(b"\0\0\0\0HAPROXYSSLCHK\nHAPROXYSSLCHK\n");
    hello.push(0); // no session
    hello.extend_from_slice(&u16::try_from(suites.len()).unwrap_or(0).to_be_bytes());
    hello.extend_from_slice(&suites);
    hello.extend_from_slice(&[1, 0]); // no compression
    hello
}

/// `BindRequest` of version 3 with an empty name and no password.
const LDAP_BIND: &[u8] = b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00";
/// HAProxy examines as much of a reply as fits into its buffer.
const RECEIVED_SIZE_MAX: usize = 16 * 1024;
/// Maximum length of a server's text in a log line.
const LINE_SIZE_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes sent, and the result, with all replies in pieces of this size.
    fn run(protocol: &CheckProtocol, replies: &[&[u8]], size: usize) -> (Vec<Vec<u8>>, Finding) {
        let mut said = Vec::new();
        let mut check = ProtocolCheck::default();
        let mut take = |step| match step {
            CheckStep::Send(bytes) => {
                said.push(bytes);
                None
            }
            CheckStep::Done(_, finding) => Some(finding),
            CheckStep::Reconnect(..) => panic!("there is one connection"),
        };
        assert!(take(ProtocolCheck::begin(protocol)).is_none());
        for answer in replies {
            for piece in answer.chunks(size) {
                if let Some(finding) = take(check.handle_input(protocol, piece, false)) {
                    return (said, finding);
                }
            }
        }
        let finding = take(check.handle_input(protocol, b"", true)).expect("an end is the end");
        (said, finding)
    }

    fn smtp() -> CheckProtocol {
        CheckProtocol::Smtp { hello: "HELO localhost".to_owned() }
    }

    fn mysql(user: bool) -> CheckProtocol {
        let login = MySqlLogin { user: "joe".to_owned(), is_old: false };
        CheckProtocol::MySql { login: user.then_some(login) }
    }

    const GREETING: &[u8] = b"\x0d\0\0\0\n5.5.2-m2\0xyz";
    const REFUSAL: &[u8] = b"\x17\0\0\0\xff\x10\x04Too many connections";
    const BOUND: &[u8] = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
    const NOT_BOUND: &[u8] = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x01\x04\x00\x04\x00";

    /// The results of HAProxy 2.6.
    #[test]
    fn any_split_of_the_replies_finds_what_haproxy_finds() {
        use CheckProtocol::{Ldap, PostgreSql, Redis, SslHello};
        let pgsql = || PostgreSql { user: "joe".to_owned() };
        let rfc = "See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9";
        type Case = (CheckProtocol, &'static [&'static [u8]], &'static str, u16, &'static str);
        let cases: [Case; 22] = [
            (Redis, &[b"+PONG\r\n"], "L7OK", 0, "Redis server is ok"),
            (Redis, &[b"-NOAUTH x\r\n"], "L7STS", 0, "-NOAUTH x"),
            (Redis, &[], "L7STS", 0, "TCPCHK got an empty response at step 2"),
            (smtp(), &[b"220 hi\r\n", b"250 ok\r\n", b"221 bye\r\n"], "L7OK", 221, "bye"),
            (smtp(), &[b"220 hi\r\n", b"250-a\r\n250 b\r\n", b"221 bye\r\n"], "L7OK", 221, "bye"),
            (smtp(), &[b"554 go away\r\n"], "L7STS", 554, "go away"),
            (smtp(), &[b"hello there\r\n"], "L7RSP", 0, "hello there"),
            (smtp(), &[b"220 hi\r\n", b"500 what\r\n"], "L7STS", 500, "what"),
            (smtp(), &[b"22"], "L7RSP", 0, "22"),
            (pgsql(), &[b"R\0\0\0\x08\0\0\0\0"], "L7OK", 0, "PostgreSQL server is ok"),
            (pgsql(), &[b"E\0\0\0\x20whatever\0"], "L7RSP", 0, "hatever"),
            (pgsql(), &[b"R\0\0\0\x08\0\0\0\x08"], "L7STS", 0, "PostgreSQL unknown error"),
            (mysql(false), &[GREETING], "L7OK", 0, "5.5.2-m2"),
            (mysql(false), &[REFUSAL], "L7STS", 1040, "Too many connections"),
            (mysql(true), &[GREETING, b"\x01\0\0\x02\0"], "L7OK", 0, "5.5.2-m2"),
            (mysql(true), &[GREETING, REFUSAL], "L7STS", 1040, "Too many connections"),
            (Ldap, &[BOUND], "L7OK", 0, "Success"),
            (Ldap, &[NOT_BOUND], "L7STS", 1, rfc),
            (Ldap, &[b"nonsense, which is no LDAP"], "L7RSP", 0, "Not LDAPv3 protocol"),
            (SslHello, &[b"\x16\x03\0\0\x4a"], "L6OK", 0, ""),
            (SslHello, &[b"\x15\x03\0\0\x02"], "L6OK", 0, ""),
            (SslHello, &[b"HTTP/1.0 400"], "L6RSP", 0, ""),
        ];
        for (protocol, replies, short, code, info) in cases {
            for size in [1, 2, 3, 5, 1024] {
                let (_, found) = run(&protocol, replies, size);
                let seen = (found.status.short(), found.code, &found.info[..]);
                assert_eq!(seen, (short, code, info), "{protocol:?} {size}");
            }
        }
    }

    #[test]
    fn requests_equal_those_of_haproxy() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let pgsql = CheckProtocol::PostgreSql { user: "joe".to_owned() };
        let (said, _) = run(&pgsql, &[], 1);
        assert_eq!(hex(&said[0]), "000000120003000075736572006a6f650000");
        let (said, _) = run(&mysql(true), &[GREETING], 1024);
        let zeros = "0".repeat(46);
        let login = format!("25000001008200000080000121{zeros}6a6f6500000100000001");
        assert_eq!(hex(&said[1]), login);
        let old = MySqlLogin { user: "joe".to_owned(), is_old: true };
        assert_eq!(hex(&mysql_login(&old)), "0a00000100800000016a6f6500000100000001");
        let (said, _) = run(&smtp(), &[b"220 hi\r\n", b"250 ok\r\n"], 1024);
        assert_eq!(said[1..], [b"HELO localhost\r\n".to_vec(), b"QUIT\r\n".to_vec()]);
        let hello = ssl_hello();
        assert_eq!(hello.len(), 5 + 0x79);
        assert_eq!(hex(&hello[hello.len() - 6..]), "0039003a0100");
    }

    #[test]
    fn examined_bytes_are_limited() {
        let (_, finding) = run(&CheckProtocol::Redis, &[&[b'x'; 2 * RECEIVED_SIZE_MAX]], 1024);
        assert_eq!(finding.status, CheckStatus::Layer7Status);
        assert_eq!(finding.info.len(), LINE_SIZE_MAX);
    }
}
