//! The version and its features, initialization, and the names of options.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};
use std::sync::LazyLock;

use fulmar_curl::code::CurlCode;
use fulmar_curl::{OptionId, OptionInfo, names};

use crate::handle::guard;
use crate::memory::{self, FreeFunction, MallocFunction, MemoryFunctions};
use crate::strings::bytes;
use crate::text::constant;

/// `curl_version_info_data`, of `CURLVERSION_ELEVENTH`.
#[derive(Debug)]
#[repr(C)]
pub struct CurlVersion {
    age: c_int,
    version: *const c_char,
    version_num: c_uint,
    host: *const c_char,
    features: c_int,
    ssl_version: *const c_char,
    ssl_version_num: c_long,
    libz_version: *const c_char,
    protocols: *const *const c_char,
    ares: *const c_char,
    ares_num: c_int,
    libidn: *const c_char,
    iconv_ver_num: c_int,
    libssh_version: *const c_char,
    brotli_ver_num: c_uint,
    brotli_version: *const c_char,
    nghttp2_ver_num: c_uint,
    nghttp2_version: *const c_char,
    quic_version: *const c_char,
    cainfo: *const c_char,
    capath: *const c_char,
    zstd_ver_num: c_uint,
    zstd_version: *const c_char,
    hyper_version: *const c_char,
    gsasl_version: *const c_char,
    feature_names: *const *const c_char,
}

// SAFETY: it has pointers to constants only.
unsafe impl Send for CurlVersion {}
// SAFETY: as above.
unsafe impl Sync for CurlVersion {}

/// A list of constants with `NULL` at its end, which lives for ever.
fn list(texts: &[&'static str]) -> *const *const c_char {
    let pointers: Vec<_> = texts.iter().map(|text| constant(text)).collect();
    let ended = [pointers, vec![std::ptr::null()]].concat();
    Box::leak(ended.into_boxed_slice()).as_ptr()
}

static VERSION: LazyLock<CurlVersion> = LazyLock::new(|| CurlVersion {
    age: 10,
    version: constant(NUMBER),
    version_num: 0x07_58_01,
    host: constant(HOST),
    features: FEATURES.iter().fold(0, |bits, (_, bit)| bits | 1 << bit),
    ssl_version: constant(TLS),
    ssl_version_num: 0,
    libz_version: constant("1.2.13"),
    protocols: list(&["file", "http", "https", "ws", "wss"]),
    ares: std::ptr::null(),
    ares_num: 0,
    libidn: constant("2.3.3"),
    iconv_ver_num: 0,
    libssh_version: std::ptr::null(),
    brotli_ver_num: 0x0100_0009,
    brotli_version: constant("1.0.9"),
    nghttp2_ver_num: 0x0001_3400,
    nghttp2_version: constant("1.52.0"),
    quic_version: std::ptr::null(),
    cainfo: constant("/etc/ssl/certs/ca-certificates.crt"),
    capath: constant("/etc/ssl/certs"),
    zstd_ver_num: 0x0100_0504,
    zstd_version: constant("1.5.4"),
    hyper_version: std::ptr::null(),
    gsasl_version: std::ptr::null(),
    feature_names: list(&FEATURES.map(|(name, _)| name)),
});

/// The features and their bits (`CURL_VERSION_*`), in the order of their names.
const FEATURES: [(&str, u32); 16] = [
    ("alt-svc", 24),
    ("AsynchDNS", 7),
    ("brotli", 23),
    ("HSTS", 28),
    ("HTTP2", 16),
    ("HTTPS-proxy", 21),
    ("IDN", 10),
    ("IPv6", 0),
    ("Largefile", 9),
    ("libz", 3),
    ("NTLM", 4),
    ("PSL", 20),
    ("SSL", 2),
    ("threadsafe", 30),
    ("UnixSockets", 19),
    ("zstd", 26),
];

/// The version with those of the libraries that programs look for.
#[unsafe(no_mangle)]
pub extern "C" fn curl_version() -> *const c_char {
    guard(std::ptr::null(), || constant(TEXT))
}

/// The version in parts. It is constant.
#[unsafe(no_mangle)]
pub extern "C" fn curl_version_info(_age: c_int) -> *const CurlVersion {
    guard(std::ptr::null(), || &raw const *VERSION)
}

/// Counts an initialization. The first one selects the memory of the C library.
#[unsafe(no_mangle)]
pub extern "C" fn curl_global_init(_flags: c_long) -> c_int {
    guard(CurlCode::FailedInit.number(), || {
        memory::initialize(MemoryFunctions::STANDARD);
        0
    })
}

/// As [`curl_global_init`], with other memory for what the application gets.
#[unsafe(no_mangle)]
pub extern "C" fn curl_global_init_mem(
    _flags: c_long,
    malloc: Option<MallocFunction>,
    free: Option<FreeFunction>,
    realloc: *mut c_void,
    strdup: *mut c_void,
    calloc: *mut c_void,
) -> c_int {
    guard(CurlCode::FailedInit.number(), || match (malloc, free) {
        (Some(malloc), Some(free))
            if ![realloc, strdup, calloc].contains(&std::ptr::null_mut()) =>
        {
            memory::initialize(MemoryFunctions { malloc, free });
            0
        }
        _ => CurlCode::FailedInit.number(),
    })
}

/// Takes an initialization back.
#[unsafe(no_mangle)]
pub extern "C" fn curl_global_cleanup() {
    guard((), memory::deinitialize);
}

/// `curl_ssl_backend`.
#[derive(Debug)]
#[repr(C)]
pub struct CurlTlsBackend {
    id: c_int,
    name: *const c_char,
}

// SAFETY: it has a pointer to a constant only.
unsafe impl Send for CurlTlsBackend {}
// SAFETY: as above.
unsafe impl Sync for CurlTlsBackend {}

/// A list for `curl_global_sslset`, with `NULL` at its end.
struct TlsBackends([*const CurlTlsBackend; 2]);

// SAFETY: it has a pointer to a constant only.
unsafe impl Send for TlsBackends {}
// SAFETY: as above.
unsafe impl Sync for TlsBackends {}

/// Selects a TLS backend: there is one, under the name that programs of Debian expect.
///
/// # Safety
/// `name` is `NULL` or a string; `available` is `NULL` or a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_global_sslset(
    id: c_int,
    name: *const c_char,
    available: *mut *const *const CurlTlsBackend,
) -> c_int {
    static BACKEND: LazyLock<CurlTlsBackend> =
        LazyLock::new(|| CurlTlsBackend { id: BACKEND_OPENSSL, name: constant("openssl") });
    static BACKENDS: LazyLock<TlsBackends> =
        LazyLock::new(|| TlsBackends([&raw const *BACKEND, std::ptr::null()]));
    guard(SSLSET_UNKNOWN_BACKEND, || {
        if !available.is_null() {
            // SAFETY: by the contract.
            unsafe { available.write(BACKENDS.0.as_ptr()) };
        }
        // SAFETY: by the contract.
        let name = unsafe { bytes(name) };
        let is_named = name.is_some_and(|name| name.eq_ignore_ascii_case(b"openssl"));
        match id == BACKEND_OPENSSL || is_named {
            true => SSLSET_OK,
            false => SSLSET_UNKNOWN_BACKEND,
        }
    })
}

/// `struct curl_easyoption`.
#[derive(Debug)]
#[repr(C)]
pub struct CurlEasyOption {
    name: *const c_char,
    id: c_int,
    kind: c_int,
    flags: c_uint,
}

// SAFETY: it has a pointer to a constant only.
unsafe impl Send for CurlEasyOption {}
// SAFETY: as above.
unsafe impl Sync for CurlEasyOption {}

/// All names in their order, and an element without a name.
static OPTIONS: LazyLock<Vec<CurlEasyOption>> = LazyLock::new(|| {
    let option = |(name, info, is_alias): (&'static str, &OptionInfo, bool)| CurlEasyOption {
        name: constant(name),
        id: info.id.0,
        kind: info.kind as c_int,
        flags: is_alias.into(),
    };
    let end = CurlEasyOption { name: std::ptr::null(), id: 0, kind: 0, flags: 0 };
    names().map(option).chain([end]).collect()
});

/// The option behind `previous`; `NULL`: the first one.
///
/// # Safety
/// `previous` is `NULL` or from a function of this family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_option_next(
    previous: *const CurlEasyOption,
) -> *const CurlEasyOption {
    guard(std::ptr::null(), || {
        // SAFETY: by the contract.
        let name = unsafe { previous.as_ref() }.map(|option| option.name);
        let at = match name {
            None => Some(0),
            Some(name) => OPTIONS.iter().position(|it| it.name == name).map(|at| at + 1),
        };
        let next = at.and_then(|at| OPTIONS.get(at)).filter(|option| !option.name.is_null());
        next.map_or(std::ptr::null(), std::ptr::from_ref)
    })
}

/// The option with a number.
#[unsafe(no_mangle)]
pub extern "C" fn curl_easy_option_by_id(id: c_int) -> *const CurlEasyOption {
    guard(std::ptr::null(), || {
        let is_it = |option: &&CurlEasyOption| option.id == id && option.flags == 0;
        let found = OptionInfo::by_id(OptionId(id)).and_then(|_| OPTIONS.iter().find(is_it));
        found.map_or(std::ptr::null(), std::ptr::from_ref)
    })
}

/// The option with a name, in any case.
///
/// # Safety
/// `name` is `NULL` or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_easy_option_by_name(name: *const c_char) -> *const CurlEasyOption {
    guard(std::ptr::null(), || {
        // SAFETY: by the contract.
        let Some(name) = (unsafe { bytes(name) }) else { return std::ptr::null() };
        let found = names().position(|(known, ..)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map_or(std::ptr::null(), |at| &raw const OPTIONS[at])
    })
}

const NUMBER: &str = "7.88.1";
const HOST: &str =
    if cfg!(target_arch = "x86_64") { "x86_64-pc-linux-gnu" } else { "aarch64-unknown-linux-gnu" };
const TLS: &str = "OpenSSL/3.0.19";
const TEXT: &str = concat!(
    "libcurl/7.88.1 OpenSSL/3.0.19 zlib/1.2.13 brotli/1.0.9 zstd/1.5.4 libidn2/2.3.3 ",
    "nghttp2/1.52.0 fulmar/",
    env!("CARGO_PKG_VERSION")
);
const BACKEND_OPENSSL: c_int = 1;
const SSLSET_OK: c_int = 0;
const SSLSET_UNKNOWN_BACKEND: c_int = 1;
