//! The behaviour of libcurl 7.88 on fulmar's client: everything that needs no C pointer.
//!
//! `capi/curl-abi` makes the shared library from it: it checks pointers, calls C, and owns the
//! handles. Here is what the handles mean. The source is libcurl's documentation; where that is
//! silent, the behaviour of the library itself, which the tests compare.

#![forbid(unsafe_code)]

pub mod code;

pub mod compare;
pub mod date;
pub mod environment;
pub mod escape;
pub mod url;

mod altsvc;
mod auth;
mod begin_prepared;
mod cookies;
mod header_list;
pub mod hsts;
pub mod mime;
mod netrc;
mod prepared;
mod random;
mod rare;
mod response_field;
mod stamp;
mod system_roots;

mod certificates;
mod no_proxy;
mod ntlm_lanes;
mod number;
mod proxy_choice;
mod socks_failure;
mod text;

mod form_sources;
mod option;
mod values;

mod share_kind;

mod border;

mod protocols;

mod easy_options;
mod multi_options;

mod cache_file;
mod cache_store;
mod cache_times;
mod cookie_store;

mod cipher_list;
mod key_log;
mod private_key;
mod tls_configurations;
mod tls_identity;

mod share;
mod shared_clients;

mod custom_fields;
mod request_head;

mod document;
mod failure;
mod line_ends;
mod refused_socket;

mod codings;
mod decoding;

mod attempts;
mod auth_state;
mod connect_hop;
mod hop_auth;
mod hop_body;
mod hop_head;
mod hop_response;
mod hop_target;
mod hop_texts;
mod http2_texts;
mod preconnect;
mod progress;
mod resolver_start;
mod resume_upload;
mod static_hosts;
mod transfer;

mod forms;

mod events;
mod info;
mod known_origin;
mod open_sockets;

mod handles;

mod alt_options;
mod cookie_options;
mod easy;
mod easy_share;
mod exchange_client;
mod hop_cookies;
mod hop_locks;
mod hsts_options;
mod http2_upgrade;
mod multi;

mod client_options;
mod closed_handles;
mod connect_only;
mod connection_limits;
mod connection_name;
mod connection_texts;
mod download;
mod file_range;
mod file_scheme;
mod follow;
mod held_body;
mod hop_route;
mod hops;
mod local_end;
mod multi_counts;
mod perform;
mod socket_hooks;
mod socket_options;
mod sockets;
mod tls_failure;
mod tls_options;
mod tls_texts;
mod unsupported;
mod updates;
mod upload;
mod upload_lines;
mod verbose;
mod verification;
mod websocket;
mod websocket_frames;
mod websocket_state;

#[cfg(test)]
mod random_input;
#[cfg(test)]
mod testing;

pub use border::{
    CBorder, DebugKind, LockCall, POLL_IN, POLL_OUT, POLL_REMOVE, PROGRESS_CONTINUE, READ_ABORT,
    READ_PAUSE, SEEK_CANNOT, SEEK_OK, SocketCall, WRITE_PAUSE,
};
pub use border::{HstsCall, HstsRead, HstsWritten};
pub use certificates::certificate_lines;
pub use easy_options::{Argument, EasyOptions, RequestKind};
pub use form_sources::{CallbackSource, FormSource, FormSources, PostedForm};
pub use forms::{
    FormAddCode, FormNode, FormTree, FormUpload, FormWord, FormaddSection, PostFlags, sections_of,
};
pub use fulmar_drive::Peer;
pub use handles::{Easy, Multi};
pub use header_list::{FoundHeader, HeaderList};
pub use info::{InfoId, InfoValue, TransferInfo};
pub use key_log::{close_key_log, open_key_log};
pub use multi::MultiAction;
pub use multi_options::MultiOptions;
pub use option::{OptionId, OptionInfo, OptionKind, names};
pub use share::DataShare;
pub use share_kind::SharedKind;
pub use values::{CPointer, OptionValue, OptionValues};
pub use websocket_state::WebSocketMeta;
