//! Peers that are libraries: small programs around them, made by the machine's C compiler.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{Lab, PATIENCE, find};
use crate::Error;

/// A program around a library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Of the program.
    pub(crate) name: &'static str,
    /// The file to compile, and those that it includes.
    pub(crate) sources: &'static [(&'static str, &'static str)],
    /// Linked with.
    pub(crate) links_to: &'static str,
    /// What brings the library's headers, on Debian.
    pub(crate) package: &'static str,
}

impl Peer {
    /// libcurl among many transfers.
    pub(crate) const HIPER: Self = Self {
        name: "hiper",
        sources: &[("hiper.c", include_str!("../../../../bench/peers/hiper.c")), MULTI, COUNTED],
        links_to: "curl",
        package: "libcurl4-openssl-dev",
    };

    /// libcurl with transfers that begin again when they are done.
    pub(crate) const LIBCURL: Self = Self {
        name: "libcurl",
        sources: &[
            ("libcurl.c", include_str!("../../../../bench/peers/libcurl.c")),
            MULTI,
            COUNTED,
        ],
        ..Self::HIPER
    };

    /// A program with libmicrohttpd inside.
    pub(crate) const LIBMICROHTTPD: Self = Self {
        name: "libmicrohttpd",
        sources: &[("libmicrohttpd.c", include_str!("../../../../bench/peers/libmicrohttpd.c"))],
        links_to: "microhttpd",
        package: "libmicrohttpd-dev",
    };

    /// The program, made once for a run; or what is missing, for people.
    pub(crate) fn program(&self, lab: &Lab) -> Result<Result<PathBuf, String>, Error> {
        let program = lab.path().join(self.name);
        if program.is_file() {
            return Ok(Ok(program));
        }
        let Some(compiler) = find("cc") else {
            return Ok(Err(format!("lib{}: no compiler: install gcc", self.links_to)));
        };
        for (name, text) in self.sources {
            let path = lab.path().join(name);
            fs::write(&path, text).map_err(Error::io(path.display().to_string()))?;
        }
        let mut command = Command::new(compiler);
        command.args(["-O2", "-std=c11", "-o"]).arg(&program);
        command.arg(lab.path().join(self.sources[0].0)).arg(format!("-l{}", self.links_to));
        match lab.client(command)?.output(PATIENCE) {
            Ok(_) => Ok(Ok(program)),
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(_) => Ok(Err(format!(
                "lib{}: it is not installed, or its headers are not: install {}",
                self.links_to, self.package
            ))),
        }
    }
}

/// The loop that programs around libcurl have in common.
const MULTI: (&str, &str) = ("multi.h", include_str!("../../../../bench/peers/multi.h"));
/// What stands before functions of the C library.
const COUNTED: (&str, &str) = ("counted.h", include_str!("../../../../bench/peers/counted.h"));
