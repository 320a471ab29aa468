//! Results of the verification of certificates (`CURLINFO_SSL_VERIFYRESULT`).

use crate::info::TransferInfo;
use crate::tls_failure::tls_failure;
use crate::transfer::EasyTransfer;

/// Notes the result of the verification of a certificate, if it has failed; and the connection,
/// which libcurl counts, although CONNECT was not sent.
pub(crate) fn note_verification(
    info: &mut TransferInfo,
    transfer: &EasyTransfer,
    error: &(dyn std::error::Error + Send + Sync + 'static),
) {
    let Some(error) = error.downcast_ref() else { return };
    let (_, _, result) = tls_failure(error, "");
    match transfer.secures_proxy() {
        true => info.proxy_verify_result = result,
        false => info.verify_result = result,
    }
    info.connects += i64::from(transfer.is_connecting);
}
