//! `curl_form*`, the older interface to forms, on lists that the application can read.

use std::ffi::{c_char, c_int, c_void};

use fulmar_curl::code::CurlCode;
use fulmar_curl::mime::{FormEscape, MimeRead};
use fulmar_curl::{
    CBorder, CPointer, FormAddCode, FormUpload, FormWord, FormaddSection, PostFlags, sections_of,
};

use crate::border::CFunctions;
use crate::form_list::{CurlHttpPost, posted};
use crate::handle::guard;
use crate::memory;

/// `curl_formget_callback`.
type AppendFunction = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> usize;

/// `curl_formadd`, with its arguments as an array.
///
/// # Safety
/// `first` and `last` are variables with a list of this function, or `NULL`; `words` has `count`
/// elements, whose values are of the kinds that their options demand.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fulmar_formadd(
    first: *mut *mut CurlHttpPost,
    last: *mut *mut CurlHttpPost,
    words: *const FormWord,
    count: usize,
) -> c_int {
    guard(FormAddCode::Memory as c_int, || {
        // SAFETY: by the contract.
        let words = unsafe { std::slice::from_raw_parts(words, count) };
        let array = |words: CPointer, at: usize| {
            // SAFETY: by the contract the array has elements up to an end.
            let word = unsafe { words.0.cast::<FormWord>().add(at) };
            // SAFETY: as above.
            unsafe { word.read() }
        };
        let (sections, code) =
            sections_of(words.iter().copied(), array, &|at, len| CFunctions.memory(at, len));
        // SAFETY: the addresses are those of the arguments.
        let Some(posts) = (unsafe { created(&sections) }) else {
            return FormAddCode::Memory as c_int;
        };
        let mut previous: *mut CurlHttpPost = std::ptr::null_mut();
        for post in posts {
            // SAFETY: by the contract.
            unsafe { CurlHttpPost::link(post, previous, first, last) };
            previous = post;
        }
        code as c_int
    })
}

/// Copies of all sections; `None` without memory.
///
/// # Safety
/// The addresses of the sections are what their flags say.
unsafe fn created(sections: &[FormaddSection]) -> Option<Vec<*mut CurlHttpPost>> {
    let mut posts = Vec::new();
    for section in sections {
        // SAFETY: by the contract.
        let post = unsafe { CurlHttpPost::create(section) };
        posts.push(post);
        // SAFETY: it was just created.
        if !unsafe { CurlHttpPost::is_whole(post, section) } {
            // SAFETY: they are not linked yet.
            posts.into_iter().for_each(|post| unsafe { curl_formfree(post) });
            return None;
        }
    }
    Some(posts)
}

/// Frees a list.
///
/// # Safety
/// `post` is `NULL` or a list of `curl_formadd` that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_formfree(post: *mut CurlHttpPost) {
    let mut next = post;
    while !next.is_null() {
        // SAFETY: by the contract it is alive.
        let post = unsafe { next.read() };
        // SAFETY: by the contract.
        unsafe { curl_formfree(post.more) };
        let flags = PostFlags(post.flags);
        let keeps = [PostFlags::PTRCONTENTS, PostFlags::BUFFER, PostFlags::CALLBACK];
        let keeps_contents = keeps.into_iter().any(|keep| flags.has(keep));
        let name = if flags.has(PostFlags::PTRNAME) { std::ptr::null_mut() } else { post.name };
        let contents = if keeps_contents { std::ptr::null_mut() } else { post.contents };
        for text in [name, contents, post.content_type, post.shown] {
            // SAFETY: it is a copy of ours, or NULL.
            unsafe { memory::free(text.cast()) };
        }
        // SAFETY: it is ours.
        unsafe { memory::free(next.cast()) };
        next = post.next;
    }
}

/// Passes the body of a form to a function, with the head of its outermost part.
///
/// # Safety
/// `post` is `NULL` or a list of `curl_formadd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curl_formget(
    post: *mut CurlHttpPost,
    user: *mut c_void,
    append: Option<AppendFunction>,
) -> c_int {
    guard(CurlCode::OutOfMemory.number(), || {
        let Some(append) = append else { return CurlCode::BadFunctionArgument.number() };
        // SAFETY: by the contract.
        let form = unsafe { posted(post, CPointer::NULL) };
        let is_empty = form.sections.is_empty();
        let mut upload = FormUpload::of_posted(form, None, FormEscape::Percent);
        let content_type = match is_empty {
            true => b"multipart/form-data",
            false => upload.content_type(),
        };
        let mut buffer = [0; FORMGET_SIZE];
        let head = [b"Content-Type: ", content_type, b"\r\n\r\n"].concat();
        buffer[..head.len()].copy_from_slice(&head);
        let mut filled = head.len();
        loop {
            let read = match is_empty {
                true => MimeRead::Data(0),
                false => upload.read(&CFunctions, &mut buffer[filled..]),
            };
            let len = match read {
                MimeRead::Data(len) => filled + len,
                _ if filled > 0 => filled,
                MimeRead::Abort => return CurlCode::AbortedByCallback.number(),
                MimeRead::Pause | MimeRead::Failed => return CurlCode::ReadError.number(),
            };
            filled = 0;
            if len == 0 {
                return 0;
            }
            // SAFETY: the bytes live during the call.
            if unsafe { append(user, buffer.as_ptr().cast(), len) } != len {
                return CurlCode::ReadError.number();
            }
        }
    })
}

/// What libcurl reads at once for `curl_formget`.
const FORMGET_SIZE: usize = 8192;
