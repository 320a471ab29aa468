//! The numbers that libcurl's functions return, and their texts.
//!
//! Numbers are part of the binary interface. Texts are those of the `strerror` functions, which
//! programs print and compare. Numbers that 7.88 no longer uses have no name here.

use std::{error, fmt};

/// An enum of codes: each with its number and its text.
macro_rules! codes {
    (
        $(#[$doc:meta])*
        $name:ident, $unknown:literal;
        $($variant:ident = $number:literal, $text:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum $name {
            $(#[doc = $text] $variant = $number,)*
        }

        impl $name {
            /// Every code, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code that has this number.
            #[must_use]
            pub const fn from_number(number: i32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number in the C interface.
            #[must_use]
            pub const fn number(self) -> i32 {
                self as i32
            }

            /// What the code means.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The text of any number, also of one without a name.
            #[must_use]
            pub const fn text_of(number: i32) -> &'static str {
                match Self::from_number(number) {
                    Some(code) => code.text(),
                    None => $unknown,
                }
            }

            /// The number for the C interface of a result without a value.
            #[must_use]
            pub const fn number_of(result: Result<(), Self>) -> i32 {
                match result {
                    Ok(()) => Self::Ok.number(),
                    Err(code) => code.number(),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text())
            }
        }

        impl error::Error for $name {}
    };
}

codes! {
    /// Result of a transfer, or of a function of an easy handle (`CURLcode`).
    CurlCode, "Unknown error";
    Ok = 0, "No error";
    UnsupportedProtocol = 1, "Unsupported protocol";
    FailedInit = 2, "Failed initialization";
    UrlMalformat = 3, "URL using bad/illegal format or missing URL";
    NotBuiltIn = 4,
        "A requested feature, protocol or option was not found built-in in this libcurl due to a \
        build-time decision.";
    CouldntResolveProxy = 5, "Couldn't resolve proxy name";
    CouldntResolveHost = 6, "Couldn't resolve host name";
    CouldntConnect = 7, "Couldn't connect to server";
    WeirdServerReply = 8, "Weird server reply";
    RemoteAccessDenied = 9, "Access denied to remote resource";
    FtpAcceptFailed = 10, "FTP: The server failed to connect to data port";
    FtpWeirdPassReply = 11, "FTP: unknown PASS reply";
    FtpAcceptTimeout = 12, "FTP: Accepting server connect has timed out";
    FtpWeirdPasvReply = 13, "FTP: unknown PASV reply";
    FtpWeird227Format = 14, "FTP: unknown 227 response format";
    FtpCantGetHost = 15, "FTP: can't figure out the host in the PASV response";
    Http2 = 16, "Error in the HTTP2 framing layer";
    FtpCouldntSetType = 17, "FTP: couldn't set file type";
    PartialFile = 18, "Transferred a partial file";
    FtpCouldntRetrFile = 19, "FTP: couldn't retrieve (RETR failed) the specified file";
    QuoteError = 21, "Quote command returned error";
    HttpReturnedError = 22, "HTTP response code said error";
    WriteError = 23, "Failed writing received data to disk/application";
    UploadFailed = 25, "Upload failed (at start/before it took off)";
    ReadError = 26, "Failed to open/read local data from file/application";
    OutOfMemory = 27, "Out of memory";
    OperationTimedOut = 28, "Timeout was reached";
    FtpPortFailed = 30, "FTP: command PORT failed";
    FtpCouldntUseRest = 31, "FTP: command REST failed";
    RangeError = 33, "Requested range was not delivered by the server";
    HttpPostError = 34, "Internal problem setting up the POST";
    SslConnectError = 35, "SSL connect error";
    BadDownloadResume = 36, "Couldn't resume download";
    FileCouldntReadFile = 37, "Couldn't read a file:// file";
    LdapCannotBind = 38, "LDAP: cannot bind";
    LdapSearchFailed = 39, "LDAP: search failed";
    FunctionNotFound = 41, "A required function in the library was not found";
    AbortedByCallback = 42, "Operation was aborted by an application callback";
    BadFunctionArgument = 43, "A libcurl function was given a bad argument";
    InterfaceFailed = 45, "Failed binding local connection end";
    TooManyRedirects = 47, "Number of redirects hit maximum amount";
    UnknownOption = 48, "An unknown option was passed in to libcurl";
    SetoptOptionSyntax = 49, "Malformed option provided in a setopt";
    GotNothing = 52, "Server returned nothing (no headers, no data)";
    SslEngineNotFound = 53, "SSL crypto engine not found";
    SslEngineSetFailed = 54, "Can not set SSL crypto engine as default";
    SendError = 55, "Failed sending data to the peer";
    RecvError = 56, "Failure when receiving data from the peer";
    SslCertProblem = 58, "Problem with the local SSL certificate";
    SslCipher = 59, "Couldn't use specified SSL cipher";
    PeerFailedVerification = 60, "SSL peer certificate or SSH remote key was not OK";
    BadContentEncoding = 61, "Unrecognized or bad HTTP Content or Transfer-Encoding";
    FileSizeExceeded = 63, "Maximum file size exceeded";
    UseSslFailed = 64, "Requested SSL level failed";
    SendFailRewind = 65, "Send failed since rewinding of the data stream failed";
    SslEngineInitFailed = 66, "Failed to initialise SSL crypto engine";
    LoginDenied = 67, "Login denied";
    TftpNotFound = 68, "TFTP: File Not Found";
    TftpPerm = 69, "TFTP: Access Violation";
    RemoteDiskFull = 70, "Disk full or allocation exceeded";
    TftpIllegal = 71, "TFTP: Illegal operation";
    TftpUnknownId = 72, "TFTP: Unknown transfer ID";
    RemoteFileExists = 73, "Remote file already exists";
    TftpNoSuchUser = 74, "TFTP: No such user";
    SslCaCertBadFile = 77, "Problem with the SSL CA cert (path? access rights?)";
    RemoteFileNotFound = 78, "Remote file not found";
    Ssh = 79, "Error in the SSH layer";
    SslShutdownFailed = 80, "Failed to shut down the SSL connection";
    Again = 81, "Socket not ready for send/recv";
    SslCrlBadFile = 82, "Failed to load CRL file (path? access rights?, format?)";
    SslIssuerError = 83, "Issuer check against peer certificate failed";
    FtpPretFailed = 84, "FTP: The server did not accept the PRET command.";
    RtspCseqError = 85, "RTSP CSeq mismatch or invalid CSeq";
    RtspSessionError = 86, "RTSP session error";
    FtpBadFileList = 87, "Unable to parse FTP file list";
    ChunkFailed = 88, "Chunk callback failed";
    NoConnectionAvailable = 89, "The max connection limit is reached";
    SslPinnedPubKeyNotMatch = 90, "SSL public key does not match pinned public key";
    SslInvalidCertStatus = 91, "SSL server certificate status verification FAILED";
    Http2Stream = 92, "Stream error in the HTTP/2 framing layer";
    RecursiveApiCall = 93, "API function called from within callback";
    AuthError = 94, "An authentication function returned an error";
    Http3 = 95, "HTTP/3 error";
    QuicConnectError = 96, "QUIC connection error";
    Proxy = 97, "proxy handshake error";
    SslClientCert = 98, "SSL Client Certificate required";
    UnrecoverablePoll = 99, "Unrecoverable error in select/poll";
}

codes! {
    /// Result of a function of a multi handle (`CURLMcode`).
    MultiCode, "Unknown error";
    CallMultiPerform = -1, "Please call curl_multi_perform() soon";
    Ok = 0, "No error";
    BadHandle = 1, "Invalid multi handle";
    BadEasyHandle = 2, "Invalid easy handle";
    OutOfMemory = 3, "Out of memory";
    InternalError = 4, "Internal error";
    BadSocket = 5, "Invalid socket argument";
    UnknownOption = 6, "Unknown option";
    AddedAlready = 7, "The easy handle is already added to a multi handle";
    RecursiveApiCall = 8, "API function called from within callback";
    WakeupFailure = 9, "Wakeup is unavailable or failed";
    BadFunctionArgument = 10, "A libcurl function was given a bad argument";
    AbortedByCallback = 11, "Operation was aborted by an application callback";
    UnrecoverablePoll = 12, "Unrecoverable error in select/poll";
}

codes! {
    /// Result of a function of a share (`CURLSHcode`).
    ShareCode, "CURLSHcode unknown";
    Ok = 0, "No error";
    BadOption = 1, "Unknown share option";
    InUse = 2, "Share currently in use";
    Invalid = 3, "Invalid share handle";
    NoMemory = 4, "Out of memory";
    NotBuiltIn = 5, "Feature not enabled in this library";
}

codes! {
    /// Result of a function of the URL API (`CURLUcode`).
    UrlCode, "CURLUcode unknown";
    Ok = 0, "No error";
    BadHandle = 1, "An invalid CURLU pointer was passed as argument";
    BadPartPointer = 2, "An invalid 'part' argument was passed as argument";
    MalformedInput = 3, "Malformed input to a URL function";
    BadPortNumber = 4, "Port number was not a decimal number between 0 and 65535";
    UnsupportedScheme = 5, "Unsupported URL scheme";
    UrlDecode = 6, "URL decode error, most likely because of rubbish in the input";
    OutOfMemory = 7, "A memory function failed";
    UserNotAllowed = 8, "Credentials was passed in the URL when prohibited";
    UnknownPart = 9, "An unknown part ID was passed to a URL API function";
    NoScheme = 10, "No scheme part in the URL";
    NoUser = 11, "No user part in the URL";
    NoPassword = 12, "No password part in the URL";
    NoOptions = 13, "No options part in the URL";
    NoHost = 14, "No host part in the URL";
    NoPort = 15, "No port part in the URL";
    NoQuery = 16, "No query part in the URL";
    NoFragment = 17, "No fragment part in the URL";
    NoZoneId = 18, "No zoneid part in the URL";
    BadFileUrl = 19, "Bad file:// URL";
    BadFragment = 20, "Bad fragment";
    BadHostname = 21, "Bad hostname";
    BadIpv6 = 22, "Bad IPv6 address";
    BadLogin = 23, "Bad login part";
    BadPassword = 24, "Bad password";
    BadPath = 25, "Bad path";
    BadQuery = 26, "Bad query";
    BadScheme = 27, "Bad scheme";
    BadSlashes = 28, "Unsupported number of slashes following scheme";
    BadUser = 29, "Bad user";
    LacksIdn = 30, "libcurl lacks IDN support";
}

codes! {
    /// Result of a function of the header API (`CURLHcode`), for which libcurl has no texts.
    HeaderCode, "CURLHcode unknown";
    Ok = 0, "No error";
    BadIndex = 1, "The header exists, but not with this index";
    Missing = 2, "No such header";
    NoHeaders = 3, "No headers were received yet";
    NoRequest = 4, "No request has this number";
    OutOfMemory = 5, "Out of memory";
    BadArgument = 6, "A function was given a bad argument";
    NotBuiltIn = 7, "The header API is not built in";
}
