//! `struct curl_httppost`: the lists of `curl_formadd`, which the application can read.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_long, c_void};
use std::rc::Rc;

use fulmar_curl::mime::{FormFile, FormPost, FormValue, SourceId};
use fulmar_curl::{
    CPointer, CallbackSource, FormSource, FormSources, FormaddSection, PostFlags, PostedForm,
};

use crate::memory;
use crate::slist::{self, CurlSlist};
use crate::strings::allocate;

/// `struct curl_httppost`: a section, and links to the next one and to further files.
#[derive(Debug)]
#[repr(C)]
pub struct CurlHttpPost {
    pub(crate) next: *mut Self,
    pub(crate) name: *mut c_char,
    name_len: c_long,
    pub(crate) contents: *mut c_char,
    contents_len: c_long,
    buffer: *mut c_char,
    buffer_len: c_long,
    pub(crate) content_type: *mut c_char,
    headers: *mut CurlSlist,
    pub(crate) more: *mut Self,
    pub(crate) flags: c_long,
    pub(crate) shown: *mut c_char,
    user: *mut c_void,
    contents_size: i64,
}

impl CurlHttpPost {
    /// A section with copies of what libcurl copies; `NULL` without memory.
    ///
    /// # Safety
    /// The addresses of the section are what its flags say.
    pub(crate) unsafe fn create(section: &FormaddSection) -> *mut Self {
        let flags = section.flags;
        let post = memory::allocate(size_of::<Self>()).cast::<Self>();
        if post.is_null() {
            return post;
        }
        let pointer = |pointer: CPointer| pointer.0.cast::<c_char>();
        let name = match flags.has(PostFlags::PTRNAME) {
            true => pointer(section.name),
            // SAFETY: by the contract.
            false => unsafe { copy(pointer(section.name), section.name_len) },
        };
        let keeps = [PostFlags::PTRCONTENTS, PostFlags::PTRBUFFER, PostFlags::CALLBACK];
        let is_path = flags.has(PostFlags::FILENAME) || flags.has(PostFlags::READFILE);
        let len = if is_path { 0 } else { usize::try_from(section.value_len).unwrap_or(0) };
        let contents = match keeps.into_iter().any(|keep| flags.has(keep)) {
            true if !is_path => pointer(section.value),
            // SAFETY: by the contract.
            _ => unsafe { copy(pointer(section.value), len) },
        };
        let name_len = match section.name_len {
            0 if !name.is_null() => {
                // SAFETY: without a length, it is a string.
                unsafe { CStr::from_ptr(name) }.count_bytes()
            }
            len => len,
        };
        let text = |text: &Option<Vec<u8>>| text.as_deref().map_or(std::ptr::null_mut(), allocate);
        let written = Self {
            next: std::ptr::null_mut(),
            name,
            name_len: c_long::try_from(name_len).unwrap_or(c_long::MAX),
            contents,
            contents_len: 0,
            buffer: pointer(section.buffer),
            buffer_len: c_long::try_from(section.buffer_len).unwrap_or(c_long::MAX),
            content_type: text(&section.content_type),
            headers: section.headers.0.cast(),
            more: std::ptr::null_mut(),
            flags: flags.0 | PostFlags::LARGE.0,
            shown: text(&section.shown),
            user: section.user.0,
            contents_size: section.value_len,
        };
        // SAFETY: it is ours and large enough.
        unsafe { post.write(written) };
        post
    }

    /// Whether there was memory for everything of a section.
    ///
    /// # Safety
    /// It is `NULL` or from [`CurlHttpPost::create`].
    pub(crate) unsafe fn is_whole(post: *const Self, section: &FormaddSection) -> bool {
        // SAFETY: by the contract.
        let Some(post) = (unsafe { post.as_ref() }) else { return false };
        let texts = [
            (post.name, section.name.is_null()),
            (post.contents, section.value.is_null()),
            (post.content_type, section.content_type.is_none()),
            (post.shown, section.shown.is_none()),
        ];
        texts.into_iter().all(|(text, lacks)| lacks || !text.is_null())
    }

    /// Appends a section to the list, or a further file to the section before it.
    ///
    /// # Safety
    /// `first` and `last` are variables with a list, or `NULL`.
    pub(crate) unsafe fn link(
        post: *mut Self,
        previous: *mut Self,
        first: *mut *mut Self,
        last: *mut *mut Self,
    ) {
        // SAFETY: it is ours.
        if let Some(previous) = unsafe { previous.as_mut() } {
            previous.more = post;
            return;
        }
        // SAFETY: by the contract.
        let end = unsafe { last.read() };
        // SAFETY: by the contract.
        match unsafe { end.as_mut() } {
            Some(end) => end.next = post,
            // SAFETY: by the contract.
            None => unsafe { first.write(post) },
        }
        // SAFETY: by the contract.
        unsafe { last.write(post) };
    }

    /// Bytes of a length; 0: a string.
    ///
    /// # Safety
    /// `text` is `NULL` or has so many bytes.
    unsafe fn bytes(text: *const c_char, len: i64) -> Vec<u8> {
        match usize::try_from(len) {
            _ if text.is_null() => Vec::new(),
            // SAFETY: by the contract.
            Ok(len) if len > 0 => unsafe { std::slice::from_raw_parts(text.cast(), len) }.to_vec(),
            // SAFETY: by the contract.
            _ => unsafe { CStr::from_ptr(text) }.to_bytes().to_vec(),
        }
    }
}

/// A copy of bytes; without a length, of a string. `NULL` stays `NULL`.
///
/// # Safety
/// `text` is `NULL` or has so many bytes.
unsafe fn copy(text: *const c_char, len: usize) -> *mut c_char {
    if text.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: by the contract.
    allocate(&unsafe { CurlHttpPost::bytes(text, i64::try_from(len).unwrap_or(0)) })
}

/// The sections of a list. `read`: the read callback of the handle, for streams.
///
/// # Safety
/// `post` is `NULL` or a list of `curl_formadd`.
pub(crate) unsafe fn posted(post: *const CurlHttpPost, read: CPointer) -> PostedForm {
    let mut form = PostedForm::default();
    // SAFETY: by the contract.
    let mut next = unsafe { post.as_ref() };
    while let Some(post) = next {
        // SAFETY: by the contract.
        let section = unsafe { section(post, read, &mut form.sources) };
        form.sections.push(section);
        // SAFETY: by the contract.
        next = unsafe { post.next.as_ref() };
    }
    form
}

/// # Safety
/// It is a section of `curl_formadd`.
unsafe fn section(post: &CurlHttpPost, read: CPointer, sources: &mut FormSources) -> FormPost {
    let flags = PostFlags(post.flags);
    let len = if flags.has(PostFlags::LARGE) { post.contents_size } else { post.contents_len };
    // SAFETY: by the contract.
    let shown = unsafe { text(post.shown) };
    let value = if flags.has(PostFlags::FILENAME) || flags.has(PostFlags::READFILE) {
        let mut files = Vec::new();
        let mut next = Some(post);
        while let Some(post) = next {
            // SAFETY: by the contract.
            files.push(unsafe { file(post, shown.clone(), sources) });
            // SAFETY: by the contract.
            next = unsafe { post.more.as_ref() };
        }
        match flags.has(PostFlags::READFILE) && files.len() == 1 {
            true => FormValue::FileContent(files.remove(0)),
            false => FormValue::Files(files),
        }
    } else if flags.has(PostFlags::BUFFER) {
        // SAFETY: by the contract.
        let data = unsafe { CurlHttpPost::bytes(post.buffer, post.buffer_len) };
        FormValue::Buffer(shown.unwrap_or_default(), data.into())
    } else if flags.has(PostFlags::CALLBACK) {
        let source = CallbackSource {
            read,
            seek: CPointer::NULL,
            free: CPointer::NULL,
            user: CPointer(post.user),
            has_read: Cell::new(false),
        };
        let source = sources.add(FormSource::Callback(Rc::new(source)));
        FormValue::Stream(source, u64::try_from(len).ok().filter(|len| *len > 0), shown)
    } else {
        // SAFETY: by the contract.
        FormValue::Contents(unsafe { CurlHttpPost::bytes(post.contents, len) }.into())
    };
    let is_file = matches!(value, FormValue::FileContent(_) | FormValue::Files(_));
    // SAFETY: by the contract.
    let headers = if is_file { Vec::new() } else { unsafe { slist::strings(post.headers) } };
    FormPost {
        // SAFETY: by the contract.
        name: unsafe { CurlHttpPost::bytes(post.name, post.name_len) },
        headers,
        // SAFETY: by the contract.
        content_type: if is_file { None } else { unsafe { text(post.content_type) } },
        value,
    }
}

/// # Safety
/// It is a file of a section.
unsafe fn file(post: &CurlHttpPost, shown: Option<Vec<u8>>, sources: &mut FormSources) -> FormFile {
    // SAFETY: by the contract.
    let path = unsafe { text(post.contents) }.unwrap_or_default();
    let (source, size) = match path == b"-" {
        true => (standard_input(sources), None),
        false => sources.add_file(&path),
    };
    FormFile {
        path,
        source,
        size,
        // SAFETY: by the contract.
        content_type: unsafe { text(post.content_type) },
        filename: shown,
        // SAFETY: by the contract.
        headers: unsafe { slist::strings(post.headers) },
    }
}

/// A file that is called `-`.
fn standard_input(sources: &mut FormSources) -> SourceId {
    let [read, seek, free, user] = [CPointer::NULL; 4];
    let source = CallbackSource { read, seek, free, user, has_read: Cell::new(false) };
    sources.add(FormSource::Callback(Rc::new(source)))
}

/// # Safety
/// `text` is `NULL` or a string.
unsafe fn text(text: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: by the contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes().to_vec())
}
