//! The handler: who may ask, then endpoints for tests where they are wanted, files everywhere else.

use std::io;
use std::path::PathBuf;

use fulmar_proto::Request;
use fulmar_server::{Call, Handler, Outcome};
use fulmar_web::auth::Guard;
use fulmar_web::cors::Cors;

use crate::endpoints::{Endpoint, Endpoints};
use crate::options::Options;
use crate::site::Site;

/// What to answer with.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// The directory.
    pub root: PathBuf,
    /// How it is served.
    pub site: Options,
    /// From where pages may read it.
    pub cors: Option<Cors>,
    /// Admits users; without it, everything is public. All threads share it.
    pub guard: Option<Guard>,
    /// Answer for tests and benchmarks too: see [`crate::endpoints`].
    pub test_endpoints: bool,
}

impl FilesOptions {
    /// This directory, for everybody.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let site = Options::default();
        Self { root: root.into(), site, cors: None, guard: None, test_endpoints: false }
    }
}

/// Answers with files; one per thread.
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
    fn handle(&mut self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
        if let Some(cors) = &self.cors
            && cors.is_preflight(call, request)?
        {
            return Ok(());
        }
        if let Some(guard) = &self.guard
            && guard.admit(call, request)?.is_none()
        {
            return Ok(());
        }
        if let Some(endpoints) = &self.endpoints
            && let Some(endpoint) = Endpoint::parse(request.target)
        {
            return endpoints.answer(endpoint, call);
        }
        self.site.serve(call, request)
    }

    /// A remembered file is worth less than a client that waits.
    fn exhausted(&mut self) {
        self.site.cache().shed();
    }
}
