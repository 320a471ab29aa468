//! Uploads of files into the directory (RFC 9110 §9.3.4).
//!
//! A complete file appears atomically and replaces an existing one. Until then it has no name, and
//! an aborted upload leaves nothing ([`Temporary`]). No directory is created, and no link is
//! followed or replaced. Readers never see a partial file: an open old file stays readable.
//!
//! Preconditions are checked when the head arrives, and again when the file is complete. Between
//! the second check and the rename another program may still change the file.

use std::cell::RefCell;
use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use bytes::Bytes;
use fulmar_proto::{BodyLen, HeaderBuf, Headers, Request, Response};
use fulmar_semantics::conditional::{Conditions, Verdict};
use fulmar_server::{BodyHandler, HandlerResult, Responder};
use fulmar_sys as sys;
use fulmar_sys::{FileInfo, FileKind};
use fulmar_web::temporary::{Temporary, TemporaryDir};

use crate::file::{push, validators_of};
use crate::pages::page;
use crate::path::Name;
use crate::root::{OpenError, Root};

/// The limits of uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadOptions {
    /// The maximum size of a file in bytes.
    pub size_max: u64,
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self { size_max: 1 << 30 }
    }
}

/// The names of uploaded files, which the cache must remove.
pub(crate) type ChangedNames = Rc<RefCell<Vec<Box<[u8]>>>>;

/// Receives a file, or responds with an error.
pub(crate) fn receive(
    responder: &mut Responder<'_>,
    request: &Request<'_>,
    (root, name): (&Root, &Name),
    options: UploadOptions,
    changed: &ChangedNames,
) -> HandlerResult {
    if matches!(responder.body_len(), BodyLen::Exact(len) if len > options.size_max) {
        return refuse(responder, 413);
    }
    let unix_now = responder.clock().unix();
    let begun = UploadTarget::find(root, name, request.headers, unix_now).and_then(|target| {
        let file = target.dir.create().map_err(|error| status_of(&error))?;
        Ok((target, file))
    });
    match begun {
        Err(status) => refuse(responder, status),
        Ok(under_way) => responder.attach(Upload {
            under_way: Some(under_way),
            size_max: options.size_max,
            key: name.key().into(),
            changed: Rc::clone(changed),
        }),
    }
}

/// The place of the new file, and the existing file.
struct UploadTarget {
    dir: TemporaryDir,
    /// The last component, without a slash.
    name: CString,
    there: Option<FileInfo>,
    is_conditional: bool,
}

impl UploadTarget {
    /// Checks the request. The error is a status.
    fn find(root: &Root, name: &Name, headers: Headers<'_>, unix_now: i64) -> Result<Self, u16> {
        if headers.get("Content-Range").is_some() {
            return Err(400); // part of a file (RFC 9110 §14.5)
        }
        if headers.get("Content-Encoding").is_some() {
            return Err(415); // the stored file would be sent without its coding
        }
        if name.is_directory() {
            return Err(409);
        }
        let (parent, last) = match name.bytes().iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&name.bytes()[..at], &name.bytes()[at + 1..]),
            None => (&b"."[..], name.bytes()),
        };
        let [parent, last] =
            [parent, last].map(|text| CString::new(text).expect("a name has no NUL"));
        let dir = match root.find(&parent) {
            Ok((dir, info)) if info.kind == FileKind::Directory => TemporaryDir::of(dir),
            Ok((file, _)) => {
                sys::close(file);
                return Err(409);
            }
            Err(OpenError::NotFound) => return Err(409),
            Err(OpenError::Forbidden) => return Err(403),
            Err(OpenError::Exhausted) => return Err(503),
            Err(OpenError::Broken) => return Err(500),
        };
        let mut target = Self { dir, name: last, there: None, is_conditional: false };
        target.there = target.look()?;
        match target.there.map(|info| info.kind) {
            None | Some(FileKind::Regular) => {}
            Some(FileKind::Directory) => return Err(409),
            Some(FileKind::Link | FileKind::Other) => return Err(403),
        }
        let conditions = Conditions::of(headers);
        target.is_conditional = !conditions.is_empty();
        let current = target.there.map(|info| validators_of(&info, None, unix_now));
        match conditions.evaluate_change(current.as_ref()) {
            Verdict::Proceed => Ok(target),
            Verdict::Failed | Verdict::NotModified => Err(412),
        }
    }

    fn look(&self) -> Result<Option<FileInfo>, u16> {
        match sys::stat_link(self.dir.as_fd(), &self.name) {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(status_of(&error)),
        }
    }

    /// Renames the file to its final name. Returns its entity tag, and whether it is new.
    fn enter(self, file: Temporary) -> Result<(Option<String>, bool), u16> {
        if self.is_conditional && self.look()? != self.there {
            return Err(412);
        }
        let info = sys::fstat(file.as_fd()).map_err(|error| status_of(&error))?;
        let result = match (self.there, self.is_conditional) {
            (None, true) => file.keep_new(self.dir.as_fd(), &self.name),
            _ => file.keep(self.dir.as_fd(), &self.name),
        };
        match result {
            Ok(()) => Ok((validators_of(&info, None, i64::MAX).etag, self.there.is_none())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(412),
            Err(error) => Err(status_of(&error)),
        }
    }
}

/// An upload in progress. If it is refused, nothing is left of it.
struct Upload {
    under_way: Option<(UploadTarget, Temporary)>,
    size_max: u64,
    key: Box<[u8]>,
    changed: ChangedNames,
}

impl Upload {
    /// Makes the cache remove the file and the listing of its directory.
    fn notify_cache(&self) {
        let directory = self.key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let mut changed = self.changed.borrow_mut();
        changed.extend([self.key.clone(), self.key[..directory].into()]);
    }
}

impl BodyHandler for Upload {
    fn data(&mut self, responder: &mut Responder<'_>, bytes: Bytes) -> HandlerResult {
        let Some((_, file)) = &mut self.under_way else { return Ok(()) };
        let result = match file.len() + bytes.len() as u64 > self.size_max {
            true => Err(413),
            false => file.write_all(&bytes).map_err(|error| status_of(&error)),
        };
        match result {
            Ok(()) => Ok(()),
            Err(status) => {
                self.under_way = None;
                refuse(responder, status)
            }
        }
    }

    fn end(&mut self, responder: &mut Responder<'_>, _: Headers<'_>) -> HandlerResult {
        let Some((target, file)) = self.under_way.take() else { return Ok(()) };
        match target.enter(file) {
            Err(status) => refuse(responder, status),
            Ok((etag, is_new)) => {
                self.notify_cache();
                let mut fields = HeaderBuf::new();
                if let Some(etag) = etag {
                    push(&mut fields, "ETag", etag.as_bytes());
                }
                let status = if is_new { 201 } else { 204 };
                responder.reply(Response::new(status, fields.as_headers()), Bytes::new())
            }
        }
    }
}

/// Responds with an error page.
pub(crate) fn refuse(responder: &mut Responder<'_>, status: u16) -> HandlerResult {
    let mut fields = HeaderBuf::new();
    push(&mut fields, "Content-Type", b"text/html; charset=utf-8");
    responder.reply(Response::new(status, fields.as_headers()), page(status))
}

/// The status for an error of the file system.
fn status_of(error: &io::Error) -> u16 {
    use io::ErrorKind::{
        FileTooLarge, InvalidFilename, IsADirectory, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem => 403,
        IsADirectory => 409,
        FileTooLarge => 413,
        InvalidFilename => 400, // the name is too long
        StorageFull | QuotaExceeded => 507,
        _ if OpenError::from(error) == OpenError::Exhausted => 503,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_statuses() {
        for (number, status) in [
            (13, 403),  // EACCES
            (1, 403),   // EPERM
            (30, 403),  // EROFS
            (21, 409),  // EISDIR
            (27, 413),  // EFBIG
            (36, 400),  // ENAMETOOLONG
            (28, 507),  // ENOSPC
            (122, 507), // EDQUOT
            (24, 503),  // EMFILE
            (5, 500),   // EIO
        ] {
            assert_eq!(status_of(&io::Error::from_raw_os_error(number)), status, "{number}");
        }
    }
}
