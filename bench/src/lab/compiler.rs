//! Peers that are libraries: small C programs around them, compiled by the machine's `cc`.

use std::fs;
use std::path::PathBuf;

use super::{END_TIMEOUT, Lab};
use crate::BenchError;

/// A C program of `bench/peers`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CPeer {
    name: &'static str,
    /// The file to compile, and its own headers.
    sources: &'static [(&'static str, &'static str)],
    /// The libraries that it is linked with.
    linked: &'static [&'static str],
    /// Options of the compiler.
    options: &'static [&'static str],
    /// The Debian package with the library's headers.
    package: &'static str,
}

impl CPeer {
    /// libcurl with one active transfer among many.
    pub(crate) const HIPER: Self = Self {
        name: "hiper",
        sources: &[("hiper.c", include_str!("../../peers/hiper.c")), MULTI, COUNTED],
        linked: &["curl"],
        options: &[],
        package: "libcurl4-openssl-dev",
    };

    /// The same in the loop of libevent.
    pub(crate) const HIPER_LIBEVENT: Self = Self { name: "hiper-libevent", ..WITH_LIBEVENT };

    /// libcurl with transfers that restart when they are done.
    pub(crate) const LIBCURL: Self = Self {
        name: "libcurl",
        sources: &[("libcurl.c", include_str!("../../peers/libcurl.c")), MULTI, COUNTED],
        ..Self::HIPER
    };

    /// The same in the loop of libevent.
    pub(crate) const LIBCURL_LIBEVENT: Self =
        Self { name: "libcurl-libevent", sources: Self::LIBCURL.sources, ..WITH_LIBEVENT };

    /// A program with an embedded libmicrohttpd.
    pub(crate) const LIBMICROHTTPD: Self = Self {
        name: "libmicrohttpd",
        sources: &[("libmicrohttpd.c", include_str!("../../peers/libmicrohttpd.c"))],
        linked: &["microhttpd"],
        options: &[],
        package: "libmicrohttpd-dev",
    };

    /// The server of the clients: each response in one call.
    pub(crate) const SERVER: Self = Self {
        name: "server",
        sources: &[("server.c", include_str!("../../peers/server.c"))],
        linked: &[],
        options: &[],
        package: "libc6-dev",
    };

    /// The program, compiled once in a run.
    pub(crate) fn program(&self, lab: &Lab) -> Result<PathBuf, BenchError> {
        let program = lab.path().join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        for (name, text) in self.sources {
            let path = lab.path().join(name);
            fs::write(&path, text).map_err(BenchError::io(path.display().to_string()))?;
        }
        let mut command = lab.installed("cc").map_err(|_| {
            BenchError::Missing(format!("{}: no C compiler: install gcc", self.title()))
        })?;
        command.args(["-O2", "-std=c11"]).args(self.options).arg("-o").arg(&program);
        command.arg(lab.path().join(self.sources[0].0));
        command.args(self.linked.iter().map(|library| format!("-l{library}")));
        match lab.client(command)?.output(END_TIMEOUT) {
            Ok(_) => Ok(program),
            Err(BenchError::Process { why, .. }) => Err(BenchError::Missing(self.reason(&why))),
            Err(error) => Err(error),
        }
    }

    /// The libraries, or the program without one.
    fn title(&self) -> String {
        let libraries: Vec<_> = self.linked.iter().map(|library| format!("lib{library}")).collect();
        if libraries.is_empty() { self.name.to_owned() } else { libraries.join(" and ") }
    }

    /// Why it does not compile, from the compiler's output.
    fn reason(&self, output: &str) -> String {
        let (name, package) = (self.title(), self.package);
        let missing = [".h: No such file", "cannot find -l"];
        if missing.iter().any(|sign| output.contains(sign)) {
            return format!("{name}: a library or its headers are missing: install {package}");
        }
        let error = output.lines().find(|line| line.contains("rror")).unwrap_or(output);
        format!("{name}: does not compile: {}", error.trim())
    }
}

/// Programs around libcurl in the loop of libevent.
const WITH_LIBEVENT: CPeer = CPeer {
    linked: &["curl", "event_core"],
    options: &["-DWITH_LIBEVENT"],
    package: "libcurl4-openssl-dev and libevent-dev",
    ..CPeer::HIPER
};

/// The event loop of the programs around libcurl.
const MULTI: (&str, &str) = ("multi.h", include_str!("../../peers/multi.h"));
/// Wrappers that count calls of the C library.
const COUNTED: (&str, &str) = ("counted.h", include_str!("../../peers/counted.h"));

#[cfg(test)]
mod tests {
    use super::CPeer;

    #[test]
    fn compiler_errors_are_reported_unless_the_library_is_missing() {
        let reason = |output| CPeer::LIBCURL.reason(output);
        let install = "libcurl: a library or its headers are missing: install libcurl4-openssl-dev";
        let header = "exit status: 1: multi.h:6:10: fatal error: curl/curl.h: No such file\n";
        assert_eq!(reason(header), install);
        assert_eq!(reason("exit status: 1: /usr/bin/ld: cannot find -lcurl"), install);
        let full = "exit status: 1: as: x.o: No space left on device\ncc: fatal error: closing x.o";
        assert_eq!(reason(full), "libcurl: does not compile: cc: fatal error: closing x.o");
        assert_eq!(reason("signal: 9"), "libcurl: does not compile: signal: 9");
    }
}
