//! What the client needs to know of a request besides its bytes.

use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{Options, Protocol};
use fulmar_proto::h1::{Leniency, ResponseProfile};
use fulmar_sys as sys;

use crate::auth::method;
use crate::failure::Failure;
use crate::handles::{EasyState, Multi};
use crate::option::OptionId as Id;

impl Multi {
    /// The options of the current request.
    pub(crate) fn client_options(&self, state: &EasyState) -> Result<Options, Failure> {
        let values = &state.options.values;
        let transfer = state.transfer.as_ref().expect("its request is being started");
        let elapsed = sys::now().saturating_duration_since(transfer.started);
        let positive = |id| u64::try_from(values.number(id)).ok().filter(|number| *number > 0);
        let timeout = positive(Id::TIMEOUT_MS);
        let span = |id| positive(id).map(Duration::from_millis);
        let seconds = |id| positive(id).map(Duration::from_secs);
        let http2 = values.number(Id::HTTP_VERSION) == HTTP_VERSION_2_PRIOR_KNOWLEDGE;
        let is_ntlm = state.auth.server.choice.picked == method::NTLM;
        let protocol = match http2 {
            _ if is_ntlm => Protocol::Http1,
            true => Protocol::Http2,
            false => Protocol::Negotiated,
        };
        let unix_socket = values.bytes(Id::UNIX_SOCKET_PATH);
        let leniency = match values.is_on(Id::HTTP09_ALLOWED) {
            true => Leniency::HTTP_09,
            false => Leniency::strict(),
        };
        Ok(Options {
            cookies: false,
            idle_timeout: None,
            expect_continue_from: None,
            continue_timeout: Duration::from_millis(
                u64::try_from(values.number(Id::EXPECT_100_TIMEOUT_MS)).unwrap_or(0),
            ),
            queue_timeout: span(Id::CONNECTTIMEOUT_MS),
            idle_age_max: seconds(Id::MAXAGE_CONN),
            lifetime_max: seconds(Id::MAXLIFETIME_CONN),
            fresh_connection: values.is_on(Id::FRESH_CONNECT) && transfer.redirects == 0,
            connection_name: transfer.lane.as_ref().map(|lane| Arc::clone(&lane.name)),
            highest_speed: positive(Id::MAX_RECV_SPEED_LARGE),
            total_timeout: timeout.map(|ms| Duration::from_millis(ms).saturating_sub(elapsed)),
            tls: transfer.target.is_secure.then(|| self.tls(state)).transpose()?,
            protocol,
            unix_socket: unix_socket.map(|path| String::from_utf8_lossy(path).into_owned().into()),
            leniency,
            profile: ResponseProfile::Libcurl,
            ..Options::default()
        })
    }
}

/// `CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE`.
const HTTP_VERSION_2_PRIOR_KNOWLEDGE: i64 = 5;
