//! Calls of handlers, as libmicrohttpd 0.9.75 makes them.

use super::*;

/// Runs the steps until nothing is left to do, and returns them.
fn run(
    exchange: &AccessExchange,
    handler: &mut dyn FnMut(&AccessExchange, &AccessCall) -> (bool, usize),
) -> String {
    let mut log = Vec::new();
    loop {
        match exchange.next_step() {
            AccessStep::Call(kind) => {
                let call = exchange.begin_call(kind);
                log.push(match kind {
                    CallKind::First => "first".to_owned(),
                    CallKind::Data => String::from_utf8_lossy(call.data()).into_owned(),
                    CallKind::Last => "last".to_owned(),
                });
                let (succeeded, left) = handler(exchange, &call);
                if exchange.finish_call(call, succeeded, left).is_err() {
                    log.push("violation".to_owned());
                }
            }
            AccessStep::SendContinue => log.push("100".to_owned()),
            AccessStep::Wait => return log.join(" "),
            end => {
                log.push(format!("{end:?}"));
                return log.join(" ");
            }
        }
    }
}

/// The steps for a request whose body, if there is one, arrives in two pieces.
fn run_request(
    expects_continue: bool,
    has_body: bool,
    handler: &mut dyn FnMut(&AccessExchange, &AccessCall) -> (bool, usize),
) -> String {
    let exchange = AccessExchange::new(expects_continue, 1000);
    let mut log = Vec::new();
    if has_body {
        log.push(run(&exchange, handler));
        exchange.add_upload(b"ab");
        log.push(run(&exchange, handler));
        exchange.add_upload(b"cd");
    }
    exchange.end_upload();
    log.push(run(&exchange, handler));
    log.join(" | ")
}

/// Queues a response in the last call, and processes all data.
fn usual(exchange: &AccessExchange, call: &AccessCall) -> (bool, usize) {
    if call.kind() == CallKind::Last {
        assert_eq!(exchange.queue_reply(), Ok(ReplyTiming::Complete));
    }
    (true, 0)
}

#[test]
fn handler_is_called_first_with_data_and_last() {
    assert_eq!(run_request(false, false, &mut usual), "first last Reply(Complete)");
    assert_eq!(run_request(false, true, &mut usual), "first | ab | cd last Reply(Complete)");
    assert_eq!(run_request(true, true, &mut usual), "first 100 | ab | cd last Reply(Complete)");
}

#[test]
fn continue_is_not_sent_if_the_body_arrives_before() {
    let exchange = AccessExchange::new(true, 1000);
    exchange.add_upload(b"ab");
    assert_eq!(run(&exchange, &mut usual), "first ab");
}

#[test]
fn response_during_the_upload_is_refused() {
    let mut handler = |exchange: &AccessExchange, call: &AccessCall| {
        if call.kind() == CallKind::Data {
            assert_eq!(exchange.queue_reply(), Err(QueueRefusal::DuringUpload));
        }
        usual(exchange, call)
    };
    assert_eq!(run_request(false, true, &mut handler), "first | ab | cd last Reply(Complete)");
}

#[test]
fn response_in_the_first_call_is_early() {
    let mut handler = |exchange: &AccessExchange, _: &AccessCall| {
        assert_eq!(exchange.queue_reply(), Ok(ReplyTiming::Early));
        assert_eq!(exchange.queue_reply(), Err(QueueRefusal::TooLate));
        (true, 0)
    };
    assert_eq!(run_request(false, false, &mut handler), "first Reply(Early)");
    let early = "first Reply(Early) | Reply(Early) | Reply(Early)";
    assert_eq!(run_request(true, true, &mut handler), early);
}

#[test]
fn unprocessed_data_are_shown_again_with_the_next() {
    let mut handler = |_: &AccessExchange, call: &AccessCall| (true, call.data().len());
    // The last call waits for the rest to be processed, as in the original.
    assert_eq!(run_request(false, true, &mut handler), "first | ab | abcd");
}

/// The original shows the rest only after more data, and never if the body is complete.
#[test]
fn rest_is_shown_at_once_after_a_part_was_processed() {
    let mut handler = |exchange: &AccessExchange, call: &AccessCall| match call.kind() {
        CallKind::Data => (true, call.data().len() - 1),
        _ => usual(exchange, call),
    };
    assert_eq!(run_request(false, true, &mut handler), "first | ab b | cd d last Reply(Complete)");
}

#[test]
fn failure_of_the_handler_closes_the_connection() {
    let mut first = |_: &AccessExchange, _: &AccessCall| (false, 0);
    assert_eq!(run_request(false, true, &mut first), "first Close | Close | Close");
    let mut data = |_: &AccessExchange, call: &AccessCall| (call.kind() != CallKind::Data, 0);
    assert_eq!(run_request(true, true, &mut data), "first 100 | ab Close | Close");
    let mut last = |exchange: &AccessExchange, call: &AccessCall| {
        let (_, left) = usual(exchange, call);
        (call.kind() != CallKind::Last, left)
    };
    assert_eq!(run_request(false, false, &mut last), "first last Close");
}

#[test]
fn more_data_left_than_received_is_a_violation() {
    let mut handler = |_: &AccessExchange, call: &AccessCall| (true, call.data().len() + 1);
    assert_eq!(run_request(false, true, &mut handler), "first | ab violation Close | Close");
    // Sizes that belong to no data are ignored.
    let mut handler = |exchange: &AccessExchange, call: &AccessCall| {
        (usual(exchange, call).0, if call.kind() == CallKind::Data { 0 } else { 5 })
    };
    assert_eq!(run_request(false, true, &mut handler), "first | ab | cd last Reply(Complete)");
}

#[test]
fn last_call_is_repeated_until_a_response_is_queued() {
    let exchange = AccessExchange::new(false, 1000);
    exchange.end_upload();
    let mut calls = 0;
    let mut handler = |exchange: &AccessExchange, call: &AccessCall| {
        calls += 1;
        if calls == 3 { usual(exchange, call) } else { (true, 0) }
    };
    assert_eq!(run(&exchange, &mut handler), "first last Retry");
    assert_eq!(exchange.next_step(), AccessStep::Retry);
    exchange.retry();
    assert_eq!(run(&exchange, &mut handler), "last Reply(Complete)");
}

#[test]
fn suspended_connection_makes_no_step_and_accepts_a_response() {
    let exchange = AccessExchange::new(false, 1000);
    exchange.end_upload();
    let mut handler = |exchange: &AccessExchange, call: &AccessCall| {
        if call.kind() == CallKind::Last {
            exchange.suspend();
        }
        (true, 0)
    };
    assert_eq!(run(&exchange, &mut handler), "first last");
    assert!(exchange.is_suspended());
    let other_thread = std::thread::scope(|scope| scope.spawn(|| exchange.queue_reply()).join());
    assert_eq!(other_thread.expect("no panic"), Ok(ReplyTiming::Complete));
    assert_eq!(exchange.next_step(), AccessStep::Wait);
    assert!(exchange.resume());
    assert_eq!(exchange.next_step(), AccessStep::Reply(ReplyTiming::Complete));
    assert!(!exchange.resume());
}

#[test]
fn resumed_connection_without_a_response_is_called_again() {
    let exchange = AccessExchange::new(false, 1000);
    exchange.add_upload(b"ab");
    exchange.end_upload();
    let mut suspends = true;
    let mut handler = |exchange: &AccessExchange, call: &AccessCall| {
        if call.kind() == CallKind::Data && mem::take(&mut suspends) {
            exchange.suspend();
            assert_eq!(exchange.queue_reply(), Err(QueueRefusal::DuringUpload));
            return (true, 2);
        }
        usual(exchange, call)
    };
    assert_eq!(run(&exchange, &mut handler), "first ab");
    assert!(exchange.resume());
    assert_eq!(run(&exchange, &mut handler), "ab last Reply(Complete)");
}

#[test]
fn connection_resumed_within_the_handler_continues() {
    let exchange = AccessExchange::new(false, 1000);
    exchange.end_upload();
    let mut handler = |exchange: &AccessExchange, call: &AccessCall| {
        exchange.suspend();
        let result = usual(exchange, call);
        assert!(exchange.resume());
        result
    };
    assert_eq!(run(&exchange, &mut handler), "first last Reply(Complete)");
}

#[test]
fn data_left_by_a_handler_that_was_resumed_within_are_due() {
    let exchange = AccessExchange::new(false, 1000);
    exchange.add_upload(b"ab");
    exchange.end_upload();
    let mut suspends = true;
    let mut handler = |exchange: &AccessExchange, call: &AccessCall| {
        if call.kind() == CallKind::Data && mem::take(&mut suspends) {
            exchange.suspend();
            assert!(exchange.resume());
            return (true, 2);
        }
        usual(exchange, call)
    };
    assert_eq!(run(&exchange, &mut handler), "first ab ab last Reply(Complete)");
}

#[test]
fn response_outside_of_the_handler_is_refused() {
    let exchange = AccessExchange::new(false, 1000);
    assert_eq!(exchange.queue_reply(), Err(QueueRefusal::OutsideOfHandler));
    run(&exchange, &mut usual);
    assert_eq!(exchange.queue_reply(), Err(QueueRefusal::OutsideOfHandler));
    exchange.end_upload();
    run(&exchange, &mut usual);
    assert_eq!(exchange.queue_reply(), Err(QueueRefusal::TooLate));
}

#[test]
fn unprocessed_data_have_a_limit() {
    let exchange = AccessExchange::new(false, 3);
    assert_eq!(exchange.add_upload(b"ab"), 2);
    assert_eq!((exchange.upload_room(), exchange.add_upload(b"cd")), (1, 1));
    assert_eq!(exchange.add_upload(b"d"), 0);
    assert_eq!(run(&exchange, &mut usual), "first abc");
    assert_eq!(exchange.upload_room(), 3);
}
