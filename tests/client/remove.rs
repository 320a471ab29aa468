//! Any call for any transfer in any event: a removed transfer has no further events, and every
//! other one ends exactly once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use fulmar_client::{
    Client, Config, Context, Options, Request, RequestBody, TransferEvent, TransferId,
};
use fulmar_engine::{DriverEvent, Engine};
use fulmar_server::ServerEngine;
use fulmar_sys as sys;
use fulmar_tests::app::App;
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::{Loop, OwnLoop, print_case};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::scripted::{ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::transfers::{ClientAndServer, ClientLoop, Staged, TransferRecorder};

/// Where something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActionSite {
    Informational,
    Redirect,
    Head,
    Data,
    Trailers,
    Writable,
    Upgraded,
    Done,
    Wake,
    Timeout,
}

const SITES: [ActionSite; 10] = [
    ActionSite::Informational,
    ActionSite::Redirect,
    ActionSite::Head,
    ActionSite::Data,
    ActionSite::Trailers,
    ActionSite::Writable,
    ActionSite::Upgraded,
    ActionSite::Done,
    ActionSite::Wake,
    ActionSite::Timeout,
];

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Remove,
    Pause,
    PauseAndResume,
    Start,
}

const DEEDS: [Deed; 4] = [Deed::Remove, Deed::Pause, Deed::PauseAndResume, Deed::Start];

/// The target of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActionTarget {
    Itself,
    /// One on another connection.
    Beside,
    /// One pipelined behind it; where nothing can be pipelined, one that waits for its connection.
    Behind,
}

const ALL: [ActionTarget; 3] = [ActionTarget::Itself, ActionTarget::Beside, ActionTarget::Behind];

/// A deed about to be done.
#[derive(Clone, Debug)]
struct PlannedAction {
    deed: Deed,
    subject: Rc<Cell<Option<TransferId>>>,
    target: Rc<Cell<Option<TransferId>>>,
    extra: Request,
    started: Rc<RefCell<Vec<TransferId>>>,
    removed: fulmar_tests::transfers::Named,
    paused: fulmar_tests::transfers::Named,
}

impl PlannedAction {
    fn carry_out(&self, context: &mut Context<'_>) {
        let target = self.target.get().expect("it was started");
        let runs = context.progress(target).is_some();
        match self.deed {
            Deed::Remove => {
                assert_eq!(context.remove(target), runs);
                assert!(!context.remove(target), "once is enough");
                if runs {
                    self.removed.borrow_mut().insert(target);
                }
            }
            Deed::Pause => {
                context.pause(target);
                if runs {
                    self.paused.borrow_mut().insert(target);
                }
            }
            Deed::PauseAndResume => {
                context.pause(target);
                context.resume(target);
            }
            Deed::Start => self.started.borrow_mut().push(context.start(&self.extra)),
        }
    }
}

#[test]
fn client_api_is_reentrant_in_every_event() {
    fn check<L: ClientLoop>() {
        for site in SITES {
            for deed in DEEDS {
                for acted_on in ALL {
                    case::<L>(site, deed, acted_on);
                }
            }
        }
    }
    in_every_loop!(check);
}

fn case<L: ClientLoop>(site: ActionSite, deed: Deed, acted_on: ActionTarget) {
    print_case(format_args!("{deed:?} {acted_on:?} at {site:?}"));
    let config = match acted_on {
        ActionTarget::Behind => Config { pipelining: 4, per_host_max: 1, ..Config::default() },
        _ => Config::default(),
    };
    let released = Rc::new(Cell::new(!matches!(site, ActionSite::Wake | ActionSite::Timeout)));
    let known = Rc::clone(&released);
    let script = move |heard: &ScriptedRequest| serve(heard, known.get());
    let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
    if acted_on == ActionTarget::Behind {
        for _ in 0..2 {
            staged.get("/warm");
            staged.run();
        }
    }
    let subject = request(&staged, site);
    let sibling = staged.request("/sibling");
    let plan = PlannedAction {
        deed,
        subject: Rc::default(),
        target: Rc::default(),
        extra: staged.request("/extra"),
        started: Rc::default(),
        removed: staged.recorder().removed.clone(),
        paused: staged.recorder().paused.clone(),
    };
    arm(&mut staged, site, &plan);
    let (a, b) = staged.with(|context| {
        let (a, b) = (context.start(&subject), context.start(&sibling));
        plan.subject.set(Some(a));
        plan.target.set(Some(if acted_on == ActionTarget::Itself { a } else { b }));
        (a, b)
    });
    if !released.get() {
        let before = if acted_on == ActionTarget::Behind { 2 } else { 0 };
        while staged.peer.requests.len() < before + 2 {
            staged.turn();
        }
        staged.run_until(|client| client.application().body(a) == b"hello");
        interrupt(&mut staged, site);
        released.set(true);
        for heard in staged.peer.requests.split_off(before) {
            let rest = if heard.path() == "/half" { b"world".to_vec() } else { full() };
            staged.peer.act(heard.connection, [ServerStep::Send(rest)]);
        }
    }
    staged.rest();
    let paused: Vec<_> = plan.paused.borrow_mut().drain().collect();
    staged.with(|context| paused.iter().for_each(|id| context.resume(*id)));
    staged.run();
    let ids = [&[a, b], &plan.started.borrow()[..]].concat();
    for id in ids {
        let trace = staged.recorder().trace(id).to_owned();
        if plan.removed.borrow().contains(&id) {
            assert!(!trace.contains('D'), "{trace}");
        } else {
            assert_eq!(trace.matches('D').count(), 1, "{trace}");
            let done = staged.recorder().ended(id);
            assert!(done.result.is_ok(), "{done:?}");
        }
    }
    assert!(deed != Deed::Start || plan.started.borrow().len() == 1, "it was done");
    leave_nothing(&mut staged);
}

/// The request that reaches `site`.
fn request<L: ClientLoop>(staged: &Staged<L>, site: ActionSite) -> Request {
    let url = |path| staged.url(path);
    let builder = match site {
        ActionSite::Informational => Request::get(&url("/info")),
        ActionSite::Redirect => Request::get(&url("/redirect")),
        ActionSite::Trailers => Request::get(&url("/trailers")),
        ActionSite::Writable => {
            Request::with_method("POST", &url("/post")).body(RequestBody::Stream(Some(5)))
        }
        ActionSite::Upgraded => {
            Request::get(&url("/upgrade")).header("Connection", b"upgrade").header("Upgrade", b"x")
        }
        ActionSite::Wake | ActionSite::Timeout => Request::get(&url("/half")),
        ActionSite::Head | ActionSite::Data | ActionSite::Done => Request::get(&url("/plain")),
    };
    let options = Options { redirects: Some(Default::default()), ..Options::default() };
    builder.options(Arc::new(options)).build().expect("a request")
}

fn serve(heard: &ScriptedRequest, released: bool) -> Vec<ServerStep> {
    let send = |text: &[u8]| vec![ServerStep::Send(text.to_vec())];
    let early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
    match heard.path() {
        "/info" => send(&[&early[..], &full()].concat()),
        "/redirect" => send(&answer("302 Found", "Location: /plain\r\n", b"moved")),
        "/trailers" => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            send(&[&head[..], b"a\r\nhelloworld\r\n0\r\nX-Sum: 1\r\n\r\n"].concat())
        }
        "/upgrade" => {
            let head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n";
            let mut steps = send(&[&head[..], b"\r\nhello"].concat());
            steps.push(ServerStep::Fin);
            steps
        }
        "/half" if !released => send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
        "/sibling" | "/extra" if !released => Vec::new(),
        _ => ok(b"helloworld"),
    }
}

fn full() -> Vec<u8> {
    answer("200 OK", "", b"helloworld")
}

/// Performs the action at the first matching event of the transfer.
fn arm<L: ClientLoop>(staged: &mut Staged<L>, site: ActionSite, plan: &PlannedAction) {
    let (mut undone, mut unsent) = (true, true);
    let deed = plan.clone();
    let act = move |context: &mut Context<'_>, id: TransferId, event: &TransferEvent<'_>| {
        let here = match event {
            TransferEvent::Connected(_) => false, // not requested
            TransferEvent::Informational(_) => site == ActionSite::Informational,
            TransferEvent::Redirect { .. } => site == ActionSite::Redirect,
            TransferEvent::Head { .. } => site == ActionSite::Head,
            TransferEvent::Data(_) => site == ActionSite::Data,
            TransferEvent::Writable => site == ActionSite::Writable,
            TransferEvent::Upgraded => site == ActionSite::Upgraded,
            TransferEvent::Done(_) => site == ActionSite::Done,
            TransferEvent::Trailers(_) => site == ActionSite::Trailers,
            TransferEvent::MalformedHead { .. } => false, // its transfer fails
        };
        if here && deed.subject.get() == Some(id) && std::mem::take(&mut undone) {
            deed.carry_out(context);
        }
        if matches!(event, TransferEvent::Writable) && std::mem::take(&mut unsent) {
            context.send(id, bytes::Bytes::from_static(b"hello"));
            context.finish(id);
        }
        if matches!(event, TransferEvent::Upgraded) && !deed.paused.borrow().contains(&id) {
            context.finish(id);
        }
    };
    let tick = plan.clone();
    staged.client.with(|client, _| {
        let recorder = client.application_mut();
        recorder.act = Some(Box::new(act));
        recorder.tick = Some(Box::new(move |context| {
            tick.carry_out(context);
            None
        }));
    });
}

fn interrupt<L: ClientLoop>(staged: &mut Staged<L>, site: ActionSite) {
    staged.client.with(|client, now| match site {
        ActionSite::Wake => client.handle(now, DriverEvent::Wake),
        _ => client.application_mut().due = Some(now),
    });
    while staged.recorder().due.is_some() {
        staged.turn();
    }
}

/// Idle connections are closed, and none is left.
pub(crate) fn leave_nothing<L: ClientLoop>(staged: &mut Staged<L>) {
    staged.rest();
    staged.client.with(|client, now| client.close_idle(now));
    staged.run_until(|client| client.connections() == 0);
    let client = staged.client.engine();
    assert_eq!((client.running(), client.idle_connections(), client.origins()), (0, 0, 0));
    let stats = client.stats();
    assert_eq!(stats.started, stats.ended);
}

/// The ends of many transfers.
#[derive(Debug)]
struct TransferEnds {
    random: fastrand::Rng,
    left: usize,
    ids: Vec<TransferId>,
}

fn end_all<L: ClientLoop>(pipelining: u32) {
    let total = if L::SLOWER > 1 { 100 } else { 10_000 };
    let config = Config { per_host_max: 16, pipelining, ..Config::default() };
    let mut pair =
        ClientAndServer::<L, OwnLoop<ServerEngine<App>>>::new(TransferRecorder::default(), config);
    let requests: Vec<Request> = (0..10)
        .map(|n| Request::get(&pair.url(&format!("/bytes/{}", n * n * 10))).build().expect("a URL"))
        .collect();
    let random = fastrand::Rng::with_seed(11);
    let crowd = Rc::new(RefCell::new(TransferEnds { random, left: total, ids: Vec::new() }));
    let removed = pair.client.engine().application().removed.clone();
    let (inside, gone) = (Rc::clone(&crowd), removed.clone());
    let act = move |context: &mut Context<'_>, _: TransferId, event: &TransferEvent<'_>| {
        let crowd = &mut *inside.borrow_mut();
        let over = matches!(event, TransferEvent::Done(_));
        if crowd.random.u8(..) < 24 {
            let from = crowd.ids.len().saturating_sub(100);
            let id = crowd.ids[crowd.random.usize(from..crowd.ids.len())];
            if context.remove(id) {
                gone.borrow_mut().insert(id);
                begin(crowd, context, &requests);
            }
        }
        if over {
            begin(crowd, context, &requests);
        }
    };
    let first = Request::get(&pair.url("/bytes/1")).build().expect("a URL");
    pair.client.with(|client, now| {
        client.application_mut().act = Some(Box::new(act));
        client.with(now, |_, context| {
            for _ in 0..64 {
                crowd.borrow_mut().ids.push(context.start(&first));
            }
        });
    });
    let (mut since, mut ended) = (sys::now(), 0);
    while pair.client.engine().running() > 0 {
        if std::mem::replace(&mut ended, pair.client.engine().stats().ended) != ended {
            since = sys::now();
        }
        assert!(sys::now() - since < PATIENCE, "nothing happens any more");
        pair.client.turn(std::time::Duration::from_millis(1));
        pair.server.turn(std::time::Duration::ZERO);
        assert!(pair.client.engine().connections() <= 16);
    }
    let crowd = crowd.borrow();
    assert_eq!(crowd.ids.len(), total + 64);
    let client = pair.client.engine();
    let recorder = client.application();
    assert_eq!(recorder.done.len() + removed.borrow().len(), crowd.ids.len());
    for id in &crowd.ids {
        let ends = recorder.trace(*id).matches('D').count();
        assert_eq!(ends, usize::from(!removed.borrow().contains(id)));
    }
    assert!(recorder.done.iter().all(|(_, done)| done.result.is_ok()));
    assert!(!removed.borrow().is_empty());
}

fn begin(crowd: &mut TransferEnds, context: &mut Context<'_>, requests: &[Request]) {
    if crowd.left > 0 {
        crowd.left -= 1;
        let at = crowd.random.usize(0..requests.len());
        crowd.ids.push(context.start(&requests[at]));
    }
}

#[test]
fn of_ten_thousand_transfers_each_ends_once_or_is_removed() {
    fn check<L: ClientLoop>() {
        end_all::<L>(1);
    }
    in_every_loop!(check);
}

#[test]
fn of_ten_thousand_pipelined_transfers_each_ends_once_or_is_removed() {
    fn check<L: ClientLoop>() {
        end_all::<L>(4);
    }
    in_every_loop!(check);
}

/// A transfer that is started in the event of a general failure must not fail with it.
#[test]
fn a_transfer_begun_while_others_fail_does_not_fail_with_them() {
    let now = sys::now();
    let recorder = TransferRecorder::default();
    let removed = recorder.removed.clone();
    let mut client = Client::new(now, sys::wall_clock(), recorder, Config::default());
    let request = Request::get("http://name.invalid/").build().unwrap();
    let other = Request::get("http://another.invalid/").build().unwrap();
    let ids: Vec<_> = (0..3).map(|_| client.start(now, &request)).collect();
    let siblings = ids.clone();
    let begun = Rc::new(Cell::new(None));
    let inside = Rc::clone(&begun);
    client.application_mut().act = Some(Box::new(move |context, id, _| {
        if id == siblings[0] {
            for sibling in &siblings[1..] {
                assert!(context.remove(*sibling));
                removed.borrow_mut().insert(*sibling);
            }
            inside.set(Some(context.start(&other)));
        }
    }));
    let lookup = loop {
        match client.poll_action().expect("a question") {
            fulmar_engine::Action::Resolve { lookup, .. } => break lookup,
            _ => continue,
        }
    };
    client.handle(now, DriverEvent::Resolved(lookup, Err(fulmar_engine::ResolveError::NotFound)));
    assert_eq!(client.application().trace(ids[0]), "D");
    assert_eq!(client.application().trace(begun.get().unwrap()), "");
    assert_eq!(client.running(), 1);
}

/// Removed transfers without responses must not keep a connection open for ever.
#[test]
fn a_connection_without_transfers_is_closed() {
    fn check<L: ClientLoop>() {
        let config = Config { pipelining: 4, per_host_max: 1, ..Config::default() };
        let script = |heard: &ScriptedRequest| match heard.path() {
            "/silence" => Vec::new(),
            _ => ok(b""),
        };
        let mut staged = Staged::<L>::new(TransferRecorder::default(), config, script);
        for _ in 0..2 {
            staged.get("/");
            staged.run();
        }
        let ids = [staged.get("/silence"), staged.get("/silence"), staged.get("/silence")];
        while staged.peer.requests.len() < 5 {
            staged.turn();
        }
        staged.with(|context| assert!(ids.iter().all(|id| context.remove(*id))));
        staged.rest();
        assert_eq!(staged.client.engine().connections(), 0);
        let id = staged.get("/");
        staged.run();
        assert!(staged.recorder().ended(id).result.is_ok());
    }
    in_every_loop!(check);
}

/// The peer has shut down its side of an upgraded connection: transfer and connection end.
#[test]
fn an_upgraded_connection_does_not_outlive_its_transfer() {
    fn check<L: ClientLoop>() {
        let script = |heard: &ScriptedRequest| serve(heard, true);
        let mut staged = Staged::<L>::new(TransferRecorder::default(), Config::default(), script);
        let request = request(&staged, ActionSite::Upgraded);
        let id = staged.start(&request);
        staged.run();
        assert_eq!(staged.recorder().body(id), b"hello");
        staged.rest();
        assert_eq!(staged.client.engine().connections(), 0);
    }
    in_every_loop!(check);
}
