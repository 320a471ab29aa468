//! Certificates of listeners, replaced while they are shown: in two steps, as HAProxy has it.

use std::path::Path;

use bytes::Bytes;

use super::call::Call;
use super::world::Reply;

pub(super) fn show(call: &mut Call<'_>) -> Reply {
    let all = &call.world.certificates;
    let mut out = String::new();
    if let Some(name) = call.word(0) {
        let (is_begun, file) = match name.strip_prefix('*') {
            Some(file) => (all.begun(|begun| begun.contains_key(Path::new(file))), file),
            None => (false, name),
        };
        let is_shown = all.files().iter().any(|it| it.as_os_str() == file);
        if !is_shown || (name.starts_with('*') && !is_begun) {
            return "Can't display the certificate: Not found or the certificate is a bundle!\n"
                .into();
        }
        return Reply::text(format!("Filename: {file}\nStatus: Used\n"));
    }
    let begun: Vec<String> =
        all.begun(|begun| begun.keys().map(|file| format!("*{}\n", file.display())).collect());
    if !begun.is_empty() {
        out += "# transaction\n";
        out.extend(begun);
    }
    out += "# filename\n";
    out.extend(all.files().iter().map(|file| format!("{}\n", file.display())));
    Reply::Text(out)
}

pub(super) fn set(call: &mut Call<'_>) -> Reply {
    let (Some(name), Some(payload)) = (call.word(0), call.payload) else {
        return "'set ssl cert expects a filename and a certificate as a payload\n".into();
    };
    let (all, file) = (&call.world.certificates, Path::new(name));
    if !all.files().iter().any(|it| *it == file) {
        return Reply::text(format!(
            "Can't replace a certificate which is not referenced by the configuration!\n\
             Can't update {name}!\n"
        ));
    }
    let pem = Bytes::from(payload.to_owned());
    if let Err(error) = all.try_out(file, &pem) {
        return Reply::text(format!("{error}.\nCan't load the payload\nCan't update {name}!\n"));
    }
    let before = all.begun(|begun| begun.insert(file.to_owned(), pem));
    let what = if before.is_some() { "updated" } else { "created" };
    Reply::text(format!("Transaction {what} for certificate {name}!\n"))
}

pub(super) fn commit(call: &mut Call<'_>) -> Reply {
    let Some(name) = call.word(0) else {
        return "'commit ssl cert expects a filename\n".into();
    };
    let (all, file) = (&call.world.certificates, Path::new(name));
    let Some(pem) = all.begun(|begun| begun.remove(file)) else {
        return Reply::text(format!("No ongoing transaction! !\nCan't commit {name}!\n"));
    };
    for (tls, options) in all.with(file, &pem) {
        if let Err(error) = tls.replace(options) {
            return Reply::text(format!("Committing {name}.\n{error}\nFailed!\n"));
        }
    }
    Reply::text(format!("Committing {name}.\nSuccess!\n"))
}

pub(super) fn abort(call: &mut Call<'_>) -> Reply {
    let Some(name) = call.word(0) else {
        return "'abort ssl cert' expects a filename\n".into();
    };
    match call.world.certificates.begun(|begun| begun.remove(Path::new(name))) {
        None => "No ongoing transaction!\n".into(),
        Some(_) => Reply::text(format!("Transaction aborted for certificate '{name}'!\n")),
    }
}
