//! Users and passwords: `--auth`.

use std::ffi::OsString;

use fulmar_semantics::auth::{Gate, GateOptions};
use fulmar_web::auth::{Guard, secret};
use fulmar_web::htpasswd::{COST_WARN, Htpasswd};

use super::arguments::ServeArguments;
use super::listen_address::ListenAddress;
use crate::files::InputFile;
use crate::output::{ToolFailure, warn};

/// The guard; `None` without `--auth`.
pub(super) fn guard(arguments: &ServeArguments) -> Result<Option<Guard>, ToolFailure> {
    let Some(auth) = &arguments.access.auth else { return Ok(None) };
    let users = match auth.split_once(':') {
        Some((user, password)) => one(user, password)?,
        None => file(auth)?,
    };
    let no_random = |error| ToolFailure::new("cannot get random bytes", error);
    let gate = Gate::new(GateOptions::basic(REALM), users, secret().map_err(no_random)?);
    let gate = gate.map_err(|error| ToolFailure::usage("--auth", error))?;
    Guard::new(gate).map(Some).map_err(no_random)
}

/// Warns about insecure options if other machines can connect.
pub(super) fn warn_if_insecure(arguments: &ServeArguments) {
    let access = &arguments.access;
    let has_tls = !access.tls_cert.is_empty();
    let is_clear = |place: &ListenAddress| !(has_tls && matches!(place, ListenAddress::Usual(_)));
    let mut public = arguments.listen.iter().filter(|place| place.is_public());
    if access.auth.is_some() && public.clone().any(is_clear) {
        warn(
            "passwords are sent unencrypted and can be read on the network; use --tls-cert, or \
             listen on 127.0.0.1 behind a proxy with TLS",
        );
    }
    let has_access_control = access.auth.is_some() || !access.tls_client_ca.is_empty();
    if arguments.content.upload && !has_access_control && public.next().is_some() {
        warn(
            "uploads are not restricted: any client can create and replace files; use --auth or \
             --tls-client-ca",
        );
    }
}

fn one(user: &str, password: &str) -> Result<Htpasswd, ToolFailure> {
    if user.is_empty() || password.is_empty() {
        return Err(ToolFailure::usage(
            "--auth",
            "expected USER:PASSWORD, both not empty, or a FILE",
        ));
    }
    if user.starts_with('#') || password.starts_with(['$', '{']) {
        let why = "a user starting with # or a password starting with $ or { must be in a file, \
                   with the password hashed by `htpasswd -B`";
        return Err(ToolFailure::usage("--auth", why));
    }
    Htpasswd::parse(&format!("{user}:{password}"))
        .map_err(|error| ToolFailure::usage("--auth", error))
}

fn file(path: &str) -> Result<Htpasswd, ToolFailure> {
    let bytes = InputFile::from(OsString::from(path)).read()?;
    let text = String::from_utf8(bytes).map_err(|error| {
        ToolFailure::usage(format!("{path}: cannot read users and passwords"), error)
    })?;
    let users = Htpasswd::parse(&text).map_err(|error| ToolFailure::usage(path, error))?;
    if let Some((user, cost)) = users.slow_users().max_by_key(|(_, cost)| *cost) {
        warn(&format!(
            "{path}: bcrypt cost {cost} of user '{user}' exceeds {COST_WARN}: each login takes \
             about {} s of CPU time; use htpasswd -B -C 10",
            1_u32 << (cost - COST_WARN)
        ));
    }
    if let Some(user) = users.plain_users().next() {
        let others = match users.plain_users().count() - 1 {
            0 => String::new(),
            others => format!(" (others not hashed: {others})"),
        };
        warn(&format!(
            "{path}: the password of user '{user}' is not hashed{others}; expected lines \
             USER:HASH, as written by htpasswd -B"
        ));
    }
    match users.is_empty() {
        true => Err(ToolFailure::usage(path, "no users in the file")),
        false => Ok(users),
    }
}

/// The realm that browsers show.
const REALM: &str = "fulmar serve";
