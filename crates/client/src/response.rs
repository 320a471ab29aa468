//! Decides on a response: deliver it, follow it, retry, or wait.

use std::time::{Duration, Instant, SystemTime};

use fulmar_proto::{BodyLen, Response};
use fulmar_semantics::coding::ContentDecoder;
use fulmar_semantics::redirect::{Decision, Hop, NextMethod, decide, referer};
use fulmar_semantics::retry_after::retry_after;
use url::Url;

use crate::deadline::later;
use crate::error::Error;
use crate::request::Redirected;
use crate::state::{CONNECTED, ClientState, RUNNING};
use crate::transfer::{BodyUse, FollowUp, OwnConnection, SpeedLimit, TransferId, known};
use crate::transfer_stage::TransferStage;

impl ClientState {
    /// The response begins; false if its transfer has ended.
    pub(crate) fn note_head(
        &mut self,
        now: Instant,
        id: TransferId,
        status: u16,
        len: BodyLen,
    ) -> bool {
        let Some(transfer) = self.transfers.get_mut(id.0) else { return false };
        transfer.status = status;
        // In response to HEAD, and at 304, the fields describe a body that does not follow. A
        // connection of HTTP/2 knows this from the method, and HTTP/1 from the request.
        let is_bodiless = !transfer.multiplexed && transfer.request.is_bodiless();
        let bodiless = is_bodiless || matches!(status, 204 | 304);
        transfer.len = if bodiless { Some(0) } else { known(len) };
        transfer.timestamps.first_byte = Some(now);
        transfer.withheld = transfer.stage == TransferStage::Expecting;
        transfer.stage = TransferStage::Receiving;
        transfer.since = now;
        true
    }

    /// Marks that bytes followed the response that belong to no request.
    pub(crate) fn mark_excess(&mut self, id: TransferId) {
        // It may have ended while its response was received.
        if let Some(transfer) = self.transfers.get_mut(id.0) {
            transfer.excess = true;
        }
    }

    /// Decides how to continue after a response's head. `Some` is the URL of the next request.
    pub(crate) fn decide(
        &mut self,
        now: Instant,
        id: TransferId,
        response: Response<'_>,
    ) -> Result<Option<Url>, Error> {
        let transfer = self.transfers.get(id.0).expect(RUNNING);
        let is_verbatim = transfer.request.verbatim().is_some();
        if response.status == 421 {
            // The server does not respond for this origin on the connection of another one.
            self.pool.keep_apart(transfer.origin);
        }
        if !is_verbatim {
            if let Some(to) = self.follow(id, response)? {
                return Ok(Some(to));
            }
            if self.authenticate(id, response)?
                || self.retry_without_expect(id, response)?
                || self.retry_misdirected(id, response)
            {
                return Ok(None);
            }
        }
        if self.rest(now, id, response) {
            return Ok(None);
        }
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        let options = transfer.request.options();
        let is_paced = options.lowest_speed.is_some() || options.highest_speed.is_some();
        let body_max = options.body_max;
        // A response without a body may have a coding; there is nothing to decode.
        let limits = options.decode.filter(|_| transfer.len != Some(0));
        let decoder = match limits {
            Some(limits) => {
                let codings = response.headers.get_all("content-encoding");
                ContentDecoder::new(codings, limits).map_err(Error::Coding)?
            }
            None => None,
        };
        match decoder {
            Some(decoder) => transfer.extra().decoder = Some(decoder),
            None if body_max.zip(transfer.len).is_some_and(|(max, len)| len > max) => {
                return Err(Error::TooLarge);
            }
            None => {}
        }
        if is_paced {
            transfer.extra().pace = Some(SpeedLimit { window: (now, 0), due: now, until: None });
        }
        Ok(None)
    }

    /// Follows a redirect, if the policy allows it.
    fn follow(&mut self, id: TransferId, response: Response<'_>) -> Result<Option<Url>, Error> {
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        let Some(policy) = transfer.request.options().redirects else { return Ok(None) };
        let request = transfer.request.clone();
        let hops = transfer.extra.as_ref().map_or(&[][..], |extra| &extra.hops);
        let followed = hops.iter().filter(|hop| (300..400).contains(&hop.status)).count();
        let hop = Hop {
            method: request.method().as_bytes(),
            url: request.url(),
            status: response.status,
            location: response.headers.get("location"),
            followed: u32::try_from(followed).unwrap_or(u32::MAX),
        };
        let follow = match decide(policy, hop).map_err(Error::Redirect)? {
            Decision::Stop => return Ok(None),
            Decision::Follow(follow) => follow,
        };
        if follow.next_method == NextMethod::Same {
            self.check_replayable(id)?;
        }
        let referer = referer(request.url(), &follow.url);
        let next = Redirected {
            method: String::from_utf8_lossy(follow.method(hop.method)).into_owned(),
            referer: referer.filter(|_| request.options().referer),
            follow,
        };
        let to = next.follow.url.clone();
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        transfer.extra().next = Some(request.redirected(&next).map_err(Error::Next)?);
        transfer.body = BodyUse::Ignore(FollowUp::Follow);
        Ok(Some(to))
    }

    /// 417: the server does not know `Expect`. The request is sent again without it (RFC 9110
    /// §15.5.18).
    fn retry_without_expect(
        &mut self,
        id: TransferId,
        response: Response<'_>,
    ) -> Result<bool, Error> {
        if response.status != 417 {
            return Ok(false);
        }
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        if !transfer.request.expects_continue() {
            return Ok(false);
        }
        let next = transfer.request.without_expect().map_err(Error::Next)?;
        self.check_replayable(id)?;
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        transfer.extra().next = Some(next);
        transfer.body = BodyUse::Ignore(FollowUp::Follow);
        Ok(true)
    }

    /// 421: the server does not respond for this origin on this connection, and has not processed
    /// the request. It is sent once more, on a connection of its own (RFC 9110 §15.5.20).
    fn retry_misdirected(&mut self, id: TransferId, response: Response<'_>) -> bool {
        if response.status != 421 || self.check_replayable(id).is_err() {
            return false;
        }
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        let own =
            if transfer.coalesced { OwnConnection::OfOrigin } else { OwnConnection::OfRequest };
        let extra = transfer.extra();
        if extra.misdirected.is_some() {
            return false;
        }
        extra.misdirected = Some(own);
        transfer.body = BodyUse::Ignore(FollowUp::Follow);
        true
    }

    /// Checks that the request's body can be sent again. A body that still waits for 100 Continue
    /// has not been sent at all.
    pub(crate) fn check_replayable(&self, id: TransferId) -> Result<(), Error> {
        let transfer = self.transfers.get(id.0).expect(RUNNING);
        let may = transfer.withheld || transfer.request.body().is_replayable();
        may.then_some(()).ok_or(Error::NotReplayable)
    }

    /// Backs off from a host that sent `Retry-After`.
    fn rest(&mut self, now: Instant, id: TransferId, response: Response<'_>) -> bool {
        if self.config.retry_after_max.is_zero() || !matches!(response.status, 429 | 503) {
            return false;
        }
        let wall = self.wall(now);
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        let value = response.headers.get("retry-after");
        let cap = self.config.retry_after_max;
        let Some(span) = value.and_then(|value| retry_after(value, wall, cap)) else {
            return false;
        };
        let until = later(now, span);
        let origin = self.pool.get(transfer.origin).expect(CONNECTED);
        self.pool.hosts.rest(origin.host, until);
        let retries = transfer.request.options().retries;
        let may = transfer.request.is_idempotent();
        let extra = transfer.extra();
        if !may || extra.retries >= retries {
            return false;
        }
        extra.retries += 1;
        extra.retry_at = Some(until);
        transfer.body = BodyUse::Ignore(FollowUp::Rest);
        true
    }

    /// Keeps a transfer below its highest speed after `bytes` more have been received.
    pub(crate) fn pace(&mut self, now: Instant, id: TransferId, bytes: u64) {
        let transfer = self.transfers.get_mut(id.0).expect(RUNNING);
        let Some(speed) = transfer.request.options().highest_speed else { return };
        let Some(pace) = transfer.extra().pace.as_mut() else { return };
        // Time that was not used does not accumulate.
        let from = now.checked_sub(PACE_SLACK).map_or(pace.due, |from| from.max(pace.due));
        let span = Duration::try_from_secs_f64(bytes as f64 / speed.max(1) as f64);
        pace.due = later(from, span.unwrap_or(Duration::MAX));
        if pace.due > now {
            pace.until = Some(pace.due);
            self.note_held(id);
            self.watch(now, id);
        }
    }

    /// The wall clock, computed from one reading at the start.
    pub(crate) fn wall(&self, now: Instant) -> SystemTime {
        self.epoch.1 + now.saturating_duration_since(self.epoch.0)
    }
}

/// A transfer may lag its highest speed by this much and catch up.
const PACE_SLACK: Duration = Duration::from_secs(1);
