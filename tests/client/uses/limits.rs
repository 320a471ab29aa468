//! Limits and delays in virtual time: Retry-After, rates, speeds, sizes and deadlines.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fulmar_client::{
    Config, Error, Options, RateLimit, Request, RequestBody, TransferEvent, Waiting,
};
use fulmar_engine::sim::AddressRoute;
use fulmar_semantics::proxy::{ProxyUrl, Settings};
use fulmar_tests::byhand::{ByHand, Says, after, at_once};
use fulmar_tests::certs::Certs;
use fulmar_tests::https::client_tls;
use fulmar_tests::threads::{RequestRecord, answer};
use fulmar_tests::transfers::TransferRecorder;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn get(url: &str, options: Options) -> Request {
    Request::get(url).options(options.into()).build().unwrap()
}

fn retrying(retries: u8) -> Options {
    Options { retries, ..Options::default() }
}

fn rest(status: u16, after: &str) -> Vec<u8> {
    answer(status, &format!("Retry-After: {after}\r\n"), "later")
}

/// `/busy` gets `busy` for the first `times` requests, and 200 afterwards; everything else gets
/// 200.
fn busy_for(times: u32, busy: Vec<u8>) -> impl FnMut(&RequestRecord) -> Says {
    let mut left = times;
    move |asked| {
        if asked.target != "/busy" || left == 0 {
            return at_once(answer(200, "", "ok"));
        }
        left -= 1;
        at_once(busy.clone())
    }
}

#[test]
fn retry_after_applies_to_all_requests_of_the_host() {
    for status in [429, 503] {
        let mut hand = ByHand::new(Config::default(), busy_for(1, rest(status, "3")));
        let id = hand.start(&get("http://10.0.0.1/busy", retrying(1)));
        hand.run_until(ms(500));
        let other = hand.start(&get("http://10.0.0.1/other", retrying(0)));
        let port = hand.start(&get("http://10.0.0.1:81/port", retrying(0)));
        hand.start(&get("http://10.0.0.2/elsewhere", retrying(0)));
        hand.run();
        assert_eq!(hand.arrivals("/elsewhere"), [500], "another host");
        let arrivals = ["/busy", "/other", "/port"].map(|target| hand.arrivals(target));
        assert_eq!(arrivals[0][0], 0);
        for at in [arrivals[0][1], arrivals[1][0], arrivals[2][0]] {
            assert!((3000..3200).contains(&at), "{arrivals:?}");
        }
        let done = hand.ended(id);
        assert_eq!((done.status, done.hops.len(), done.hops[0].status), (200, 1, status));
        assert!([id, other, port].iter().all(|id| hand.ended(*id).result.is_ok()));
        assert_eq!(hand.client().application().trace(id), "HdD", "nothing is told of the first");
    }
}

#[test]
fn retries_and_their_delay_are_limited() {
    let config = || Config { retry_after_max: ms(10_000), ..Config::default() };
    // Always busy: the last response is the result.
    let mut hand = ByHand::new(config(), busy_for(9, rest(503, "1")));
    let id = hand.start(&get("http://10.0.0.1/busy", retrying(2)));
    hand.run();
    assert_eq!((hand.ended(id).status, hand.requests()), (503, 3));
    assert_eq!(hand.client().application().body(id), b"later");
    assert!((2000..2300).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
    // Longer than is allowed.
    let mut hand = ByHand::new(config(), busy_for(1, rest(503, "99999999")));
    let id = hand.start(&get("http://10.0.0.1/busy", retrying(2)));
    hand.run();
    assert_eq!(hand.ended(id).status, 200);
    assert!((10_000..10_300).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
    // At once.
    let mut hand = ByHand::new(config(), busy_for(9, rest(503, "0")));
    let id = hand.start(&get("http://10.0.0.1/busy", retrying(200)));
    hand.run();
    assert_eq!((hand.ended(id).status, hand.requests()), (200, 10));
}

#[test]
fn dates_are_understood() {
    // Five seconds after the wall clock of the test.
    let date = "Sun, 06 Nov 1994 08:49:42 GMT";
    let mut hand = ByHand::new(Config::default(), busy_for(1, rest(503, date)));
    let id = hand.start(&get("http://10.0.0.1/busy", retrying(1)));
    hand.run();
    assert_eq!(hand.ended(id).status, 200);
    assert!((5000..5300).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
}

#[test]
fn only_some_requests_are_repeated() {
    let plain = answer(503, "", "");
    for (answer, request) in [
        (rest(503, "1"), get("http://10.0.0.1/busy", retrying(0))),
        (rest(500, "1"), get("http://10.0.0.1/busy", retrying(1))),
        (rest(503, "soon"), get("http://10.0.0.1/busy", retrying(1))),
        (plain, get("http://10.0.0.1/busy", retrying(1))),
        (
            rest(503, "1"),
            Request::with_method("POST", "http://10.0.0.1/busy")
                .body(RequestBody::Bytes("x".into()))
                .options(retrying(1).into())
                .build()
                .unwrap(),
        ),
    ] {
        let mut hand = ByHand::new(Config::default(), busy_for(1, answer));
        let id = hand.start(&request);
        hand.run();
        assert!(hand.ended(id).result.is_ok() && hand.ended(id).status >= 500);
        assert_eq!(hand.requests(), 1);
    }
}

#[test]
fn a_retry_delay_ends_with_the_total_time_or_removal() {
    let mut hand = ByHand::new(Config::default(), busy_for(2, rest(503, "100")));
    let options = Options { total_timeout: Some(ms(2000)), ..retrying(1) };
    let id = hand.start(&get("http://10.0.0.1/busy", options));
    let removed = hand.start(&get("http://10.0.0.1/busy", retrying(1)));
    hand.run_until(ms(1000));
    assert!(hand.act(|context| context.remove(removed)));
    hand.run_until(ms(3000));
    assert_eq!(hand.client().running(), 0);
    assert!(matches!(hand.ended(id).result, Err(Error::TimedOut(Waiting::Total))));
    hand.run_until(ms(1000 * 1000));
    assert_eq!(hand.client().origins(), 0, "and then nobody remembers");
}

#[test]
fn a_rate_limit_opens_no_unused_connection() {
    let rate = RateLimit { requests: 10, per: Duration::from_secs(1), burst: 3 };
    let config = Config { rate: Some(rate), ..Config::default() };
    let mut hand = ByHand::new(config, |_| after(1, answer(200, "", "")));
    let request = get("http://10.0.0.1/", Options::default());
    for _ in 0..23 {
        hand.start(&request);
    }
    hand.run();
    let arrivals = hand.arrivals("/");
    assert_eq!(arrivals[..3], [0, 0, 0]);
    for (n, at) in arrivals.iter().enumerate().skip(3) {
        let due = (n as u128 - 2) * 100;
        assert!((due..due + 20).contains(at), "{n}: {arrivals:?}");
    }
    assert_eq!(hand.connections(), 3, "one for each that may go at once");
}

#[test]
fn concurrency_is_limited() {
    let config = Config { per_host_active: Some(2), ..Config::default() };
    let under_way = Rc::new(Cell::new(0_i32));
    let most = Rc::new(Cell::new(0));
    let (asked, most_asked) = (Rc::clone(&under_way), Rc::clone(&most));
    let done = Rc::clone(&under_way);
    let recorder = TransferRecorder::with(move |_, _, event| {
        if matches!(event, TransferEvent::Done(_)) {
            done.set(done.get() - 1);
        }
    });
    let mut hand = ByHand::with(recorder, config, move |_| {
        asked.set(asked.get() + 1);
        most_asked.set(most_asked.get().max(asked.get()));
        after(100, answer(200, "", ""))
    });
    // Ports share the host.
    for n in 0..10 {
        hand.start(&get(&format!("http://10.0.0.1:{}/", 80 + n % 2), Options::default()));
    }
    hand.run();
    assert_eq!((hand.requests(), most.get(), under_way.get()), (10, 2, 0));
    assert!((500..600).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
    assert!(hand.connections() <= 4, "{}", hand.connections());
}

fn paced(len: usize, options: Options) -> (ByHand, fulmar_client::TransferId) {
    let body = answer(200, "", vec![b'x'; len]);
    let mut hand = ByHand::new(Config::default(), move |_| at_once(body.clone()));
    hand.sim.receive_max = 500;
    let id = hand.start(&get("http://10.0.0.1/", options));
    (hand, id)
}

#[test]
fn the_highest_speed_is_kept() {
    let (mut hand, id) = paced(10_000, Options { highest_speed: Some(1000), ..Options::default() });
    for second in 1..10 {
        hand.run_until(ms(second * 1000));
        let received = hand.act(|context| context.progress(id)).expect("it goes on").received;
        let due = second * 1000;
        assert!((due - 600..=due + 600).contains(&received), "{received} after {second} s");
    }
    hand.run();
    assert_eq!(hand.ended(id).received, 10_000);
    assert!((9_400..10_200).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
    // It waits for the application, not for the server: no deadline applies.
    let options = Options {
        highest_speed: Some(100),
        idle_timeout: Some(ms(1000)),
        lowest_speed: Some((200, ms(1000))),
        ..Options::default()
    };
    let (mut hand, id) = paced(2_000, options);
    hand.run();
    assert!(hand.ended(id).result.is_ok(), "{:?}", hand.ended(id));
    assert!(hand.elapsed() >= ms(14_000), "{:?}", hand.elapsed());
}

#[test]
fn speed_is_measured_from_the_start_of_the_body() {
    // Ten seconds before the first byte, and a redirect, give no credit.
    let mut hand = ByHand::new(Config::default(), |asked| match &*asked.target {
        "/" => after(5_000, answer(302, "Location: /x\r\n", "")),
        _ => after(5_000, answer(200, "", vec![b'x'; 5_000])),
    });
    hand.sim.receive_max = 500;
    let options = Options {
        highest_speed: Some(1000),
        redirects: Some(Default::default()),
        ..Options::default()
    };
    let id = hand.start(&get("http://10.0.0.1/", options));
    hand.run();
    assert!(hand.ended(id).result.is_ok());
    assert!((14_400..15_200).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
}

/// A body of `n` pieces of ten bytes, one each 100 ms.
fn trickle(n: u64) -> Says {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", n * 10).into_bytes();
    let piece = |at: u64| (ms(at * 100), Some(vec![b'x'; 10]));
    std::iter::once((Duration::ZERO, Some(head))).chain((1..=n).map(piece)).collect()
}

#[test]
fn a_slow_transfer_fails_unless_we_slow_it_down() {
    for (lowest, ok) in [(50, true), (90, true), (150, false)] {
        let mut hand = ByHand::new(Config::default(), |_| trickle(100));
        let options = Options { lowest_speed: Some((lowest, ms(2000))), ..Options::default() };
        let id = hand.start(&get("http://10.0.0.1/", options));
        hand.run();
        match ok {
            true => assert!(hand.ended(id).result.is_ok(), "{lowest}"),
            false => {
                assert!(matches!(hand.ended(id).result, Err(Error::TooSlow)), "{lowest}");
                assert!((2000..4300).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
            }
        }
    }
    let mut hand = ByHand::new(Config::default(), |_| trickle(30));
    let options = Options { lowest_speed: Some((90, ms(1000))), ..Options::default() };
    let id = hand.start(&get("http://10.0.0.1/", options));
    hand.run_until(ms(500));
    hand.act(|context| context.pause(id));
    hand.run_until(ms(60_000));
    hand.act(|context| context.resume(id));
    hand.run();
    assert!(hand.ended(id).result.is_ok(), "{:?}", hand.ended(id));
}

#[test]
fn an_oversized_body_fails_as_early_as_possible() {
    let known = answer(200, "", vec![b'x'; 1001]);
    let mut unknown = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..11 {
        unknown.extend_from_slice(b"64\r\n");
        unknown.resize(unknown.len() + 100, b'x');
        unknown.extend_from_slice(b"\r\n");
    }
    unknown.extend_from_slice(b"0\r\n\r\n");
    for (bytes, trace) in [(known, "D"), (unknown, "HdD")] {
        let mut hand = ByHand::new(Config::default(), move |_| at_once(bytes.clone()));
        let options = |body_max| Options { body_max: Some(body_max), ..Options::default() };
        let over = hand.start(&get("http://10.0.0.1/", options(1000)));
        let fits = hand.start(&get("http://10.0.0.1/", options(1100)));
        let head = Request::with_method("HEAD", "http://10.0.0.1/").options(options(1).into());
        hand.run();
        let recorder = hand.client().application();
        assert!(matches!(recorder.ended(over).result, Err(Error::TooLarge)));
        assert_eq!(recorder.trace(over), trace);
        assert!(recorder.body(over).len() <= 1000);
        assert!(recorder.ended(fits).result.is_ok());
        // The declared body of a response to HEAD is not sent.
        let mut hand = ByHand::new(Config::default(), |_| {
            at_once(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec())
        });
        let head = hand.start(&head.build().unwrap());
        hand.run();
        assert!(hand.ended(head).result.is_ok(), "{:?}", hand.ended(head));
    }
}

/// When a transfer with these options fails, and in which state.
fn fails(options: Options, says: impl FnMut(&RequestRecord) -> Says + 'static) -> (u128, Waiting) {
    let mut hand = ByHand::new(Config::default(), says);
    let id = hand.start(&get("http://10.0.0.1/", options));
    hand.run();
    match hand.ended(id).result {
        Err(Error::TimedOut(waiting)) => (hand.elapsed().as_millis(), waiting),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn every_wait_has_its_deadline_and_its_name() {
    let first = || Options { first_byte_timeout: Some(ms(2000)), ..Options::default() };
    let idle = || Options { idle_timeout: Some(ms(2000)), ..Options::default() };
    let total = || Options { total_timeout: Some(ms(2000)), ..Options::default() };
    let silent = |_: &RequestRecord| Vec::new();
    let begins = |_: &RequestRecord| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n".to_vec();
        vec![(ms(1000), Some(head)), (ms(1500), Some(vec![b'x'; 10]))]
    };
    for ((at, waiting), due, expected) in [
        (fails(first(), silent), 2000, Waiting::FirstByte),
        (fails(idle(), begins), 3500, Waiting::Idle),
        (fails(total(), silent), 2000, Waiting::Total),
        (fails(total(), |_| trickle(1000)), 2000, Waiting::Total),
    ] {
        assert_eq!(waiting, expected);
        assert!((due..due + 200).contains(&at), "{waiting:?} after {at} ms");
    }
    // A trickle is not idle.
    let mut hand = ByHand::new(Config::default(), |_| trickle(100));
    let id = hand.start(&get("http://10.0.0.1/", idle()));
    hand.run();
    assert!(hand.ended(id).result.is_ok());
}

#[test]
fn connecting_has_its_own_deadline_and_the_queue_none() {
    let config = Config { connect_timeout: Some(ms(3000)), per_host_max: 1, ..Config::default() };
    let mut hand = ByHand::new(config.clone(), |_| Vec::new());
    hand.sim.default_route(AddressRoute::Silent);
    let id = hand.start(&get("http://10.0.0.1/", Options::default()));
    hand.run();
    let text = hand.ended(id).result.as_ref().unwrap_err().to_string();
    assert!(text.contains("10.0.0.1:80"), "{text}");
    assert!((3000..3300).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
    // Nine transfers queue for one connection, each for longer than any deadline but the total one.
    let mut hand = ByHand::new(config, |_| after(1900, answer(200, "", "")));
    let options = || Options {
        first_byte_timeout: Some(ms(2000)),
        idle_timeout: Some(ms(2000)),
        ..Options::default()
    };
    let ids: Vec<_> = (0..9).map(|_| hand.start(&get("http://10.0.0.1/", options()))).collect();
    hand.run();
    for (n, id) in (0..).zip(ids) {
        let done = hand.ended(id);
        assert!(done.result.is_ok(), "{done:?}");
        assert!((n * 1900..n * 1900 + 200).contains(&done.timings().queue.as_millis()), "{done:?}");
    }
}

#[test]
fn a_handshake_has_its_deadline_and_is_no_waiting_for_an_answer() {
    let config = Config { handshake_timeout: Some(ms(3000)), ..Config::default() };
    let proxy = ProxyUrl::parse("socks5h://10.0.0.1:1080").unwrap();
    let settings = Settings { http: Some(proxy), ..Settings::default() };
    let certs = Certs::new();
    for (url, proxies) in
        [("https://10.0.0.1/", None), ("http://a.example/", Some(settings.into()))]
    {
        let mut hand = ByHand::new(config.clone(), |_| Vec::new());
        let first_byte_timeout = Some(ms(1000));
        let tls = Some(client_tls(&certs));
        let options = Options { first_byte_timeout, tls, proxies, ..Options::default() };
        let id = hand.start(&get(url, options));
        hand.run();
        let result = &hand.ended(id).result;
        assert!(matches!(result, Err(Error::TimedOut(Waiting::Handshake))), "{result:?}");
        assert!((3000..3300).contains(&hand.elapsed().as_millis()), "{:?}", hand.elapsed());
        assert_eq!(hand.client().connections(), 0);
    }
}

#[test]
fn a_pause_does_not_count_as_idle() {
    let mut hand = ByHand::new(Config::default(), |_| trickle(10));
    let options = Options { idle_timeout: Some(ms(500)), ..Options::default() };
    let id = hand.start(&get("http://10.0.0.1/", options));
    hand.run_until(ms(300));
    hand.act(|context| context.pause(id));
    hand.run_until(ms(100_000));
    hand.act(|context| context.resume(id));
    hand.run();
    assert!(hand.ended(id).result.is_ok(), "{:?}", hand.ended(id));
}
