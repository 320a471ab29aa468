//! Results of the verification of certificates (`CURLINFO_SSL_VERIFYRESULT`).

use fulmar_client::{Done, Error};

use crate::info::TransferInfo;
use crate::tls_failure::{UNSPECIFIED, tls_failure};
use crate::transfer::EasyTransfer;

/// Notes the result of the verification of a certificate, if a handshake has failed; and the
/// connection, which libcurl counts, although CONNECT was not sent.
pub(crate) fn note_verification(info: &mut TransferInfo, transfer: &EasyTransfer, done: &Done) {
    if done.connection.is_some() {
        return;
    }
    let result = match &done.result {
        Err(Error::Layer(error)) => {
            let Some(error) = error.downcast_ref() else { return };
            tls_failure(error, "").2
        }
        Err(Error::Io(_)) if transfer.route.socks.is_none() => UNSPECIFIED,
        _ => return,
    };
    match transfer.secures_proxy() {
        true => info.proxy_verify_result = result,
        false => info.verify_result = result,
    }
    info.connects += i64::from(transfer.is_connecting);
}
