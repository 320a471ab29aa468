//! Progress callbacks, the meter, and limits of speed, of the transfers that have them.
//!
//! libcurl reports progress whenever it has worked on a transfer; so it is reported after each
//! event of a transfer, after each action on all of them, and when a timer is due.

use std::rc::Rc;
use std::time::{Duration, Instant};

use fulmar_sys as sys;

use crate::border::{CBorder, PROGRESS_CONTINUE};
use crate::code::CurlCode;
use crate::failure::Failure;
use crate::handles::{Easy, EasyState, Multi};
use crate::option::OptionId as Id;
use crate::progress::ProgressCounts;

impl Multi {
    /// A transfer begins: notes it, if there is something to report or to check.
    pub(crate) fn note_updated(&self, easy: &Rc<Easy>) {
        let is_updated = easy.with_state(|state| {
            let values = &state.options.values;
            !values.is_on(Id::NOPROGRESS)
                || (values.is_on(Id::LOW_SPEED_LIMIT) && values.is_on(Id::LOW_SPEED_TIME))
                || values.is_on(Id::MAX_SEND_SPEED_LARGE)
        });
        if is_updated {
            self.list_updated(easy);
        }
    }

    fn list_updated(&self, easy: &Rc<Easy>) {
        easy.membership.is_updated.set(true);
        self.updated.borrow_mut().push(Rc::clone(easy));
    }

    /// The exchange has ended while the application has paused: from now on its timeout is checked
    /// here.
    pub(crate) fn watch_held(&self, easy: &Rc<Easy>) {
        self.forget_updated(easy);
        self.list_updated(easy);
    }

    /// A transfer has ended.
    pub(crate) fn forget_updated(&self, easy: &Rc<Easy>) {
        if easy.membership.is_updated.take() {
            self.updated.borrow_mut().retain(|it| !Rc::ptr_eq(it, easy));
        }
    }

    /// When the next check of a transfer is due.
    pub(crate) fn next_update(&self) -> Option<Instant> {
        let due = |easy: &Rc<Easy>| easy.with_state(|state| state.transfer.as_ref()?.check_at);
        self.updated.borrow().iter().filter_map(due).min()
    }

    /// Updates all transfers, or those whose check is due. False if there is none.
    pub(crate) fn update_all(&self, only_due: bool, border: &dyn CBorder) -> bool {
        let updated: Vec<_> = self.updated.borrow().clone();
        if updated.is_empty() {
            return false;
        }
        let now = sys::now();
        for easy in updated {
            let is_chosen = easy.with_state(|state| match &state.transfer {
                Some(transfer) if only_due => transfer.check_at.is_some_and(|due| due <= now),
                transfer => transfer.is_some(),
            });
            if is_chosen {
                self.update_or_finish(&easy, border);
            }
        }
        true
    }

    /// Updates a transfer, which ends if the callback requires it, or if it is too slow.
    pub(crate) fn update_or_finish(&self, easy: &Rc<Easy>, border: &dyn CBorder) {
        if !easy.membership.is_updated.get() || easy.with_state(|state| state.transfer.is_none()) {
            return;
        }
        let updated = self.update(easy, false, border);
        let updated = updated.and_then(|()| self.check_speed(easy)).and_then(|()| {
            match easy.with_state(resumes_upload) {
                true => self.feed_upload(easy, false, border),
                false => Ok(()),
            }
        });
        if let Err(failure) = updated {
            self.finish(easy, Err(failure), border);
        }
    }

    /// Reports the progress of a transfer. `has_ended`: the request has ended.
    ///
    /// # Errors
    /// The callback requires the end.
    pub(crate) fn update(
        &self,
        easy: &Easy,
        has_ended: bool,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let reported = easy.with_state(|state| {
            let values = &state.options.values;
            if values.is_on(Id::NOPROGRESS) && !values.is_on(Id::LOW_SPEED_LIMIT) {
                return None; // nothing is measured
            }
            let counts = counts(state);
            let transfer = state.transfer.as_mut()?;
            let elapsed = sys::now().saturating_duration_since(transfer.started);
            let measured = transfer.progress.measure(&counts, elapsed, has_ended);
            let values = &state.options.values;
            let pointer = |id| values.pointer(id);
            (!values.is_on(Id::NOPROGRESS)).then(|| {
                let functions = (pointer(Id::XFERINFOFUNCTION), pointer(Id::PROGRESSFUNCTION));
                (counts, measured, functions, pointer(Id::XFERINFODATA))
            })
        });
        let Some((counts, measured, functions, data)) = reported else { return Ok(()) };
        let arguments = counts.arguments();
        let result = match functions {
            (function, _) if !function.is_null() => {
                self.call(|| border.progress(function, data, arguments))
            }
            (_, function) if !function.is_null() => {
                self.call(|| border.progress_float(function, data, arguments))
            }
            _ => PROGRESS_CONTINUE,
        };
        match result {
            PROGRESS_CONTINUE => {}
            0 => return Ok(()),
            _ => return Err(Failure::new(CurlCode::AbortedByCallback, "Callback aborted")),
        }
        if measured.is_due {
            let (text, file) = easy.with_state(|state| {
                let values = &state.options.values;
                let (file, resumed) =
                    (values.pointer(Id::STDERR), values.number(Id::RESUME_FROM_LARGE));
                let transfer = state.transfer.as_mut();
                let meter = |progress: &mut crate::progress::ProgressState| {
                    progress.meter(&counts, &measured, resumed)
                };
                (transfer.map(|it| meter(&mut it.progress)).unwrap_or_default(), file)
            });
            let is_alone = functions.0.is_null() && functions.1.is_null();
            let end = if has_ended && is_alone { "\n" } else { "" };
            self.call(|| border.print_error(file, format!("{text}{end}").as_bytes()));
        }
        Ok(())
    }

    /// `CURLOPT_LOW_SPEED_LIMIT`.
    fn check_speed(&self, easy: &Easy) -> Result<(), Failure> {
        easy.with_state(|state| {
            let values = &state.options.values;
            let limit = values.number(Id::LOW_SPEED_LIMIT);
            let seconds = values.number(Id::LOW_SPEED_TIME);
            let Some(transfer) = &mut state.transfer else { return Ok(()) };
            let now = sys::now();
            transfer.check_at = transfer.check_at.filter(|due| *due > now);
            if transfer.download.ended.is_some() {
                transfer.check_at = transfer.deadline(values);
                let elapsed = now.saturating_duration_since(transfer.started).as_millis();
                let (received, len) =
                    (transfer.download.received, transfer.response.content_length);
                return match transfer.check_at.is_some_and(|due| due <= now) {
                    true => Err(Failure::timed_out(elapsed, received, len)),
                    false => Ok(()),
                };
            }
            if transfer.download.is_paused {
                return Ok(()); // until it is resumed
            }
            if limit > 0 {
                let due = now + CHECK_SPAN;
                transfer.check_at = Some(transfer.check_at.map_or(due, |at| at.min(due)));
            }
            transfer.progress.check_speed(now, limit, seconds)
        })
    }
}

/// Counts of the current request.
fn counts(state: &EasyState) -> ProgressCounts {
    let known = |size: i64| Some(size).filter(|size| *size >= 0);
    ProgressCounts {
        download_size: known(state.info.content_length),
        downloaded: state.info.received,
        upload_size: known(state.info.upload_length),
        uploaded: state.info.sent,
    }
}

/// `CURLOPT_MAX_SEND_SPEED_LARGE`: how long the next piece has to wait.
pub(crate) fn send_delay(state: &mut EasyState) -> Option<Duration> {
    let limit = state.options.values.number(Id::MAX_SEND_SPEED_LARGE);
    let transfer = state.transfer.as_mut().filter(|_| limit > 0)?;
    let (now, sent) = (sys::now(), state.info.sent);
    let window = transfer.upload.window.get_or_insert((now, sent));
    let passed = now.saturating_duration_since(window.0);
    let due = u64::try_from((sent - window.1).saturating_mul(1000) / limit).unwrap_or(0);
    let wait = Duration::from_millis(due).saturating_sub(passed);
    if passed >= WINDOW && wait.is_zero() {
        *window = (now, sent);
    }
    if wait.is_zero() {
        return None;
    }
    transfer.check_at = Some(now + wait);
    transfer.upload.is_delayed = true;
    Some(wait)
}

/// True if the upload was delayed, and that is over.
fn resumes_upload(state: &mut EasyState) -> bool {
    let Some(transfer) = &mut state.transfer else { return false };
    let is_over = transfer.check_at.is_none_or(|due| due <= sys::now());
    is_over && std::mem::take(&mut transfer.upload.is_delayed)
}

/// Speeds are checked so often.
const CHECK_SPAN: Duration = Duration::from_secs(1);
/// A limit of speed holds for at least the last three seconds.
const WINDOW: Duration = Duration::from_secs(3);
