//! Messages on standard error in HAProxy's format.

use fulmar_gateway::MessageLevel;
use fulmar_haproxy::Diagnostic;

/// Prints messages unless `-q` is given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Messages {
    pub(super) quiet: bool,
}

impl Messages {
    pub(super) fn alert(self, text: &str) {
        self.print(MessageLevel::Alert, text);
    }

    pub(super) fn warning(self, text: &str) {
        self.print(MessageLevel::Warning, text);
    }

    pub(super) fn print(self, severity: MessageLevel, text: &str) {
        if !self.quiet {
            print(severity, text);
        }
    }

    pub(super) fn report(self, diagnostics: &[Diagnostic]) {
        if !self.quiet {
            let process = std::process::id();
            diagnostics.iter().for_each(|found| line(&found.report(process)));
        }
    }
}

/// Prints one message.
pub(super) fn print(severity: MessageLevel, text: &str) {
    let label = match severity {
        MessageLevel::Notice => "[NOTICE]",
        MessageLevel::Warning => "[WARNING]",
        MessageLevel::Alert => "[ALERT]",
    };
    line(&format!("{label:<10} ({}) : {text}", std::process::id()));
}

/// Prints a line. Errors are ignored.
fn line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}

pub(super) fn version(long: bool) -> String {
    let short = format!("fulmar proxy version {}\n", env!("CARGO_PKG_VERSION"));
    if !long {
        return short;
    }
    format!(
        "{short}Supports configurations of HAProxy {HAPROXY_VERSION}.\n\
         TLS: rustls, TLS 1.2 and 1.3.\n"
    )
}

/// The supported version of HAProxy's configuration language.
const HAPROXY_VERSION: &str = "2.6";
