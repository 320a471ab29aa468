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
        sources: &[("hiper.c", include_str!("../../peers/hiper.c")), MULTI, COUNTED],
        links_to: "curl",
        package: "libcurl4-openssl-dev",
    };

    /// libcurl with transfers that begin again when they are done.
    pub(crate) const LIBCURL: Self = Self {
        name: "libcurl",
        sources: &[("libcurl.c", include_str!("../../peers/libcurl.c")), MULTI, COUNTED],
        ..Self::HIPER
    };

    /// A program with libmicrohttpd inside.
    pub(crate) const LIBMICROHTTPD: Self = Self {
        name: "libmicrohttpd",
        sources: &[("libmicrohttpd.c", include_str!("../../peers/libmicrohttpd.c"))],
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
            Err(Error::Process { why, .. }) => Ok(Err(self.missing(&why))),
            Err(error) => Err(error),
        }
    }

    /// What is to be done about what the compiler says, for people.
    fn missing(&self, said: &str) -> String {
        let (library, package) = (self.links_to, self.package);
        let header = [".h: No such file", "cannot find -l"];
        if header.iter().any(|sign| said.contains(sign)) {
            return format!(
                "lib{library}: it is not installed, or its headers are not: install {package}"
            );
        }
        let error = said.lines().find(|line| line.contains("rror")).unwrap_or(said);
        format!("lib{library}: it does not compile here: {}", error.trim())
    }
}

/// The loop that programs around libcurl have in common.
const MULTI: (&str, &str) = ("multi.h", include_str!("../../peers/multi.h"));
/// What stands before functions of the C library.
const COUNTED: (&str, &str) = ("counted.h", include_str!("../../peers/counted.h"));

#[cfg(test)]
mod tests {
    use super::Peer;

    #[test]
    fn what_a_compiler_says_is_told_unless_the_library_is_not_there() {
        let missing = |said| Peer::HIPER.missing(said);
        let install =
            "libcurl: it is not installed, or its headers are not: install libcurl4-openssl-dev";
        let said =
            "exit status: 1: multi.h:6:10: fatal error: curl/curl.h: No such file or directory\n";
        assert_eq!(missing(said), install);
        assert_eq!(
            missing("exit status: 1: /usr/bin/ld: cannot find -lcurl: No such file"),
            install
        );
        let full = "exit status: 1: as: x.o: No space left on device\ncc: fatal error: closing x.o";
        let told = "libcurl: it does not compile here: cc: fatal error: closing x.o";
        assert_eq!(missing(full), told);
        assert_eq!(missing("signal: 9"), "libcurl: it does not compile here: signal: 9");
    }
}
