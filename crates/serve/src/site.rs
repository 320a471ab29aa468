//! A directory as a web site: the main type of this crate.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use fulmar_proto::Request;
use fulmar_server::{HandlerResult, Responder};
use fulmar_sys as sys;
use fulmar_sys::{FileInfo, FileKind};

use crate::cache::{CachedName, FileCache};
use crate::file::{Coded, File, shared};
use crate::listing::{Items, encode_segment};
use crate::options::Options;
use crate::pages::Pages;
use crate::path::Name;
use crate::precompressed::{self, Precompressed};
use crate::respond::{
    LookupError, ResponseBuffers, ResponseContext, SiteMethod, SiteResponse, respond,
};
use crate::root::{OpenError, Root};
use crate::upload::{self, ChangedNames, UploadOptions};

/// A served directory with its cache: one per thread.
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
/// In a handler with other responses:
///
/// ```
/// use fulmar_proto::Request;
/// use fulmar_serve::Site;
/// use fulmar_server::{Handler, HandlerResult, Responder};
///
/// struct Program { site: Site }
///
/// impl Handler for Program {
///     fn handle(
///         &mut self,
///         responder: &mut Responder<'_>,
///         request: &Request<'_>,
///     ) -> HandlerResult {
///         match request.target {
///             b"/version" => responder.text(200, "1\n"),
///             _ => self.site.serve(responder, request),
///         }
///     }
///
///     fn exhausted(&mut self) {
///         self.site.cache().shed(); // a client that waits is more important than a cached file
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Site {
    root: Root,
    options: Options,
    cache: FileCache,
    pages: Pages,
    /// The name in the current request.
    name: Name,
    /// Seconds since 1970 at the current request.
    unix_now: i64,
    scratch: ResponseBuffers,
    /// Names uploaded since the last request.
    changed: ChangedNames,
}

impl Site {
    /// Opens the directory.
    ///
    /// # Errors
    /// Those of `openat(2)`: the directory does not exist or is not readable.
    pub fn open(path: &Path, options: Options) -> io::Result<Self> {
        Ok(Self {
            root: Root::open(path, options.lookup)?,
            cache: FileCache::new(&options),
            pages: Pages::new(options.upload.is_some()),
            options,
            name: Name::new(),
            unix_now: 0,
            scratch: ResponseBuffers::default(),
            changed: ChangedNames::default(),
        })
    }

    /// Responds to a request with `responder`, and receives files with [`Options::upload`].
    ///
    /// # Errors
    /// Passed on from `responder`.
    pub fn serve(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        for key in self.changed.take() {
            self.cache.remove(&key);
        }
        if let Some(options) = self.options.upload.filter(|_| request.method == b"PUT") {
            return self.receive(responder, request, options);
        }
        let (now, unix_now) = (responder.now(), responder.clock().unix());
        self.answer(now, unix_now, request).send(responder)
    }

    fn receive(
        &mut self,
        responder: &mut Responder<'_>,
        request: &Request<'_>,
        options: UploadOptions,
    ) -> HandlerResult {
        match self.name.read(request.target, self.options.hidden) {
            Ok(()) => {}
            Err(error) if error.is_malformed() => return upload::refuse(responder, 400),
            Err(_) => return upload::refuse(responder, 403),
        }
        upload::receive(responder, request, (&self.root, &self.name), options, &self.changed)
    }

    /// Responds to a request. `unix_now` is in seconds since 1970. The caller drops the body of the
    /// request and adds `Date`.
    ///
    /// A file that was checked less than a second ago costs no system call. Sending it whole costs
    /// no allocation.
    pub fn answer(
        &mut self,
        now: Instant,
        unix_now: i64,
        request: &Request<'_>,
    ) -> SiteResponse<'_> {
        self.unix_now = unix_now;
        let method = SiteMethod::of(request.method);
        let looked_up = match method {
            SiteMethod::Get | SiteMethod::Head => self.look_up_or_index(now, request.target),
            SiteMethod::Options | SiteMethod::Other => Ok(()),
        };
        let known =
            || self.cache.peek(self.name.key()).ok_or(LookupError::Open(OpenError::NotFound));
        let stage = ResponseContext { pages: &self.pages, unix_now, scratch: &mut self.scratch };
        respond(method, request, looked_up.and_then(|()| known()), stage)
    }

    /// The cache of the directory.
    pub fn cache(&mut self) -> &mut FileCache {
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

    /// As [`Site::look_up`]. If single-page mode is enabled, an unknown name without an extension
    /// leads to the page of the root.
    fn look_up_or_index(&mut self, now: Instant, target: &[u8]) -> Result<(), LookupError> {
        let result = self.look_up(now, target);
        let unknown = result == Err(LookupError::Open(OpenError::NotFound));
        let last = self.name.bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if !self.options.single_page || !unknown || last.contains(&b'.') {
            return result;
        }
        self.look_up(now, b"/")?;
        match self.cache.peek(self.name.key()) {
            Some(CachedName::File(_)) => Ok(()),
            _ => result, // no page, but a listing or an error
        }
    }

    /// Afterwards the name is in the cache. If descriptors are exhausted, old entries release
    /// theirs.
    fn look_up(&mut self, now: Instant, target: &[u8]) -> Result<(), LookupError> {
        self.name.read(target, self.options.hidden).map_err(LookupError::Path)?;
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
            // A recent entry is better than an error. The next request checks again.
            Err(OpenError::Exhausted) if self.cache.peek(self.name.key()).is_some() => Ok(()),
            Err(error) => {
                self.cache.remove(self.name.key());
                Err(LookupError::Open(error))
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
            _ => CachedName::File(self.load((fd, info), &name, compressed)?),
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

    /// Compressed versions that cannot be read are left out.
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

    /// True if a request for this symbolic link in the requested directory would find a file or a
    /// directory, or fail for a reason other than the link. Costs one open for each listed link.
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

    fn describe_directory(&self, fd: OwnedFd) -> Result<CachedName, OpenError> {
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
                CachedName::Listing(shared(page.into_bytes()))
            }
            None if self.name.is_directory() => CachedName::Unlisted,
            None => CachedName::Redirect(location(&self.name).into()),
        })
    }
}

/// Opens the file of a name; for a directory, its index file if it has one. Also returns the name
/// of the opened file.
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

/// The path of a directory. It never begins with two slashes, which would mean a host (RFC 3986
/// §4.2), because no segment is empty.
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
