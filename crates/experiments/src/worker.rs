//! fulmar's side of an experiment, as a process of its own.
//!
//! Each takes the words of a command line, does its work, and answers with one JSON object, as the
//! peers do.

mod among;
mod near;

use std::error::Error;

/// Does what `words` say: the name of a worker, and its options.
///
/// # Errors
/// The words are wrong, or the work could not be done.
pub fn run(words: &[String]) -> Result<String, Box<dyn Error>> {
    let (name, words) = words.split_first().ok_or("a worker's name is missing")?;
    let value = match name.as_str() {
        "among" => among::run(&among::Options::parse(words)?)?,
        other => return Err(format!("no worker is called {other}").into()),
    };
    Ok(value.to_string())
}
