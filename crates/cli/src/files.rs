//! File arguments. In every tool `-` is standard input or standard output.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fulmar_tls::Pem;

use crate::output::{ToolFailure, print_stdout};

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputFile {
    /// `-`
    Stdin,
    /// Anything else.
    Path(PathBuf),
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputFile {
    /// `-`
    Stdout,
    /// Anything else.
    Path(PathBuf),
}

impl InputFile {
    /// Reads the whole file.
    pub(crate) fn read(&self) -> Result<Vec<u8>, ToolFailure> {
        self.read_at_most(u64::MAX)
    }

    /// Reads at most `size_max` bytes.
    pub(crate) fn read_at_most(&self, size_max: u64) -> Result<Vec<u8>, ToolFailure> {
        self.try_read_at_most(size_max)
            .map_err(|error| ToolFailure::usage(self.name().display(), error))
    }

    /// The same as [`InputFile::read_at_most`], with an `io::Error`.
    pub(crate) fn try_read_at_most(&self, size_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Self::Stdin => io::stdin().lock().take(size_max).read_to_end(&mut bytes),
            Self::Path(path) => {
                fs::File::open(path).and_then(|file| file.take(size_max).read_to_end(&mut bytes))
            }
        }?;
        Ok(bytes)
    }

    /// A certificate or a key. Standard input is read now, a file when it is used.
    pub(crate) fn pem(&self) -> Result<Pem, ToolFailure> {
        match self {
            Self::Stdin => Ok(Pem::Bytes(self.read()?.into())),
            Self::Path(path) => Ok(Pem::File(path.clone())),
        }
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Self::Stdin => Path::new("standard input"),
            Self::Path(path) => path,
        }
    }
}

impl OutputFile {
    /// The name in messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Self::Stdout => Path::new("standard output"),
            Self::Path(path) => path,
        }
    }

    /// Replaces the contents.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), ToolFailure> {
        match self {
            Self::Stdout => print_stdout(&String::from_utf8_lossy(bytes)),
            Self::Path(path) => fs::File::create(path)
                .and_then(|mut file| file.write_all(bytes))
                .map_err(|error| ToolFailure::new(path.display(), error)),
        }
    }
}

impl From<OsString> for InputFile {
    fn from(text: OsString) -> Self {
        if text == "-" { Self::Stdin } else { Self::Path(text.into()) }
    }
}

impl From<OsString> for OutputFile {
    fn from(text: OsString) -> Self {
        if text == "-" { Self::Stdout } else { Self::Path(text.into()) }
    }
}

/// At most one of these arguments may be standard input.
pub(crate) fn check_inputs<'a>(
    files: impl IntoIterator<Item = (&'a str, Option<&'a InputFile>)>,
) -> Result<(), ToolFailure> {
    let files = files.into_iter().filter(|(_, file)| *file == Some(&InputFile::Stdin));
    only_one("standard input", files.map(|(name, _)| name))
}

/// At most one of these arguments may be standard output.
pub(crate) fn check_outputs<'a>(
    files: impl IntoIterator<Item = (&'a str, Option<&'a OutputFile>)>,
) -> Result<(), ToolFailure> {
    let files = files.into_iter().filter(|(_, file)| *file == Some(&OutputFile::Stdout));
    only_one("standard output", files.map(|(name, _)| name))
}

fn only_one<'a>(stream: &str, mut names: impl Iterator<Item = &'a str>) -> Result<(), ToolFailure> {
    match (names.next(), names.next()) {
        (Some(first), Some(second)) => Err(ToolFailure::Usage(format!(
            "{stream} (-) is used twice: {first} and {second}; use a file for one of them"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_used_once() {
        let (stdin, path) = (InputFile::Stdin, InputFile::Path("-/".into()));
        let of = |text: &str| InputFile::from(OsString::from(text));
        assert_eq!((of("-"), of("-/")), (stdin.clone(), path.clone()));
        let check = |first, second| check_inputs([("-a", first), ("-b", second), ("-c", None)]);
        assert!(check(Some(&stdin), Some(&path)).is_ok());
        assert!(check(Some(&path), Some(&path)).is_ok());
        let Err(ToolFailure::Usage(text)) = check(Some(&stdin), Some(&stdin)) else {
            panic!("twice")
        };
        assert!(text.starts_with("standard input (-) is used twice: -a and -b"), "{text}");
        let stdout = OutputFile::Stdout;
        let twice = [("-a", Some(&stdout)), ("-b", None), ("-c", Some(&stdout))];
        assert!(matches!(check_outputs(twice), Err(ToolFailure::Usage(_))));
    }
}
