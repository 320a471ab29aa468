//! Pages that are not proxied.

use fulmar_haproxy::model::StatsPage;
use fulmar_proto::HeaderBuf;
use fulmar_proxy::{Page, Services};
use fulmar_rules::RequestHead;

/// There are none: each is answered 404.
#[derive(Debug)]
pub(crate) struct Pages;

impl Services for Pages {
    fn statistics(&mut self, _: &StatsPage, _: &RequestHead, _: &[u8], _: bool) -> Page {
        missing()
    }

    fn metrics(&mut self, _: &RequestHead) -> Page {
        missing()
    }
}

fn missing() -> Page {
    Page { status: 404, fields: HeaderBuf::default(), body: b"no such page\n".to_vec() }
}
