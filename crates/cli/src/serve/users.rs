//! Who may ask: `--auth`.

use std::ffi::OsString;

use fulmar_semantics::auth::{Gate, GateOptions};
use fulmar_web::auth::{Guard, secret};
use fulmar_web::htpasswd::{COST_WARN, Htpasswd};

use super::arguments::Arguments;
use super::listen::Place;
use super::usage;
use crate::files::InputFile;
use crate::output::{Failure, complain};

/// What lets them in; `None` if anybody may ask.
pub(super) fn guard(arguments: &Arguments) -> Result<Option<Guard>, Failure> {
    let Some(auth) = &arguments.clients.auth else { return Ok(None) };
    let users = match auth.split_once(':') {
        Some((user, password)) => one(user, password)?,
        None => file(auth)?,
    };
    let no_random = |error| Failure::new("cannot get random bytes", error);
    let gate = Gate::new(GateOptions::basic(REALM), users, secret().map_err(no_random)?);
    let gate = gate.map_err(|error| usage("--auth", error))?;
    Guard::new(gate).map(Some).map_err(no_random)
}

/// Tells of what is probably not meant, where others than this machine can connect.
pub(super) fn warn(arguments: &Arguments) {
    let clients = &arguments.clients;
    let has_tls = !clients.tls_cert.is_empty();
    let is_clear = |place: &Place| !(has_tls && matches!(place, Place::Usual(_)));
    let mut public = arguments.listen.iter().filter(|place| place.is_public());
    if clients.auth.is_some() && public.clone().any(is_clear) {
        complain(
            "passwords travel in the clear: whoever is on the way from clients to this machine \
             reads them; use --tls-cert, or listen on 127.0.0.1 behind a proxy that speaks TLS",
        );
    }
    let knows_users = clients.auth.is_some() || !clients.tls_client_ca.is_empty();
    if arguments.answers.upload && !knows_users && public.next().is_some() {
        complain(
            "anybody who reaches this machine may put files here and replace others; use --auth or \
             --tls-client-ca",
        );
    }
}

fn one(user: &str, password: &str) -> Result<Htpasswd, Failure> {
    if user.is_empty() || password.is_empty() {
        return Err(usage("--auth", "write USER:PASSWORD, neither of them empty, or a FILE"));
    }
    if user.starts_with('#') || password.starts_with(['$', '{']) {
        let why = "a user that begins with # and a password that begins with $ or { have to stand \
                   in a file, the password hashed by `htpasswd -B`";
        return Err(usage("--auth", why));
    }
    Htpasswd::parse(&format!("{user}:{password}")).map_err(|error| usage("--auth", error))
}

fn file(path: &str) -> Result<Htpasswd, Failure> {
    let bytes = InputFile::from(OsString::from(path)).read()?;
    let text = String::from_utf8(bytes)
        .map_err(|error| Failure::new(format!("{path}: cannot read users and passwords"), error))?;
    let users = Htpasswd::parse(&text).map_err(|error| Failure::new(path, error))?;
    if let Some((user, cost)) = users.slow_users().max_by_key(|(_, cost)| *cost) {
        complain(&format!(
            "{path}: bcrypt cost {cost} of user '{user}' is above {COST_WARN}: each login takes \
             about {} s of a processor; use htpasswd -B -C 10",
            1_u32 << (cost - COST_WARN)
        ));
    }
    match users.is_empty() {
        true => Err(Failure::new(path, "there is no user in it, so nobody could ask")),
        false => Ok(users),
    }
}

/// What browsers show.
const REALM: &str = "fulmar serve";
