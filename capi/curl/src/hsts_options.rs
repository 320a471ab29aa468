//! HSTS of an easy handle: its options, its files and callbacks, requests that become secure.

use std::rc::Rc;
use std::sync::PoisonError;

use fulmar_sys as sys;

use crate::border::{CBorder, HstsCall, HstsRead, HstsWritten};
use crate::cache_file::{read_cache, write_cache};
use crate::cache_store::HstsSource;
use crate::code::CurlCode;
use crate::failure::Failure;
use crate::handles::{Easy, EasyState};
use crate::hop_target::HopTarget;
use crate::hsts::HstsCache;
use crate::option::OptionId as Id;
use crate::share_kind::SharedKind;
use crate::stamp::unix_time;

impl EasyState {
    /// Follows `CURLOPT_HSTS`, which was set.
    pub(crate) fn set_hsts_file(&mut self, file: Option<&[u8]>) {
        self.hsts.enable();
        match file {
            Some(file) => self.hsts.files.push(file.to_vec()),
            None => {
                self.hsts.files.clear();
                if matches!(self.hsts.source, HstsSource::Own(_)) {
                    self.hsts.source = HstsSource::Off;
                }
            }
        }
    }

    /// Follows `CURLOPT_HSTS_CTRL`, which was set.
    pub(crate) fn set_hsts_control(&mut self, bits: i64) {
        match bits & HSTS_ENABLE {
            0 => self.hsts.source = HstsSource::Off,
            _ => self.hsts.enable(),
        }
    }

    /// The target of a request; with HTTPS if its host needs that.
    ///
    /// # Errors
    /// The URL with HTTPS is invalid.
    pub(crate) fn apply_hsts(&mut self, target: Rc<HopTarget>) -> Result<Rc<HopTarget>, Failure> {
        if target.is_secure || target.is_websocket {
            return Ok(target);
        }
        let now = unix_time(sys::wall_clock());
        let host = target.host.as_bytes();
        let is_known = self.with_hsts(|cache| cache.lookup(host, now).is_some());
        match is_known {
            Some(true) => {
                self.hsts.has_switched = true;
                target.with_https(&self.options).map(Rc::new)
            }
            _ => Ok(target),
        }
    }

    fn with_hsts<T>(&mut self, act: impl FnOnce(&mut HstsCache) -> T) -> Option<T> {
        match &mut self.hsts.changed()?.source {
            HstsSource::Off => None,
            HstsSource::Own(cache) => Some(act(cache)),
            HstsSource::Shared => {
                let share = self.share.as_ref()?;
                share.hsts.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
            }
        }
    }
}

impl Easy {
    /// Loads the files of `CURLOPT_HSTS`. They stay in the list.
    pub(crate) fn load_hsts_files(&self, border: &dyn CBorder) {
        let files = self.with_state(|state| state.hsts.files.clone());
        if files.is_empty() {
            return;
        }
        self.lock(SharedKind::Hsts, border);
        for file in files {
            self.load_hsts_file(file);
        }
        self.unlock(SharedKind::Hsts, border);
    }

    fn load_hsts_file(&self, file: Vec<u8>) {
        let text = read_cache(&file).unwrap_or_default(); // one that is missing is written
        let now = unix_time(sys::wall_clock());
        self.with_state(|state| {
            state.with_hsts(|cache| cache.load(&text, now));
            state.hsts.loaded = Some(file);
        });
    }

    /// Adds the hosts that `CURLOPT_HSTSREADFUNCTION` returns. It is called outside of
    /// `Multi::call`: libcurl does not refuse functions in it, so they may change all state.
    ///
    /// # Errors
    /// The callback fails, or returns no name.
    pub(crate) fn read_hsts(&self, border: &dyn CBorder) -> Result<(), Failure> {
        let call = self.hsts_call(Id::HSTSREADFUNCTION, Id::HSTSREADDATA);
        let is_off = self.with_state(|state| matches!(state.hsts.source, HstsSource::Off));
        let Some(call) = call.filter(|_| !is_off) else { return Ok(()) };
        loop {
            match border.read_hsts(call) {
                HstsRead::Done => return Ok(()),
                HstsRead::Failed => return Err(Failure::new(CurlCode::AbortedByCallback, "")),
                HstsRead::Host { name, .. } if name.is_empty() => {
                    return Err(Failure::new(CurlCode::BadFunctionArgument, ""));
                }
                HstsRead::Host { name, includes_subdomains, expire } => self.with_state(|state| {
                    state.with_hsts(|cache| cache.add_entry(&name, includes_subdomains, &expire));
                }),
            }
        }
    }

    /// Writes the file, and passes the hosts to `CURLOPT_HSTSWRITEFUNCTION`, which runs outside of
    /// `Multi::call`, as the other one: the hosts are copied before.
    pub(crate) fn save_hsts(&self, border: &dyn CBorder) {
        let saved = self.with_state(|state| {
            let named = state.options.values.bytes(Id::HSTS).map(|file| file.to_vec());
            let file = named.or_else(|| state.hsts.loaded.clone());
            let (text, hosts) =
                state.with_hsts(|cache| (cache.file(), cache.entries().to_vec()))?;
            Some((file.filter(|file| !file.is_empty()), text, hosts))
        });
        let Some((file, text, hosts)) = saved else { return };
        if let Some(file) = file {
            let _ = write_cache(&file, text.as_bytes()); // libcurl reports no error here
        }
        let call = self.hsts_call(Id::HSTSWRITEFUNCTION, Id::HSTSWRITEDATA);
        let Some(call) = call else { return };
        for (index, host) in hosts.iter().enumerate() {
            if border.write_hsts(call, host, index, hosts.len()) != HstsWritten::Accepted {
                return;
            }
        }
    }

    /// Reports that the request that is about to be sent goes out with HTTPS instead.
    pub(crate) fn note_switch(&self, border: &dyn CBorder) {
        let url = self.with_state(|state| {
            let hsts = state.hsts.changed();
            let has_switched = hsts.is_some_and(|it| std::mem::take(&mut it.has_switched));
            has_switched.then(|| state.request.url.clone())
        });
        if let Some(url) = url {
            let url = String::from_utf8_lossy(&url);
            self.note(&format!("Switched from HTTP to HTTPS due to HSTS => {url}"), border);
        }
    }

    fn hsts_call(&self, function: Id, user: Id) -> Option<HstsCall> {
        let call = HstsCall {
            function: self.pointer(function),
            user: self.pointer(user),
            easy: self.handle,
        };
        (!call.function.is_null()).then_some(call)
    }

    /// Stores the value of `Strict-Transport-Security`, if it was received over TLS.
    pub(crate) fn store_hsts(&self, value: &[u8], border: &dyn CBorder) {
        let now = unix_time(sys::wall_clock());
        let stored = self.with_state(|state| {
            let target = &state.transfer.as_ref()?.target;
            let host = target.is_secure.then(|| target.host.clone())?;
            state.with_hsts(|cache| cache.add_header(host.as_bytes(), value, now))
        });
        if let Some(Err(_)) = stored {
            self.note("Illegal STS header skipped", border);
        }
    }

    /// What a copy of the handle begins with: a cache from the file and the callback, if there is a
    /// cache.
    pub(crate) fn copy_hsts(&self, copy: &Self, border: &dyn CBorder) {
        let is_off = self.with_state(|state| matches!(state.hsts.source, HstsSource::Off));
        let files = self.with_state(|state| state.hsts.files.clone());
        if !files.is_empty() {
            copy.with_state(|state| state.hsts.files = files);
        }
        if is_off {
            return;
        }
        let file = copy.with_state(|state| {
            state.hsts.enable();
            state.options.values.bytes(Id::HSTS).map(|file| file.to_vec())
        });
        if let Some(file) = file {
            copy.load_hsts_file(file);
        }
        let _ = copy.read_hsts(border); // the next transfer reports it
    }
}

/// `CURLHSTS_ENABLE`.
const HSTS_ENABLE: i64 = 1;
