//! Replacing certificates of listeners at run time, in HAProxy's two steps.

use std::path::Path;

use bytes::Bytes;

use super::call::CommandCall;
use super::context::CommandReply;

pub(super) fn show(call: &mut CommandCall<'_>) -> CommandReply {
    let all = &call.context.certificates;
    let mut out = String::new();
    if let Some(name) = call.word(0) {
        let (is_begun, file) = match name.strip_prefix('*') {
            Some(file) => (
                all.with_transactions(|with_transactions| {
                    with_transactions.contains_key(Path::new(file))
                }),
                file,
            ),
            None => (false, name),
        };
        let is_shown = all.files().iter().any(|it| it.as_os_str() == file);
        if !is_shown || (name.starts_with('*') && !is_begun) {
            return "Can't display the certificate: Not found or the certificate is a bundle!\n"
                .into();
        }
        return CommandReply::text(format!("Filename: {file}\nStatus: Used\n"));
    }
    let with_transactions: Vec<String> = all.with_transactions(|with_transactions| {
        with_transactions.keys().map(|file| format!("*{}\n", file.display())).collect()
    });
    if !with_transactions.is_empty() {
        out += "# transaction\n";
        out.extend(with_transactions);
    }
    out += "# filename\n";
    out.extend(all.files().iter().map(|file| format!("{}\n", file.display())));
    CommandReply::Text(out)
}

pub(super) fn set(call: &mut CommandCall<'_>) -> CommandReply {
    let (Some(name), Some(payload)) = (call.word(0), call.payload) else {
        return "'set ssl cert expects a filename and a certificate as a payload\n".into();
    };
    let (all, file) = (&call.context.certificates, Path::new(name));
    if !all.files().iter().any(|it| *it == file) {
        return CommandReply::text(format!(
            "Can't replace a certificate which is not referenced by the configuration!\n\
             Can't update {name}!\n"
        ));
    }
    let pem = Bytes::from(payload.to_owned());
    if let Err(error) = all.check_contents(file, &pem) {
        return CommandReply::text(format!(
            "{error}.\nCan't load the payload\nCan't update {name}!\n"
        ));
    }
    let before =
        all.with_transactions(|with_transactions| with_transactions.insert(file.to_owned(), pem));
    let what = if before.is_some() { "updated" } else { "created" };
    CommandReply::text(format!("Transaction {what} for certificate {name}!\n"))
}

pub(super) fn commit(call: &mut CommandCall<'_>) -> CommandReply {
    let Some(name) = call.word(0) else {
        return "'commit ssl cert expects a filename\n".into();
    };
    let (all, file) = (&call.context.certificates, Path::new(name));
    let Some(pem) = all.with_transactions(|with_transactions| with_transactions.remove(file))
    else {
        return CommandReply::text(format!("No ongoing transaction! !\nCan't commit {name}!\n"));
    };
    for (tls, options) in all.with(file, &pem) {
        if let Err(error) = tls.replace(options) {
            return CommandReply::text(format!("Committing {name}.\n{error}\nFailed!\n"));
        }
    }
    CommandReply::text(format!("Committing {name}.\nSuccess!\n"))
}

pub(super) fn abort(call: &mut CommandCall<'_>) -> CommandReply {
    let Some(name) = call.word(0) else {
        return "'abort ssl cert' expects a filename\n".into();
    };
    match call
        .context
        .certificates
        .with_transactions(|with_transactions| with_transactions.remove(Path::new(name)))
    {
        None => "No ongoing transaction!\n".into(),
        Some(_) => CommandReply::text(format!("Transaction aborted for certificate '{name}'!\n")),
    }
}
