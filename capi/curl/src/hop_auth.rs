//! The credentials of the current request: their source, and their use after its response.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use fulmar_client::Options;
use fulmar_sys as sys;

use crate::auth::{SigV4, SigV4Error, SignedRequest, method};
use crate::auth_state::{AuthFields, AuthInput, LoginPair, NtlmStep, PeerAuth, ResponseFacts};
use crate::code::CurlCode;
use crate::connection_name::logins_name;
use crate::custom_fields::CustomFields;
use crate::easy_options::{EasyOptions, RequestKind};
use crate::events::ReceivedHead;
use crate::failure::Failure;
use crate::handles::{Easy, EasyState, Multi};
use crate::netrc::find_netrc;
use crate::option::{OptionId as Id, auth_mask};
use crate::proxy_choice::{ProxyRoute, environment};
use crate::random;
use crate::response_field::ResponseField;
use crate::stamp::unix_time;
use crate::transfer::EasyTransfer;

impl Multi {
    /// Prepares the next request: its proxies, whose credentials it has, and the lane of NTLM.
    pub(crate) fn prepare_login(&self, easy: &Easy) -> Result<(), Failure> {
        easy.with_state(|state| {
            let Some(transfer) = &mut state.transfer else { return Ok(()) };
            let own = |id| state.options.values.bytes(id).map(|text| text.to_vec());
            // Credentials of another proxy's URL do not stay.
            let mut proxy_login =
                LoginPair { user: own(Id::PROXYUSERNAME), password: own(Id::PROXYPASSWORD) };
            let target = &transfer.target;
            let route = ProxyRoute::select(&state.options, target, &mut proxy_login, environment)?;
            (transfer.route, transfer.proxy_login) = (route.into(), proxy_login.into());
            let (login, is_netrc) = resolve_login(&state.options, transfer)?;
            (transfer.login, transfer.is_netrc) = (login.into(), is_netrc);
            let proxy = transfer.route.http.as_ref().map(|it| it.origin().into());
            state.auth.note_proxy(proxy, auth_mask(state.options.values.number(Id::PROXYAUTH)));
            let wants = |peer: &PeerAuth| peer.choice.wanted & method::NTLM != 0;
            let is_server = transfer.login.user.is_some() && wants(&state.auth.server);
            let is_proxy = transfer.has_proxy_login() && wants(&state.auth.proxy);
            if !(is_server || is_proxy) {
                transfer.lane = None;
                return Ok(());
            }
            let proxy = transfer.route.http.as_ref().map(|it| it.origin()).unwrap_or_default();
            let logins = logins_name([
                (&proxy, &transfer.proxy_login),
                (&transfer.target.origin(), &transfer.login),
            ]);
            let lane = self.ntlm.borrow_mut().select(logins, transfer.lane.as_ref());
            transfer.lane = Some(lane);
            Ok(())
        })
    }

    /// NTLM begins again on a new connection.
    pub(crate) fn note_connection(&self, easy: &Easy, origin: &str, options: &Options) {
        let lane = easy.with_state(|state| state.transfer.as_ref()?.lane.clone());
        let Some(lane) = lane else { return };
        let mut reactor = self.reactor.borrow_mut();
        reactor.check_unwatched(sys::now());
        if !reactor.engine.has_idle(origin, options) {
            lane.forget();
            easy.with_state(|state| state.auth.note_new_connection());
        }
    }
}

/// User and password for the current target (`parseurlandfillconn` and `override_login` of 7.88):
/// those of the options, of the URL, or of the `.netrc` file; true: they are from that file. What
/// was found for another host does not stay.
fn resolve_login(
    options: &EasyOptions,
    transfer: &EasyTransfer,
) -> Result<(LoginPair, bool), Failure> {
    let values = &options.values;
    let own = |id| values.bytes(id).map(|text| text.to_vec());
    let mut login = match transfer.trusts_host(options) {
        true => LoginPair { user: own(Id::USERNAME), password: own(Id::PASSWORD) },
        false => LoginPair::default(),
    };
    let target = &transfer.target;
    if login.password.is_none() {
        login.password.clone_from(&target.password);
    }
    let has_own_user = values.bytes(Id::USERNAME).is_some();
    if !has_own_user {
        match &target.user {
            Some(user) => login.user = Some(user.clone()),
            None if login.password.is_some() => login.user = Some(Vec::new()),
            None => {}
        }
    }
    let use_netrc = values.number(Id::NETRC);
    let is_complete = |text: &Option<Vec<u8>>| text.as_ref().is_some_and(|text| !text.is_empty());
    let has_both =
        use_netrc == NETRC_OPTIONAL && is_complete(&login.user) && is_complete(&target.password);
    if use_netrc == 0 || has_own_user || has_both {
        return Ok((login, false));
    }
    let Some(file) = netrc_file(options).and_then(|path| std::fs::read(path).ok()) else {
        return Ok((login, false));
    };
    let found = find_netrc(&file, target.host.as_bytes(), login.user.as_deref())
        .map_err(|_| Failure::new(CurlCode::ReadError, ".netrc parser error"))?;
    if !found.has_entry {
        return Ok((login, false));
    }
    login.user = found.login.or_else(|| login.user.take());
    login.password = found.password.or_else(|| login.password.take());
    if login.password.is_some() {
        login.user.get_or_insert_default();
    }
    Ok((login, true))
}

/// `CURLOPT_NETRC_FILE`, or the file in the home directory.
fn netrc_file(options: &EasyOptions) -> Option<PathBuf> {
    match options.values.bytes(Id::NETRC_FILE) {
        Some(path) => Some(std::ffi::OsStr::from_bytes(path).into()),
        None => Some(std::env::home_dir()?.join(".netrc")),
    }
}

/// The fields with credentials for the current request.
pub(crate) fn authorize(
    state: &mut EasyState,
    custom: &CustomFields,
    proxy_custom: &CustomFields,
    body: &[u8],
) -> Result<AuthFields, Failure> {
    let transfer = state.transfer.as_ref().expect("its request is being started");
    let values = &state.options.values;
    let trusts_host = transfer.trusts_host(&state.options);
    let token = values.bytes(Id::XOAUTH2_BEARER).filter(|_| trusts_host).map(|token| &token[..]);
    let auth = &mut state.auth;
    let has_body = has_body(&state.options, transfer);
    auth.negotiates = false;
    if transfer.login.user.is_none() && token.is_none() && !transfer.has_proxy_login() {
        auth.skip();
        return Ok(AuthFields::default());
    }
    let target = &transfer.target.path[..];
    let mut fields = AuthFields::default();
    if transfer.route.http.is_some() && !transfer.route.tunnels {
        let method = &transfer.method;
        fields.proxy = authorize_proxy(&mut auth.proxy, transfer, proxy_custom, method, target)?;
    } else {
        auth.proxy.skip();
    }
    if !(trusts_host || transfer.is_netrc) {
        auth.server.skip();
        auth.decide_body(has_body);
        return Ok(fields);
    }
    if auth.server.scheme() == Some(method::AWS_SIGV4) {
        auth.server.skip();
        fields.server = sign(&state.options, transfer, custom, body)?;
        return Ok(fields);
    }
    let input = AuthInput {
        login: &transfer.login,
        token,
        method: &transfer.method,
        target,
        has_custom: custom.find("Authorization").is_some(),
        random: &random_bytes()?,
        now: unix_time(sys::wall_clock()),
    };
    fields.server = match &transfer.lane {
        Some(lane) => auth.server.authorize(input, &mut lane.server.borrow_mut()),
        None => auth.server.authorize(input, &mut NtlmStep::default()),
    };
    auth.decide_body(has_body);
    Ok(fields)
}

/// The value of `Proxy-Authorization` for CONNECT.
pub(crate) fn authorize_connect(
    state: &mut EasyState,
    proxy_custom: &CustomFields,
    authority: &[u8],
) -> Result<Option<Vec<u8>>, Failure> {
    let transfer = state.transfer.as_ref().expect("its request is being started");
    state.auth.negotiates = false;
    match transfer.has_proxy_login() {
        true => {
            authorize_proxy(&mut state.auth.proxy, transfer, proxy_custom, b"CONNECT", authority)
        }
        false => Ok(None),
    }
}

fn authorize_proxy(
    auth: &mut PeerAuth,
    transfer: &EasyTransfer,
    proxy_custom: &CustomFields,
    method: &[u8],
    target: &[u8],
) -> Result<Option<Vec<u8>>, Failure> {
    let input = AuthInput {
        login: &transfer.proxy_login,
        token: None,
        method,
        target,
        has_custom: proxy_custom.find("Proxy-Authorization").is_some(),
        random: &random_bytes()?,
        now: unix_time(sys::wall_clock()),
    };
    Ok(match &transfer.lane {
        Some(lane) => auth.authorize(input, &mut lane.proxy.borrow_mut()),
        None => auth.authorize(input, &mut NtlmStep::default()),
    })
}

fn has_body(options: &EasyOptions, transfer: &EasyTransfer) -> bool {
    !transfer.drops_body && !matches!(options.request, RequestKind::Get | RequestKind::Head)
}

/// The value of AWS's signature, and the line of its date.
fn sign(
    options: &EasyOptions,
    transfer: &EasyTransfer,
    custom: &CustomFields,
    body: &[u8],
) -> Result<Option<Vec<u8>>, Failure> {
    if custom.find("Authorization").is_some() {
        return Ok(None);
    }
    let values = &options.values;
    let bad = |error: SigV4Error| {
        let code = match error {
            SigV4Error::Provider => CurlCode::BadFunctionArgument,
            _ => CurlCode::UrlMalformat,
        };
        Failure::new(code, error.to_string())
    };
    let option = values.bytes(Id::AWS_SIGV4).filter(|option| !option.is_empty());
    let signer = SigV4::parse(option.map_or(b"aws:amz", |option| &option[..])).map_err(bad)?;
    let target = &transfer.target;
    let mut parts = target.path.splitn(2, |byte| *byte == b'?');
    let path = parts.next().unwrap_or_default();
    let lines: Vec<&[u8]> = custom.lines().collect();
    let host_value = target.host_field();
    let text = |text: &Option<Vec<u8>>| text.clone().unwrap_or_default();
    let (value, date) = signer
        .sign(&SignedRequest {
            method: &transfer.method,
            host: target.host.as_bytes(),
            host_value: host_value.as_bytes(),
            path,
            query: parts.next().unwrap_or_default(),
            headers: &lines,
            body,
            user: &text(&transfer.login.user),
            password: &text(&transfer.login.password),
            now: unix_time(sys::wall_clock()),
        })
        .map_err(bad)?;
    let date = date.map(|line| [b"\r\n", &line[..]].concat()).unwrap_or_default();
    Ok(Some([value, date].concat()))
}

fn random_bytes() -> Result<[u8; 24], Failure> {
    let mut bytes = [0; 24];
    random::fill(&mut bytes)?;
    Ok(bytes)
}

/// Reads the challenges of a head.
pub(crate) fn read_challenges(state: &mut EasyState, head: &ReceivedHead) {
    let Some(transfer) = &state.transfer else { return };
    let auth = &mut state.auth;
    let (field, peer) = match head.status {
        401 => (ResponseField::WwwAuthenticate, &mut auth.server),
        407 => (ResponseField::ProxyAuthenticate, &mut auth.proxy),
        _ => return,
    };
    let mut unused = NtlmStep::default();
    for value in head.values(field) {
        let is_refused = match &transfer.lane {
            Some(lane) if head.status == 401 => {
                peer.handle_challenge(value, &mut lane.server.borrow_mut())
            }
            Some(lane) => peer.handle_challenge(value, &mut lane.proxy.borrow_mut()),
            None => peer.handle_challenge(value, &mut unused),
        };
        auth.is_problem = is_refused.unwrap_or(auth.is_problem);
    }
    state.info.server_auth = auth.server.choice.available;
    state.info.proxy_auth = auth.proxy.choice.available;
}

/// True if a status of 400 or more is an error for `CURLOPT_FAILONERROR`: not while credentials
/// can still be sent.
pub(crate) fn is_final(state: &EasyState, status: u16) -> bool {
    let has_login = state.transfer.as_ref().is_some_and(|it| it.login.user.is_some());
    match status {
        401 if has_login => state.auth.is_problem,
        407 if has_proxy_login(state) => state.auth.is_problem,
        status => status >= 400,
    }
}

/// The head of a response is complete: true if the request is repeated with other credentials.
pub(crate) fn repeats(state: &mut EasyState, status: u16) -> bool {
    let facts = ResponseFacts {
        status,
        has_login: state.transfer.as_ref().is_some_and(|it| it.login.user.is_some()),
        has_token: state.options.values.bytes(Id::XOAUTH2_BEARER).is_some(),
        has_proxy_login: has_proxy_login(state),
    };
    state.auth.repeats(facts)
}

fn has_proxy_login(state: &EasyState) -> bool {
    state.transfer.as_ref().is_some_and(|transfer| transfer.has_proxy_login())
}

/// `CURL_NETRC_OPTIONAL`.
const NETRC_OPTIONAL: i64 = 1;
