//! What a row of the statistics is about, and what a value of it means.

/// What a row tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A frontend.
    Frontend,
    /// A backend.
    Backend,
    /// A server.
    Server,
    /// A listener.
    Listener,
}

impl Kind {
    /// In words, as HAProxy's JSON has it; the first letter is what its typed output has.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frontend => "Frontend",
            Self::Backend => "Backend",
            Self::Server => "Server",
            Self::Listener => "Listener",
        }
    }

    /// As the column `type` has it.
    pub fn number(self) -> u32 {
        match self {
            Self::Frontend => 0,
            Self::Backend => 1,
            Self::Server => 2,
            Self::Listener => 3,
        }
    }
}

/// Three letters: where a value comes from, what it is, and for whom it holds (HAProxy's
/// management guide, §9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags(pub [u8; 3]);

impl Tags {
    /// The letters.
    pub fn letters(&self) -> &str {
        std::str::from_utf8(&self.0).expect("letters of the tables are ASCII")
    }

    /// Where it comes from.
    pub fn origin(self) -> &'static str {
        match self.0[0] {
            b'M' => "Metric",
            b'S' => "Status",
            b'K' => "Key",
            b'C' => "Config",
            _ => "Product",
        }
    }

    /// What it is.
    pub fn nature(self) -> &'static str {
        match self.0[1] {
            b'A' => "Age",
            b'a' => "Avg",
            b'C' => "Counter",
            b'D' => "Duration",
            b'G' => "Gauge",
            b'L' => "Limit",
            b'M' => "Max",
            b'N' => "Name",
            b'O' => "Output",
            _ => "Rate",
        }
    }

    /// For whom it holds.
    pub fn scope(self) -> &'static str {
        match self.0[2] {
            b'S' => "Service",
            _ => "Process",
        }
    }
}
