//! The handler: authentication, then test endpoints if enabled, then files.

use std::io;
use std::path::PathBuf;

use fulmar_proto::Request;
use fulmar_server::{Handler, HandlerResult, Responder};
use fulmar_web::auth::Guard;
use fulmar_web::cors::Cors;

use crate::endpoints::{Endpoints, TestEndpoint};
use crate::options::Options;
use crate::site::Site;

/// The options of the handler.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// The directory.
    pub root: PathBuf,
    /// How it is served.
    pub site: Options,
    /// The origins that may read responses.
    pub cors: Option<Cors>,
    /// Authenticates users; without it, everything is public. All threads share it.
    pub guard: Option<Guard>,
    /// Enables the test endpoints: see [`crate::endpoints`].
    pub test_endpoints: bool,
}

impl FilesOptions {
    /// Serves this directory without authentication.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let site = Options::default();
        Self { root: root.into(), site, cors: None, guard: None, test_endpoints: false }
    }
}

/// Responds with files; one per thread.
#[derive(Debug)]
pub struct Files {
    site: Site,
    cors: Option<Cors>,
    guard: Option<Guard>,
    endpoints: Option<Endpoints>,
}

impl Files {
    /// Opens the directory.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(options: &FilesOptions) -> io::Result<Self> {
        Ok(Self {
            site: Site::open(&options.root, options.site.clone())?,
            cors: options.cors.clone(),
            guard: options.guard.clone(),
            endpoints: options.test_endpoints.then(Endpoints::new),
        })
    }
}

impl Handler for Files {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        if let Some(cors) = &self.cors
            && cors.is_preflight(responder, request)?
        {
            return Ok(());
        }
        if let Some(guard) = &self.guard
            && guard.admit(responder, request)?.is_none()
        {
            return Ok(());
        }
        if let Some(endpoints) = &self.endpoints
            && let Some(endpoint) = TestEndpoint::parse(request.target)
        {
            return endpoints.answer(endpoint, responder);
        }
        self.site.serve(responder, request)
    }

    /// A client that waits is more important than a cached file.
    fn exhausted(&mut self) {
        self.site.cache().shed();
    }
}
