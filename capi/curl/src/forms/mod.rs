//! Forms as the application builds them: `curl_mime_*` and `curl_formadd`.
//!
//! Both stay open for changes until a request begins. Then a [`FormUpload`] is made of them, which
//! reads files and callbacks while it is sent.

mod formadd;
mod reader;
mod tree;
mod upload;

pub use formadd::{FormAddCode, FormWord, FormaddSection, PostFlags, sections_of};
pub use tree::{FormNode, FormTree};
pub use upload::FormUpload;
