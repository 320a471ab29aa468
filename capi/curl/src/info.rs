//! The values of `curl_easy_getinfo`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::code::CurlCode;
use crate::option::OptionId;
use crate::protocols::protocol_bit;
use crate::rare::ConstDefault;
use crate::system_roots::{SYSTEM_ROOTS, SYSTEM_ROOTS_FOLDER};
use crate::values::{CPointer, OptionValues};

/// The number of an information (`CURLINFO_*`): the upper bits are its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoId(pub i32);

impl InfoId {
    /// `CURLINFO_COOKIELIST`.
    pub const COOKIELIST: Self = Self(TYPE_POINTER | 28);
    /// `CURLINFO_LASTSOCKET`.
    pub(crate) const LAST_SOCKET: Self = Self(TYPE_LONG | LAST_SOCKET);
    /// `CURLINFO_ACTIVESOCKET`.
    pub(crate) const ACTIVE_SOCKET: Self = Self(TYPE_SOCKET | ACTIVE_SOCKET);
}

/// A value with the type that its number has.
#[derive(Clone, Debug, PartialEq)]
pub enum InfoValue {
    /// `char *`.
    Text(Option<Arc<[u8]>>),
    /// `long`.
    Long(i64),
    /// `double`.
    Double(f64),
    /// A pointer, or a list.
    Pointer(CPointer),
    /// `curl_socket_t`.
    Socket(i32),
    /// `curl_off_t`.
    Offset(i64),
    /// `struct curl_tlssessioninfo *`, without the objects of a TLS library.
    TlsSession,
    /// `struct curl_certinfo *`, of these certificates in DER: the texts are those of
    /// [`crate::certificate_lines`].
    Certificates(Option<Arc<[Vec<u8>]>>),
    /// `struct curl_slist *`, which the application frees; `NULL` if it is empty.
    List(Vec<Vec<u8>>),
}

/// The last request of a transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestInfo {
    /// Its URL (`CURLINFO_EFFECTIVE_URL`).
    pub(crate) url: Arc<[u8]>,
    pub(crate) method: Cow<'static, [u8]>,
    /// The bytes of the heads of all requests.
    pub(crate) size: i64,
}

/// The responses of the last transfer, and its times.
#[derive(Clone, Debug)]
pub struct TransferInfo {
    /// The status of the last response.
    pub status: i64,
    /// 0, or a `CURL_HTTP_VERSION`.
    pub http_version: i64,
    /// Bytes of received heads.
    pub header_size: i64,
    /// `Last-Modified` in seconds since 1970; -1: unknown.
    pub file_time: i64,
    /// Redirects that were followed.
    pub redirects: i64,
    /// The URL of the redirect that was not followed.
    pub redirect_url: Option<Vec<u8>>,
    /// The `Referer` that `CURLOPT_AUTOREFERER` has set.
    pub referer: Option<Vec<u8>>,
    /// Body bytes that were received.
    pub received: i64,
    /// Body bytes that were sent.
    pub sent: i64,
    /// The declared length of the response; -1 without one.
    pub content_length: i64,
    /// The declared length of the request; -1 without one.
    pub upload_length: i64,
    /// The value of `Content-Type`.
    pub content_type: Option<Vec<u8>>,
    /// The certificates of the peer (`CURLOPT_CERTINFO`), if a connection was opened.
    pub(crate) certificates: Option<Arc<[Vec<u8>]>>,
    /// Connections that were opened.
    pub connects: i64,
    /// The address of the peer.
    pub peer: Option<std::net::SocketAddr>,
    /// The connection, open or not.
    pub socket: Option<fulmar_drive::SocketId>,
    /// The local address.
    pub local: Option<std::net::SocketAddr>,
    /// The status of the proxy's last response to CONNECT.
    pub connect_code: i64,
    /// The error of the SOCKS proxy (`CURLINFO_PROXY_ERROR`).
    pub proxy_error: i64,
    /// `X509_V_ERR_*` of OpenSSL: why the server's certificate was not accepted.
    pub(crate) verify_result: i64,
    /// The same for an HTTPS proxy.
    pub(crate) proxy_verify_result: i64,
    /// The authentication schemes that servers have offered.
    pub server_auth: u32,
    /// Those that proxies have offered.
    pub proxy_auth: u32,
    /// `Retry-After` in seconds.
    pub retry_after: i64,
    /// The error of the system behind a failure.
    pub os_error: i64,
    /// True if `CURLOPT_TIMECONDITION` was not met.
    pub is_condition_unmet: bool,
    /// From the start to the end.
    pub total: Duration,
    /// From the start until the name was resolved.
    pub name: Duration,
    /// Until the connection was established.
    pub connect: Duration,
    /// Until TLS was established.
    pub handshake: Duration,
    /// Until the request was sent.
    pub pretransfer: Duration,
    /// Until the first byte of the response.
    pub first_byte: Duration,
    /// For all redirects.
    pub redirect: Duration,
}

/// The information with a number, from what is known and the options.
pub(crate) fn value(
    request: &RequestInfo,
    info: &TransferInfo,
    values: &OptionValues,
    id: InfoId,
) -> Result<InfoValue, CurlCode> {
    let number = id.0 & INFO_MASK;
    let value = match id.0 & TYPE_MASK {
        TYPE_TEXT => match number {
            PRIVATE => InfoValue::Pointer(values.pointer(OptionId::PRIVATE)),
            _ => InfoValue::Text(info.text(request, number, |id| values.bytes(id).cloned())?),
        },
        TYPE_LONG => InfoValue::Long(info.long(request, number)?),
        TYPE_DOUBLE => InfoValue::Double(info.double(number)?),
        TYPE_OFFSET => InfoValue::Offset(info.offset(number)?),
        TYPE_POINTER if number == CERTINFO => InfoValue::Certificates(info.certificates.clone()),
        TYPE_POINTER if TLS_SESSIONS.contains(&number) => InfoValue::TlsSession,
        TYPE_POINTER if POINTERS.contains(&number) => InfoValue::Pointer(CPointer::NULL),
        TYPE_SOCKET if number == ACTIVE_SOCKET => InfoValue::Socket(-1),
        _ => return Err(CurlCode::UnknownOption),
    };
    Ok(value)
}

impl Default for TransferInfo {
    fn default() -> Self {
        Self::DEFAULT.clone()
    }
}

impl ConstDefault for TransferInfo {
    const DEFAULT: &'static Self = &Self {
        socket: None,
        status: 0,
        http_version: 0,
        header_size: 0,
        referer: None,
        file_time: -1,
        redirects: 0,
        redirect_url: None,
        received: 0,
        sent: 0,
        content_length: -1,
        upload_length: -1,
        content_type: None,
        certificates: None,
        connects: 0,
        peer: None,
        local: None,
        connect_code: 0,
        proxy_error: 0,
        verify_result: 0,
        proxy_verify_result: 0,
        server_auth: 0,
        proxy_auth: 0,
        retry_after: 0,
        os_error: 0,
        is_condition_unmet: false,
        total: Duration::ZERO,
        name: Duration::ZERO,
        connect: Duration::ZERO,
        handshake: Duration::ZERO,
        pretransfer: Duration::ZERO,
        first_byte: Duration::ZERO,
        redirect: Duration::ZERO,
    };
}

impl RequestInfo {
    fn scheme(&self) -> &[u8] {
        let end = memchr::memchr(b':', &self.url).unwrap_or(0);
        &self.url[..end]
    }
}

impl TransferInfo {
    fn text(
        &self,
        request: &RequestInfo,
        number: i32,
        option: impl Fn(OptionId) -> Option<Arc<[u8]>>,
    ) -> Result<Option<Arc<[u8]>>, CurlCode> {
        let text = |text: &[u8]| Some(Arc::from(text));
        let address = |address: Option<std::net::SocketAddr>| {
            let text = address.map_or_else(String::new, |address| address.ip().to_string());
            Some(Arc::from(text.as_bytes()))
        };
        Ok(match number {
            1 => Some(Arc::clone(&request.url)),
            18 => self.content_type.as_deref().and_then(text),
            31 => self.redirect_url.as_deref().and_then(text),
            32 => address(self.peer),
            41 => address(self.local),
            49 if request.url.is_empty() => None,
            49 => text(&request.scheme().to_ascii_uppercase()),
            58 => text(&request.method).filter(|method| !method.is_empty()),
            60 => self.referer.as_deref().map_or_else(|| option(OptionId::REFERER), text),
            61 => option(OptionId::CAINFO).or_else(|| text(SYSTEM_ROOTS.as_bytes())),
            62 => option(OptionId::CAPATH).or_else(|| text(SYSTEM_ROOTS_FOLDER.as_bytes())),
            // Of FTP and RTSP.
            30 | 36 => None,
            _ => return Err(CurlCode::UnknownOption),
        })
    }

    fn long(&self, request: &RequestInfo, number: i32) -> Result<i64, CurlCode> {
        let port = |address: Option<std::net::SocketAddr>| {
            address.map_or(0, |address| i64::from(address.port()))
        };
        Ok(match number {
            2 => self.status,
            11 => self.header_size,
            12 => request.size,
            14 => self.file_time,
            20 => self.redirects,
            22 => self.connect_code,
            23 => self.server_auth.into(),
            24 => self.proxy_auth.into(),
            25 => self.os_error,
            26 => self.connects,
            35 => (self.is_condition_unmet || self.status == 304).into(),
            40 => port(self.peer),
            42 => port(self.local),
            46 => self.http_version,
            LAST_SOCKET => -1, // unless it is open
            13 => self.verify_result,
            47 => self.proxy_verify_result,
            48 => protocol_bit(request.scheme()),
            37..=39 => 0, // of RTSP
            59 => self.proxy_error,
            _ => return Err(CurlCode::UnknownOption),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "the interface has floating point numbers")]
    fn double(&self, number: i32) -> Result<f64, CurlCode> {
        let offset = |number| self.offset(number).map(|value| value as f64);
        let seconds = |time: Duration| Ok(time.as_secs_f64());
        match number {
            3 => seconds(self.total),
            4 => seconds(self.name),
            5 => seconds(self.connect),
            6 => seconds(self.pretransfer),
            7..=10 | 15 | 16 => offset(number),
            17 => seconds(self.first_byte),
            19 => seconds(self.redirect),
            33 => seconds(self.handshake),
            _ => Err(CurlCode::UnknownOption),
        }
    }

    fn offset(&self, number: i32) -> Result<i64, CurlCode> {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let speed = |bytes: i64| match micros(self.total) {
            0 => bytes,
            total => {
                i64::try_from(i128::from(bytes) * 1_000_000 / i128::from(total)).unwrap_or(i64::MAX)
            }
        };
        Ok(match number {
            7 => self.sent,
            8 => self.received,
            9 => speed(self.received),
            10 => speed(self.sent),
            14 => self.file_time,
            15 => self.content_length,
            16 => self.upload_length,
            50 => micros(self.total),
            51 => micros(self.name),
            52 => micros(self.connect),
            53 => micros(self.pretransfer),
            54 => micros(self.first_byte),
            55 => micros(self.redirect),
            56 => micros(self.handshake),
            57 => self.retry_after,
            _ => return Err(CurlCode::UnknownOption),
        })
    }
}

const INFO_MASK: i32 = 0x000f_ffff;
const TYPE_MASK: i32 = 0x00f0_0000;
const TYPE_TEXT: i32 = 0x0010_0000;
const TYPE_LONG: i32 = 0x0020_0000;
const TYPE_DOUBLE: i32 = 0x0030_0000;
const TYPE_POINTER: i32 = 0x0040_0000;
const TYPE_SOCKET: i32 = 0x0050_0000;
const TYPE_OFFSET: i32 = 0x0060_0000;
const PRIVATE: i32 = 21;
const LAST_SOCKET: i32 = 29;
const ACTIVE_SOCKET: i32 = 44;
const CERTINFO: i32 = 34;
/// `CURLINFO_TLS_SESSION` and `CURLINFO_TLS_SSL_PTR`.
const TLS_SESSIONS: [i32; 2] = [43, 45];
/// Engines of OpenSSL.
const POINTERS: [i32; 1] = [27];
