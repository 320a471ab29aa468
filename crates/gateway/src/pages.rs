//! What the threads of a proxy ask its process for: pages that are not proxied, time and names.

use std::time::{Duration, UNIX_EPOCH};

use fulmar_haproxy::model::StatsPage;
use fulmar_proto::HeaderBuf;
use fulmar_proxy::{Page, Services};
use fulmar_rules::RequestHead;
use fulmar_sys as sys;

/// Of one thread. There are no pages: each is answered 404.
#[derive(Debug)]
pub(crate) struct Pages {
    hostname: String,
    process: u32,
}

impl Pages {
    /// `hostname` is what this machine is called.
    pub(crate) fn new(hostname: String) -> Self {
        Self { hostname, process: std::process::id() }
    }
}

impl Services for Pages {
    fn statistics(&mut self, _: &StatsPage, _: &RequestHead, _: &[u8], _: bool) -> Page {
        missing()
    }

    fn metrics(&mut self, _: &RequestHead) -> Page {
        missing()
    }

    fn wall_clock(&self) -> std::time::SystemTime {
        fulmar_sys::wall_clock()
    }

    fn hostname(&self) -> &str {
        &self.hostname
    }
}

fn missing() -> Page {
    Page { status: 404, fields: HeaderBuf::default(), body: b"no such page\n".to_vec() }
}
