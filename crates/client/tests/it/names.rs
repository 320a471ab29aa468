//! If a name cannot be resolved, the error names the host or the proxy, whichever was looked up.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fulmar_client::{
    Application, Client, Config, Context, Options, Request, TransferEvent, TransferId,
};
use fulmar_engine::{Action, DriverEvent, Engine, LookupId, ResolveError};
use fulmar_semantics::proxy::{ProxyUrl, Settings};

/// Records the message and the kind of each error.
#[derive(Debug, Default)]
struct Errors(Vec<(String, &'static str)>);

impl Application for Errors {
    fn handle(&mut self, _: &mut Context<'_>, _: TransferId, event: TransferEvent<'_>) {
        if let TransferEvent::Done(done) = event {
            let error = done.result.expect_err("no name can be resolved");
            self.0.push((error.to_string(), error.kind()));
        }
    }
}

#[test]
fn proxy_resolve_errors_name_the_proxy() {
    let of_proxy = "cannot resolve proxy \"proxy.invalid\" (port 81): no such host";
    let late = "timed out: the name was not resolved";
    let late_proxy = "timed out: the proxy's name was not resolved";
    for (proxy, url, name, message, late) in [
        ("http://proxy.invalid:81", "http://127.0.0.1/", "proxy.invalid", of_proxy, late_proxy),
        ("socks5://a:b@proxy.invalid:81", "http://h/", "proxy.invalid", of_proxy, late_proxy),
        ("socks5h://proxy.invalid:81", "http://h/", "proxy.invalid", of_proxy, late_proxy),
        ("socks5://127.0.0.1:81", "http://h.invalid/", "h.invalid", "no such host", late),
    ] {
        let http = Some(ProxyUrl::parse(proxy).expect("a proxy"));
        let proxies = Some(Arc::new(Settings { http, ..Settings::default() }));
        let options = Options { proxies, ..Options::default() };
        let request = Request::get(url).options(Arc::new(options)).build().expect("a request");
        let mut now = a_moment();
        let config = Config { name_timeout: Some(Duration::from_secs(5)), ..Config::default() };
        let mut client = Client::new(now, SystemTime::UNIX_EPOCH, Errors::default(), config);
        client.start(now, &request);
        let (lookup, looked_up) = lookup(&mut client);
        assert_eq!(*looked_up, *name, "{proxy}");
        client.handle(now, DriverEvent::Resolved(lookup, Err(ResolveError::NotFound)));
        client.start(now, &request);
        now += Duration::from_secs(6);
        client.handle(now, DriverEvent::Timeout);
        let errors = [(message.to_owned(), "resolve"), (late.to_owned(), "timeout")];
        assert_eq!(client.application().0, errors, "{proxy}");
    }
}

#[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
fn a_moment() -> Instant {
    Instant::now()
}

fn lookup(client: &mut Client<Errors>) -> (LookupId, Box<str>) {
    loop {
        let action = client.poll_action().expect("a name is looked up");
        if let Action::Resolve { lookup, name } = action {
            return (lookup, name);
        }
    }
}
