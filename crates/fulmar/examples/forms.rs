//! A form with files: fields stay in memory, files go to a directory as they arrive, under names
//! of our own.
//!
//! `cargo run --example forms 127.0.0.1:8080 /tmp`, then
//! `curl -F title=cat -F picture=@cat.jpg 127.0.0.1:8080/`
#![forbid(unsafe_code)]

use std::error::Error;
use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use fulmar::host::{Host, Listen};
use fulmar::proto::{Headers, Request, Response};
use fulmar::server::{Handler, HandlerResult, Responder};
use fulmar::web::form::{self, Content, Form, Options};
use fulmar::web::temporary::TemporaryDir;

/// Takes pictures.
struct Album {
    dir: PathBuf,
}

impl Handler for Album {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        if request.method != b"POST" {
            let added = [("Content-Type", &b"text/html; charset=utf-8"[..])];
            return responder
                .reply(Response { added: &added, ..Response::new(200, Headers::EMPTY) }, PAGE);
        }
        let Ok(place) = TemporaryDir::open(&self.dir) else {
            return responder.text(500, "there is no place for pictures\n");
        };
        let dir = self.dir.clone();
        let options = Options::with_files(place, PICTURE_SIZE_MAX);
        form::collect(responder, request, &options, move |responder, form| {
            hang(responder, &dir, form)
        })
    }
}

/// Keeps the picture. It has no name until then: an interrupted upload leaves no file.
fn hang(responder: &mut Responder<'_>, dir: &Path, mut form: Form) -> HandlerResult {
    let Some(picture) = form.take_file("picture") else {
        return responder.text(400, "there is no picture\n");
    };
    let title = form.text("title").unwrap_or("untitled").to_owned();
    let Content::Temporary(file) = picture.content else {
        return responder.text(400, "the picture is empty\n");
    };
    let (len, name) = (file.len(), format!("{}.picture", responder.id()));
    let name = CString::new(name).expect("digits and letters");
    let kept = std::fs::File::open(dir).and_then(|dir| file.keep_new(dir.as_fd(), &name));
    match kept {
        Ok(()) => responder.text(201, format!("{title}: {len} bytes\n")),
        Err(error) => responder.text(500, format!("the picture could not be kept: {error}\n")),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let dir = std::env::args_os().nth(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let running = Host::of(move |_| Ok(Album { dir: dir.clone() }))
        .listen(Listen::tcp(address.parse()?))
        .start()?;
    println!("listening on http://{}/", running.addresses()[0]);
    running.join()?;
    Ok(())
}

const PICTURE_SIZE_MAX: u64 = 10 << 20;
const PAGE: &str = "<!doctype html><title>Album</title>
<form method=post enctype=multipart/form-data>
<input name=title placeholder=Title> <input type=file name=picture> <button>Hang it</button>
</form>
";
