//! What follows the last request of a connection is drained before the close (RFC 9112 §9.6).

use fulmar_proto::h1::H1Server;
use fulmar_proto::h1::LINGER_SIZE_MAX;
use fulmar_proto::{Connection, Phase, Scratch, StreamId};

use super::{FIRST, GET, answer, client, eof, input, poll, sent, server};

const LAST: [&str; 2] =
    ["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"];

/// The response has left, and the connection drains what the peer still sends.
fn assert_drains(server: &mut H1Server) {
    assert!(server.io_state().finished && !server.io_state().closed);
    assert!(sent(server).ends_with("ok"));
    assert_eq!((server.io_state().phase, server.io_state().wants_read), (Phase::Linger, true));
}

/// RFC 9112 §9.6: a close with unread input would reset the connection, and take back the response.
#[test]
fn input_behind_the_last_request_is_drained_before_the_close() {
    for request in LAST {
        // Received along with the request, or after it.
        for late in [false, true] {
            let mut server = H1Server::default();
            let mut arrived = input([request, if late { "" } else { "\r\n" }].concat());
            poll(&mut server, &mut arrived);
            assert!(
                arrived.block.is_empty() && !server.io_state().wants_read,
                "it waits in the kernel"
            );
            if late {
                server.handle_unread();
            }
            answer(&mut server, FIRST, b"ok");
            assert_drains(&mut server);
            poll(&mut server, &mut input("GET / HTTP/1.1\r\n"));
            assert!(!server.io_state().closed);
            poll(&mut server, &mut eof());
            assert!(server.io_state().closed);
        }
        // Reported while the response is on its way.
        let mut server = server(request);
        answer(&mut server, FIRST, b"ok");
        server.handle_unread();
        assert_drains(&mut server);
        // Received in the turn in which the response is queued.
        let mut server = H1Server::default();
        let mut scratch = Scratch::default();
        let mut arrived = input([request, "\r\n"].concat());
        assert!(server.poll_event(&mut arrived.lend(), &mut scratch).unwrap().is_some());
        answer(&mut server, FIRST, b"ok");
        poll(&mut server, &mut arrived);
        assert_drains(&mut server);
    }
}

#[test]
fn the_drain_behind_the_last_request_is_bounded() {
    for request in LAST {
        let mut server = server(request);
        server.handle_unread();
        answer(&mut server, FIRST, b"ok");
        sent(&mut server);
        let most = vec![b'x'; LINGER_SIZE_MAX as usize - 1];
        poll(&mut server, &mut input(&most));
        assert!(!server.io_state().closed);
        poll(&mut server, &mut input("x"));
        assert!(server.io_state().closed && !server.io_state().wants_read);
    }
    // While the response leaves slowly, no more than that is drained.
    let mut server = server(LAST[0]);
    answer(&mut server, FIRST, b"ok");
    server.handle_unread();
    poll(&mut server, &mut input(vec![b'x'; LINGER_SIZE_MAX as usize]));
    assert!(!server.io_state().wants_read);
    server.handle_unread();
    assert!(!server.io_state().wants_read && !server.io_state().closed, "once is enough");
    sent(&mut server);
    assert!(server.io_state().closed);
}

/// Whether a request is the last one may turn out when others wait behind it.
#[test]
fn a_pipeline_that_is_cut_short_is_drained() {
    let two = [GET, GET].concat();
    let mut at_end = server(&two);
    at_end.handle_unread(); // as the links do with unread input
    at_end.close_after();
    answer(&mut at_end, FIRST, b"ok");
    assert_drains(&mut at_end);

    // Requests wait until responses have left, and no more are wanted then.
    let mut full = server(GET);
    full.set_queue_max(10);
    answer(&mut full, FIRST, b"0123456789");
    poll(&mut full, &mut input(GET));
    assert!(!full.io_state().wants_read);
    full.handle_unread();
    full.close_after();
    sent(&mut full);
    assert_eq!((full.io_state().phase, full.io_state().closed), (Phase::Linger, false));
}

/// Input behind a request is the next one, and no sign of input behind that.
#[test]
fn input_behind_an_earlier_request_delays_no_close() {
    let mut server = server(GET);
    server.handle_unread();
    answer(&mut server, FIRST, b"ok");
    poll(&mut server, &mut input(LAST[0]));
    answer(&mut server, StreamId(1), b"ok");
    sent(&mut server);
    assert!(server.io_state().closed);
}

#[test]
fn unread_input_means_nothing_to_a_client() {
    let mut asker = client(1, 1);
    asker.handle_unread();
    poll(&mut asker, &mut input("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    assert_eq!((asker.vacancy(), asker.has_excess()), (1, false));
}
