//! A directory as a web site: the one thing that a server holds of this crate.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use fulmar_proto::Request;
use fulmar_server::{Call, Outcome};
use fulmar_sys as sys;
use fulmar_sys::{FileInfo, FileKind};

use crate::cache::{Cache, Found};
use crate::file::{Coded, File, shared};
use crate::listing::{Items, encode_segment};
use crate::options::Options;
use crate::pages::Pages;
use crate::path::Name;
use crate::precompressed::{self, Precompressed};
use crate::respond::{Answer, Method, Refusal, Scratch, Stage, respond};
use crate::root::{OpenError, Root};
use crate::upload::{self, Changed, UploadOptions};

/// A directory that is served, and what is known of it: one per thread.
///
/// ```
/// use fulmar_proto::{Headers, Request};
/// use fulmar_serve::{Options, Site};
/// let now = fulmar_sys::now();
/// let options = Options { list: true, ..Options::default() };
/// let mut site = Site::open(".".as_ref(), options).unwrap();
/// let request = Request::new(b"GET", b"/Cargo.toml", Headers::EMPTY);
/// assert_eq!(site.answer(now, 784_111_777, &request).status, 200);
/// ```
///
/// In a handler, with whatever else it answers:
///
/// ```
/// use fulmar_proto::Request;
/// use fulmar_serve::Site;
/// use fulmar_server::{Call, Handler, Outcome};
///
/// struct Program { site: Site }
///
/// impl Handler for Program {
///     fn handle(&mut self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
///         match request.target {
///             b"/version" => call.text(200, "1\n"),
///             _ => self.site.serve(call, request),
///         }
///     }
///
///     fn exhausted(&mut self) {
///         self.site.cache().shed(); // a remembered file is worth less than a client that waits
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Site {
    root: Root,
    options: Options,
    cache: Cache,
    pages: Pages,
    /// Of the request in hand.
    name: Name,
    /// Seconds since 1970, at the request in hand.
    unix_now: i64,
    scratch: Scratch,
    /// Uploaded since the last request.
    changed: Changed,
}

impl Site {
    /// Opens the directory.
    ///
    /// # Errors
    /// Those of `openat(2)`: there is no such directory, or we may not read it.
    pub fn open(path: &Path, options: Options) -> io::Result<Self> {
        Ok(Self {
            root: Root::open(path, options.lookup)?,
            cache: Cache::new(&options),
            pages: Pages::new(options.upload.is_some()),
            options,
            name: Name::new(),
            unix_now: 0,
            scratch: Scratch::default(),
            changed: Changed::default(),
        })
    }

    /// Answers a request with `call`, and receives files if [`Options::upload`] says so.
    ///
    /// # Errors
    /// Passed on from `call`.
    pub fn serve(&mut self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
        for key in self.changed.take() {
            self.cache.remove(&key);
        }
        if let Some(options) = self.options.upload.filter(|_| request.method == b"PUT") {
            return self.receive(call, request, options);
        }
        let (now, unix_now) = (call.now(), call.clock().unix());
        self.answer(now, unix_now, request).send(call)
    }

    fn receive(
        &mut self,
        call: &mut Call<'_>,
        request: &Request<'_>,
        options: UploadOptions,
    ) -> Outcome {
        match self.name.read(request.target, self.options.hidden) {
            Ok(()) => {}
            Err(error) if error.is_malformed() => return upload::refuse(call, 400),
            Err(_) => return upload::refuse(call, 403),
        }
        upload::receive(call, request, (&self.root, &self.name), options, &self.changed)
    }

    /// Answers a request. It is `unix_now` seconds since 1970. A body that came with the request is
    /// the caller's to drop, and `Date` the caller's to add.
    ///
    /// A file that was looked at less than a second ago costs no system call, and sent whole no
    /// allocation.
    pub fn answer(&mut self, now: Instant, unix_now: i64, request: &Request<'_>) -> Answer<'_> {
        self.unix_now = unix_now;
        let method = Method::of(request.method);
        let looked_up = match method {
            Method::Get | Method::Head => self.look_up_or_index(now, request.target),
            Method::Options | Method::Other => Ok(()),
        };
        let known = || self.cache.peek(self.name.key()).ok_or(Refusal::Open(OpenError::NotFound));
        let stage = Stage { pages: &self.pages, unix_now, scratch: &mut self.scratch };
        respond(method, request, looked_up.and_then(|()| known()), stage)
    }

    /// What is known of the directory.
    pub fn cache(&mut self) -> &mut Cache {
        &mut self.cache
    }

    /// True if symbolic links inside the directory work.
    pub fn follows_links(&self) -> bool {
        self.root.follows_links()
    }

    /// True if the root has an index file.
    pub fn has_index(&self) -> bool {
        open(&self.root, &Name::new()).is_ok_and(|(fd, info, _)| {
            sys::close(fd);
            info.kind == FileKind::Regular
        })
    }

    /// As [`Site::look_up`]. Where one page does for all names, an unknown one without an extension
    /// leads to the page of the root.
    fn look_up_or_index(&mut self, now: Instant, target: &[u8]) -> Result<(), Refusal> {
        let result = self.look_up(now, target);
        let unknown = result == Err(Refusal::Open(OpenError::NotFound));
        let last = self.name.bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if !self.options.single_page || !unknown || last.contains(&b'.') {
            return result;
        }
        self.look_up(now, b"/")?;
        match self.cache.peek(self.name.key()) {
            Some(Found::File(_)) => Ok(()),
            _ => result, // no page, but a listing or a refusal
        }
    }

    /// Afterwards the cache knows the name. Where there is no descriptor left for looking again,
    /// old files give theirs up.
    fn look_up(&mut self, now: Instant, target: &[u8]) -> Result<(), Refusal> {
        self.name.read(target, self.options.hidden).map_err(Refusal::Path)?;
        if self.cache.is_fresh(self.name.key(), now) {
            return Ok(());
        }
        let mut result = self.look_again(now);
        if result == Err(OpenError::Exhausted) {
            self.cache.shed();
            result = self.look_again(now);
        }
        match result {
            Ok(()) => Ok(()),
            // What was true a moment ago is better than no answer; the next request looks again.
            Err(OpenError::Exhausted) if self.cache.peek(self.name.key()).is_some() => Ok(()),
            Err(error) => {
                self.cache.remove(self.name.key());
                Err(Refusal::Open(error))
            }
        }
    }

    fn look_again(&mut self, now: Instant) -> Result<(), OpenError> {
        let (fd, info, name) = open(&self.root, &self.name)?;
        let compressed = match self.find_compressed(&name, &info) {
            Ok(compressed) => compressed,
            Err(error) => {
                sys::close(fd);
                return Err(error);
            }
        };
        let key = self.name.key();
        let coded = compressed.iter().map(|one| (one.coding, one.info));
        if self.cache.confirm(key, &info, coded, now) {
            sys::close(fd);
            precompressed::close(compressed);
            return Ok(());
        }
        let found = match info.kind {
            FileKind::Directory => self.describe_directory(fd)?,
            _ => Found::File(self.load((fd, info), &name, compressed)?),
        };
        self.cache.insert(key, found, now);
        Ok(())
    }

    fn find_compressed(
        &self,
        name: &Name,
        info: &FileInfo,
    ) -> Result<Vec<Precompressed>, OpenError> {
        let is_wanted = self.options.precompressed && info.kind == FileKind::Regular;
        if is_wanted { precompressed::find(&self.root, name, info) } else { Ok(Vec::new()) }
    }

    /// What it was compressed to is left out if it cannot be read.
    fn load(
        &self,
        opened: (OwnedFd, FileInfo),
        name: &Name,
        compressed: Vec<Precompressed>,
    ) -> Result<File, OpenError> {
        let unix_now = self.unix_now;
        if let Some(hook) = &self.options.on_outdated {
            let outdated = compressed.iter().filter(|one| one.is_outdated(&opened.1));
            outdated.for_each(|one| hook.call(&one.name(name)));
        }
        let mut file = File::load(opened, name.bytes(), None, unix_now)?;
        let load = |Precompressed { coding, fd, info }| {
            let file = File::load((fd, info), name.bytes(), Some(coding), unix_now).ok()?;
            Some(Coded { coding, file })
        };
        file.set_coded(compressed.into_iter().filter_map(load).collect());
        Ok(file)
    }

    /// True if a request for this symbolic link in the requested directory finds a file or a
    /// directory, or fails for another reason than the link. Costs an open, at most once for each
    /// of the names that a listing has.
    fn is_served(&self, link: &CStr) -> bool {
        if !self.follows_links() {
            return false;
        }
        let path = [self.name.key(), link.to_bytes()].concat();
        let path = CString::new(path).expect("neither a name nor a C string has a NUL");
        match self.root.find(&path) {
            Ok((fd, _)) => {
                sys::close(fd);
                true
            }
            Err(error) => error != OpenError::NotFound,
        }
    }

    fn describe_directory(&self, fd: OwnedFd) -> Result<Found, OpenError> {
        let items = match (self.name.is_directory(), self.options.list) {
            (true, true) => {
                let is_served = |link: &CStr| self.is_served(link);
                Some(Items::read(fd.as_fd(), self.options.hidden, is_served))
            }
            (true, false) | (false, _) => None,
        };
        sys::close(fd);
        Ok(match items {
            Some(items) => {
                let page = items.map_err(|e| OpenError::from(&e))?.page(self.name.bytes());
                Found::Listing(shared(page.into_bytes()))
            }
            None if self.name.is_directory() => Found::Unlisted,
            None => Found::Redirect(location(&self.name).into()),
        })
    }
}

/// Opens what a name stands for: the index file of a directory, if it has one. Also says by which
/// name it was found.
fn open(root: &Root, name: &Name) -> Result<(OwnedFd, FileInfo, Name), OpenError> {
    for index in INDEX_NAMES.iter().filter(|_| name.is_directory()) {
        let mut inside = name.clone();
        inside.enter(index);
        match root.find(inside.as_c_str()) {
            Ok((fd, info)) if info.kind == FileKind::Regular => return Ok((fd, info, inside)),
            Ok((fd, _)) => sys::close(fd),
            Err(OpenError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    root.find(name.as_c_str()).map(|(fd, info)| (fd, info, name.clone()))
}

/// Where a directory is: a path that never begins with two slashes, which would name a host
/// (RFC 3986 §4.2), since no segment is empty.
fn location(name: &Name) -> String {
    let mut location = String::new();
    for segment in name.bytes().split(|b| *b == b'/') {
        location.push('/');
        location.push_str(&encode_segment(segment).to_string());
    }
    location.push('/');
    location
}

const INDEX_NAMES: [&str; 2] = ["index.html", "index.htm"];
