//! The handler: endpoints for tests where they are wanted, files everywhere else.

use std::io;
use std::path::PathBuf;

use fulmar_proto::{Request, Segment};
use fulmar_server::{Call, Handler, Outcome};

use crate::endpoints::{Endpoint, Endpoints};
use crate::options::Options;
use crate::respond::{Answer, Body};
use crate::site::Site;

/// What to answer with.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// The directory.
    pub root: PathBuf,
    /// How it is served.
    pub site: Options,
    /// Answer for tests and benchmarks too: see [`crate::endpoints`].
    pub test_endpoints: bool,
}

/// Answers with files; one per thread.
#[derive(Debug)]
pub struct Files {
    site: Site,
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
            endpoints: options.test_endpoints.then(Endpoints::new),
        })
    }
}

impl Handler for Files {
    fn handle(&mut self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
        if let Some(endpoints) = &self.endpoints
            && let Some(endpoint) = Endpoint::parse(request.target)
        {
            return endpoints.answer(endpoint, call);
        }
        let (now, unix_now) = (call.now(), call.clock().unix());
        send(call, self.site.answer(now, unix_now, request))
    }

    /// A remembered file is worth less than a client that waits.
    fn exhausted(&mut self) {
        self.site.cache().shed();
    }
}

fn send(call: &mut Call<'_>, mut answer: Answer<'_>) -> Outcome {
    let body = std::mem::replace(&mut answer.body, Body::Empty);
    call.send_head(answer.head(), answer.len)?;
    match body {
        Body::Empty => {}
        Body::Bytes(bytes) => call.send(bytes)?,
        Body::File(range) => call.send(Segment::File(range))?,
        Body::Parts(parts) => parts.into_iter().try_for_each(|part| call.send(part))?,
    }
    call.end()
}
