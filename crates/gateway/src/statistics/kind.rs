//! The kind of object of a row, and the tags of values.

/// The kind of object that a row describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// A frontend.
    Frontend,
    /// A backend.
    Backend,
    /// A server.
    Server,
    /// A listener.
    Listener,
}

impl RowKind {
    /// The name in HAProxy's JSON; its first letter is the kind in the typed output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frontend => "Frontend",
            Self::Backend => "Backend",
            Self::Server => "Server",
            Self::Listener => "Listener",
        }
    }

    /// The value of the column `type`.
    pub fn number(self) -> u32 {
        match self {
            Self::Frontend => 0,
            Self::Backend => 1,
            Self::Server => 2,
            Self::Listener => 3,
        }
    }
}

/// Three letters: origin, nature and scope of a value (HAProxy's management guide, §9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags(pub [u8; 3]);

impl Tags {
    /// The letters.
    pub fn letters(&self) -> &str {
        std::str::from_utf8(&self.0).expect("letters of the tables are ASCII")
    }

    /// The origin.
    pub fn origin(self) -> &'static str {
        match self.0[0] {
            b'M' => "Metric",
            b'S' => "Status",
            b'K' => "Key",
            b'C' => "Config",
            _ => "Product",
        }
    }

    /// The nature.
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

    /// The scope.
    pub fn scope(self) -> &'static str {
        match self.0[2] {
            b'S' => "Service",
            _ => "Process",
        }
    }
}
