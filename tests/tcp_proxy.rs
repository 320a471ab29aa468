//! A proxy of mode tcp in the thread of a test: as in `test_proxy`, without HTTP.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fulmar_haproxy::model::{LogAddress, LogLine, LogTarget};
use fulmar_haproxy::{BackendConfig, Config, FrontendConfig, Mode, ServerConfig};
use fulmar_proxy::{BindId, Live, MakeLayer, Proxy, Stop};
use fulmar_sys as sys;

use crate::loops::LISTENER;
use crate::test_proxy::{self, EchoPages, LogLines, RecordingJournal};

/// A frontend of the first backend, with timeouts that no test reaches.
pub fn frontend() -> FrontendConfig {
    let mut frontend = FrontendConfig {
        name: "front".to_owned(),
        mode: Mode::Tcp,
        logs: vec![log_target()],
        ..test_proxy::frontend()
    };
    frontend.timeouts.client = Some(Duration::from_secs(60));
    frontend
}

fn log_target() -> LogTarget {
    LogTarget {
        to: LogAddress::Descriptor(1),
        format: LogLine::Raw,
        facility: 16,
        level_max: 7,
        level_min: 0,
        line_size_max: 65_535,
        sample: None,
    }
}

/// A backend.
pub fn backend(servers: impl IntoIterator<Item = ServerConfig>) -> BackendConfig {
    let mut backend =
        BackendConfig { name: "back".to_owned(), mode: Mode::Tcp, ..test_proxy::backend(servers) };
    backend.timeouts.connect = Some(Duration::from_secs(5));
    backend.timeouts.server = Some(Duration::from_secs(60));
    backend
}

/// One frontend, and backends behind it.
pub fn config(
    frontend: FrontendConfig,
    backends: impl IntoIterator<Item = BackendConfig>,
) -> Config {
    Config {
        frontends: vec![Arc::new(frontend)],
        backends: backends.into_iter().map(Arc::new).collect(),
        ..Config::default()
    }
}

/// A proxy on one thread, what it shares with others, and its log.
pub fn proxy(config: Config, layer: Option<MakeLayer>) -> (Proxy, Arc<Live>, LogLines) {
    let live = Arc::new(Live::new(config, 1));
    let book = RecordingJournal::default();
    let lines = Rc::clone(&book.0);
    let (journal, pages) = (Box::new(book), Box::new(EchoPages));
    let mut proxy = Proxy::new(sys::now(), Arc::clone(&live), 0, journal, pages, Stop::default());
    proxy.add_listener(LISTENER, BindId { frontend: 0, bind: 0 }, layer);
    (proxy, live, lines)
}
