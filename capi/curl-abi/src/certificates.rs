//! `struct curl_certinfo`: the lists of `CURLINFO_CERTINFO`, owned by a handle.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Arc;

use fulmar_curl::certificate_lines;

use crate::slist::{self, CurlSlist, curl_slist_free_all};

/// `struct curl_certinfo`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CurlCertificates {
    count: c_int,
    /// A list for each certificate.
    lists: *mut *mut CurlSlist,
}

/// The structure whose address was returned, and what it points to.
#[derive(Debug)]
pub(crate) struct KeptCertificates {
    shown: UnsafeCell<CurlCertificates>,
    kept: UnsafeCell<CertificateLists>,
}

/// The lists of these certificates.
#[derive(Debug, Default)]
struct CertificateLists {
    of: Option<Arc<[Vec<u8>]>>,
    lists: Box<[*mut CurlSlist]>,
}

impl KeptCertificates {
    /// The structure, with the lists of these certificates. Its address does not change; lists of
    /// other certificates are freed.
    pub(crate) fn show(&self, certificates: Option<Arc<[Vec<u8>]>>) -> *const CurlCertificates {
        let shown = self.shown.get();
        // SAFETY: only this function uses it, and does not call itself.
        let kept = unsafe { &mut *self.kept.get() };
        let is_known = match (&kept.of, &certificates) {
            (None, None) => true,
            (Some(known), Some(new)) => Arc::ptr_eq(known, new),
            _ => false,
        };
        if !is_known {
            *kept = CertificateLists::new(certificates);
            let count = c_int::try_from(kept.lists.len()).unwrap_or(0);
            let lists = match count {
                0 => std::ptr::null_mut(),
                _ => kept.lists.as_mut_ptr(),
            };
            // SAFETY: besides, only the application has its address.
            unsafe { shown.write(CurlCertificates { count, lists }) };
        }
        shown
    }
}

impl Default for KeptCertificates {
    fn default() -> Self {
        let none = CurlCertificates { count: 0, lists: std::ptr::null_mut() };
        Self { shown: UnsafeCell::new(none), kept: UnsafeCell::default() }
    }
}

impl CertificateLists {
    fn new(of: Option<Arc<[Vec<u8>]>>) -> Self {
        let certificates = of.as_deref().unwrap_or_default();
        let lists = certificates.iter().map(|der| slist::list(&certificate_lines(der))).collect();
        Self { of, lists }
    }
}

impl Drop for CertificateLists {
    fn drop(&mut self) {
        for list in &self.lists {
            // SAFETY: it is `NULL` or a list of ours, which is freed once.
            unsafe { curl_slist_free_all(*list) };
        }
    }
}
