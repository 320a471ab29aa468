//! Easy handles: options, the transfer that they describe, and what is known after it.

use std::cell::{OnceCell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;

use fulmar_drive::SocketId;

use crate::auth_state::AuthState;
use crate::border::CBorder;
use crate::code::CurlCode;
use crate::easy_options::{Argument, EasyOptions};
use crate::forms::{FormNode, FormTree};
use crate::handles::{Easy, EasyState, Membership, Multi};
use crate::header_list::HeaderList;
use crate::info::{self, InfoId, InfoValue};
use crate::option::OptionId;
use crate::values::{CPointer, OptionValue};

impl Easy {
    /// A handle with the default options (curl_easy_init(3)). `handle`: its address in C.
    pub fn new(handle: CPointer) -> Rc<Self> {
        Self::with(handle, EasyState::default())
    }

    fn with(handle: CPointer, state: EasyState) -> Rc<Self> {
        Rc::new(Self {
            handle,
            state: RefCell::new(state),
            multi: RefCell::default(),
            form: OnceCell::new(),
            private: RefCell::default(),
            membership: Membership::default(),
        })
    }

    /// A handle with the same options (curl_easy_duphandle(3)).
    /// Parts of a form are copied.
    pub fn duplicate(&self, handle: CPointer, border: &dyn CBorder) -> Option<Rc<Self>> {
        let (options, cookies, alt) = self.with_state(|state| {
            (state.options.clone(), state.copied_cookies(), state.copied_alt().map(Box::new))
        });
        let copy = Self::with(handle, EasyState { options, cookies, alt, ..EasyState::default() });
        self.copy_hsts(&copy, border);
        if let Some(form) = self.form.get() {
            form.copy_to(copy.form(), border)?;
        }
        Some(copy)
    }

    /// Forgets the parts of `CURLOPT_MIMEPOST`, and frees those that were copied.
    pub fn release_form(&self, border: &dyn CBorder) {
        if let Some(form) = self.form.get() {
            form.release(border);
        }
    }

    /// The part whose parts are those of `CURLOPT_MIMEPOST`.
    pub(crate) fn form(&self) -> &Rc<FormNode> {
        self.form.get_or_init(FormNode::root)
    }

    /// Sets `CURLOPT_MIMEPOST`; the application frees the parts.
    ///
    /// # Errors
    /// They belong to another part or handle.
    pub fn set_form(
        &self,
        parts: Option<&Rc<FormTree>>,
        border: &dyn CBorder,
    ) -> Result<(), CurlCode> {
        if parts.is_some() || self.form.get().is_some() {
            self.form().borrow_parts(parts, border)?;
        }
        self.set(OptionId::MIMEPOST, Argument::Pointer(CPointer::NULL), border)
    }

    /// Calls `act` with the header lines of the last transfer.
    pub fn with_headers<T>(&self, act: impl FnOnce(&mut HeaderList) -> T) -> T {
        act(&mut self.state.borrow_mut().headers)
    }

    /// Returns all options to their defaults, and forgets the last transfer (curl_easy_reset(3)).
    /// Connections are kept.
    pub fn reset(&self, border: &dyn CBorder) {
        self.release_form(border);
        let mut state = self.state.borrow_mut();
        state.options = EasyOptions::default();
        state.auth = AuthState::default();
        (state.request, state.info) = Default::default();
        if let Some(cookies) = state.cookies.changed() {
            cookies.files.clear();
        }
        if let Some(hsts) = state.hsts.changed() {
            hsts.files.clear();
        }
    }

    /// Releases what the handle uses together with others, before its end
    /// (curl_easy_cleanup(3)).
    pub fn close(self: &Rc<Self>, border: &dyn CBorder) {
        if let Some(multi) = self.multi()
            && multi.remove(self, border).is_err()
        {
            multi.close_later(self); // within a callback
        }
        self.close_connections(border);
        self.save_cookies(border);
        self.save_alt();
        self.save_hsts(border);
        self.leave_share(border);
    }

    /// Sets an option (curl_easy_setopt(3)).
    ///
    /// # Errors
    /// As [`EasyOptions::set`].
    pub fn set(
        &self,
        id: OptionId,
        argument: Argument<'_>,
        border: &dyn CBorder,
    ) -> Result<(), CurlCode> {
        if let Argument::Bytes(text) = argument
            && self.set_cookies(id, text, border)?
        {
            return Ok(());
        }
        self.with_state(|state| {
            if id == OptionId::COOKIEJAR {
                state.cookies.enable(); // with NULL, too
            }
            state.options.set(id, argument)?;
            match (id, argument) {
                (OptionId::HSTS, Argument::Bytes(file)) => state.set_hsts_file(file),
                (OptionId::HSTS_CTRL, Argument::Number(bits)) => state.set_hsts_control(bits),
                (OptionId::ALTSVC, Argument::Bytes(file)) => state.set_alt_file(file),
                (OptionId::ALTSVC_CTRL, Argument::Number(bits)) => state.set_alt_control(bits),
                _ => {}
            }
            Ok(())
        })
    }

    /// Sets the arguments of `CURLOPT_WRITEDATA` and `CURLOPT_READDATA`.
    pub fn set_files(&self, output: CPointer, input: CPointer) {
        self.with_state(|state| {
            for (id, file) in [(OptionId::WRITEDATA, output), (OptionId::READDATA, input)] {
                state.options.values.set(id, OptionValue::Pointer(file));
            }
        });
    }

    /// The handle in C.
    pub fn handle(&self) -> CPointer {
        self.handle
    }

    /// `CURLOPT_POSTFIELDSIZE`, if it was set.
    pub fn announced_size(&self) -> Option<usize> {
        let size = self.state.borrow().options.values.number(OptionId::POSTFIELDSIZE_LARGE);
        usize::try_from(size).ok()
    }

    /// Information about the last transfer (curl_easy_getinfo(3)).
    ///
    /// # Errors
    /// There is none of this number.
    pub fn info(&self, id: InfoId, border: &dyn CBorder) -> Result<InfoValue, CurlCode> {
        if id == InfoId::COOKIELIST {
            return Ok(InfoValue::List(self.cookie_list(border)));
        }
        let state = self.state.borrow();
        let value = info::value(&state.request, &state.info, &state.options.values, id)?;
        Ok(match (id, value) {
            (InfoId::LAST_SOCKET, _) => InfoValue::Long(self.descriptor(state.info.socket).into()),
            (InfoId::ACTIVE_SOCKET, _) => InfoValue::Socket(self.descriptor(state.info.socket)),
            (_, value) => value,
        })
    }

    /// The descriptor of a connection, if it is open; -1 otherwise.
    fn descriptor(&self, socket: Option<SocketId>) -> RawFd {
        let private = self.private.borrow().clone();
        let multi = self.multi().or(private);
        let open = multi.zip(socket).and_then(|(multi, socket)| multi.descriptor_of(socket));
        open.unwrap_or(-1)
    }

    /// True while it is in a multi handle.
    pub fn is_added(&self) -> bool {
        self.multi.borrow().strong_count() > 0
    }

    /// The multi handle that it was added to.
    pub fn multi(&self) -> Option<Rc<Multi>> {
        self.multi.borrow().upgrade()
    }

    /// The multi handle of `curl_easy_perform`; `make` if there is none.
    pub(crate) fn private(&self, make: impl FnOnce() -> Rc<Multi>) -> Rc<Multi> {
        Rc::clone(self.private.borrow_mut().get_or_insert_with(make))
    }

    /// True if `CURLOPT_URL` or `CURLOPT_CURLU` is set.
    pub(crate) fn has_url(&self) -> bool {
        let values = &self.state.borrow().options.values;
        values.bytes(OptionId::URL).is_some() || !values.pointer(OptionId::CURLU).is_null()
    }

    /// Calls `act` with the state.
    pub(crate) fn with_state<T>(&self, act: impl FnOnce(&mut EasyState) -> T) -> T {
        act(&mut self.state.borrow_mut())
    }

    /// The address of an option, for a callback.
    pub(crate) fn pointer(&self, id: OptionId) -> CPointer {
        self.state.borrow().options.values.pointer(id)
    }
}
