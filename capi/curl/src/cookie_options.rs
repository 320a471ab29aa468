//! The cookie engine of an easy handle: its options, its files, its list.

use std::sync::PoisonError;

use fulmar_sys as sys;

use crate::border::CBorder;
use crate::cache_file::{read_cache, write_cache};
use crate::code::CurlCode;
use crate::cookie_store::{CookieSource, EasyCookies};
use crate::cookies::{CookieCommand, CookieEngine};
use crate::easy_options::TEXT_SIZE_MAX;
use crate::handles::{Easy, EasyState};
use crate::option::OptionId as Id;
use crate::rare::Rare;
use crate::share_kind::SharedKind;
use crate::stamp::unix_time;
use crate::values::CPointer;

impl Easy {
    /// Sets an option of the cookie engine (CURLOPT_COOKIEFILE(3), CURLOPT_COOKIEJAR(3),
    /// CURLOPT_COOKIELIST(3)). False if it is another option.
    ///
    /// # Errors
    /// The text is too long.
    pub(crate) fn set_cookies(
        &self,
        id: Id,
        text: Option<&[u8]>,
        border: &dyn CBorder,
    ) -> Result<bool, CurlCode> {
        let is_own = matches!(id, Id::COOKIEFILE | Id::COOKIELIST);
        if is_own && text.is_some_and(|text| text.len() > TEXT_SIZE_MAX) {
            let is_command = id == Id::COOKIELIST;
            if is_command && self.with_state(|state| state.cookies.is_off()) {
                self.with_state(|state| state.cookies.enable());
            }
            return Err(CurlCode::BadFunctionArgument);
        }
        match (id, text) {
            (Id::COOKIEFILE, Some(file)) => {
                self.with_state(|state| state.cookies.files.push(file.to_vec()));
            }
            (Id::COOKIEFILE, None) => self.with_state(|state| {
                state.cookies.files.clear();
                state.cookies.source = CookieSource::Off;
            }),
            (Id::COOKIELIST, Some(line)) => self.set_cookie_list(line, border),
            (Id::COOKIELIST, None) => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_cookie_list(&self, line: &[u8], border: &dyn CBorder) {
        match CookieCommand::parse(line) {
            Some(CookieCommand::Flush) => self.save_cookies(border),
            Some(CookieCommand::Reload) => self.load_cookies(border),
            Some(command) => self.locked_cookies(border, |engine| engine.execute(command)),
            None => {
                self.with_state(|state| {
                    if state.cookies.is_off() {
                        state.cookies.enable();
                    }
                });
                let now = unix_time(sys::wall_clock());
                self.lock(SharedKind::Cookie, border);
                let message = self.with_cookies(|engine| {
                    let added = engine.add_line(line, now);
                    engine.message(added)
                });
                if let Some(Some(message)) = message {
                    self.note(&message, border);
                }
                self.unlock(SharedKind::Cookie, border);
            }
        }
    }

    /// Loads the files of `CURLOPT_COOKIEFILE`. They stay in the list.
    pub(crate) fn load_cookies(&self, border: &dyn CBorder) {
        let (files, skips_session_cookies) = self.with_state(|state| {
            let skips = state.options.values.is_on(Id::COOKIESESSION);
            (state.cookies.files.clone(), skips)
        });
        if files.is_empty() {
            return;
        }
        self.lock(SharedKind::Cookie, border);
        for file in files {
            self.with_state(|state| state.cookies.enable());
            let text = if file.is_empty() { Vec::new() } else { self.cookie_text(&file, border) };
            let now = unix_time(sys::wall_clock());
            self.with_cookies(|engine| {
                engine.set_skips_session_cookies(skips_session_cookies);
                engine.load(&text, now);
            });
        }
        self.unlock(SharedKind::Cookie, border);
    }

    fn cookie_text(&self, file: &[u8], border: &dyn CBorder) -> Vec<u8> {
        read_cache(file).unwrap_or_else(|_| {
            let name = String::from_utf8_lossy(file);
            self.note(&format!("WARNING: failed to open cookie file \"{name}\""), border);
            Vec::new()
        })
    }

    /// Writes `CURLOPT_COOKIEJAR`, after loading all files.
    pub(crate) fn save_cookies(&self, border: &dyn CBorder) {
        let jar = self.with_state(|state| state.options.values.bytes(Id::COOKIEJAR).cloned());
        if jar.is_some() {
            self.load_cookies(border);
        }
        self.lock(SharedKind::Cookie, border);
        if let Some(jar) = jar
            && let Some(text) = self.with_cookies(|engine| engine.jar(unix_time(sys::wall_clock())))
        {
            if jar[..] == *b"-" {
                border.write(CPointer::NULL, CPointer::NULL, &text);
            } else if write_cache(&jar, &text).is_err() {
                let name = String::from_utf8_lossy(&jar);
                let reason = CurlCode::WriteError.text();
                let text = format!("WARNING: failed to save cookies in {name}: {reason}");
                self.note(&text, border);
            }
        }
        self.unlock(SharedKind::Cookie, border);
    }

    /// The lines of `CURLINFO_COOKIELIST`.
    pub(crate) fn cookie_list(&self, border: &dyn CBorder) -> Vec<Vec<u8>> {
        self.lock(SharedKind::Cookie, border);
        let lines = self.with_cookies(|engine| engine.list()).unwrap_or_default();
        self.unlock(SharedKind::Cookie, border);
        lines
    }

    fn locked_cookies(&self, border: &dyn CBorder, act: impl FnOnce(&mut CookieEngine)) {
        self.lock(SharedKind::Cookie, border);
        self.with_cookies(act);
        self.unlock(SharedKind::Cookie, border);
    }

    /// Calls `act` with the cookies of the handle or of its share. `None` if there are none.
    pub(crate) fn with_cookies<T>(&self, act: impl FnOnce(&mut CookieEngine) -> T) -> Option<T> {
        let state = &mut *self.state.borrow_mut();
        match &mut state.cookies.source {
            CookieSource::Off => None,
            CookieSource::Own(engine) => Some(act(engine)),
            CookieSource::Shared => {
                let share = state.share.as_ref()?;
                let mut engine = share.cookies.lock().unwrap_or_else(PoisonError::into_inner);
                engine.as_mut().map(act)
            }
        }
    }
}

impl EasyState {
    /// The cookies of a copy of the handle: an engine without cookies, if there is one. Until a
    /// file is loaded or a jar is set, it sends and stores none.
    pub(crate) fn copied_cookies(&mut self) -> Rare<EasyCookies> {
        if self.cookies.changed().is_none() {
            return Rare::default();
        }
        let mut copy = EasyCookies { files: self.cookies.files.clone(), ..EasyCookies::default() };
        if !self.cookies.is_off() {
            copy.source = CookieSource::Own(Box::new(CookieEngine::new()));
            self.cookies.is_enabled = true; // that of the original, as in libcurl
        }
        Rare::of(copy)
    }
}

impl EasyCookies {
    /// Makes an engine if there is none, and enables it.
    pub(crate) fn enable(&mut self) {
        if self.is_off() {
            self.source = CookieSource::Own(Box::new(CookieEngine::new()));
        }
        self.is_enabled = true;
    }

    /// True if requests send cookies, and responses set them.
    pub(crate) fn is_active(&self) -> bool {
        self.is_enabled && !self.is_off()
    }

    /// True if requests need not look at them: there is no file, either.
    pub(crate) fn is_unused(&self) -> bool {
        self.files.is_empty() && !self.is_active()
    }

    fn is_off(&self) -> bool {
        matches!(self.source, CookieSource::Off)
    }
}
