//! What does the system calls of our own loop, and how it waits: for those who choose.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use fulmar_engine::Engine;
use fulmar_sys::{RING_LEN_MAX, Ring};

use crate::epoll::Epoll;
use crate::executor::Executor;
use crate::reactor::Reactor;
use crate::spin::Spin;

/// What does the system calls of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// A ring where there is one, direct calls elsewhere.
    #[default]
    Auto,
    /// Direct calls: one for each operation.
    Epoll,
    /// A ring (`io_uring(7)`): one call for each list of operations.
    Ring {
        /// Shorter lists are done by direct calls.
        len_min: usize,
    },
}

impl Driver {
    /// A ring for the lists that are long enough to pay for it.
    pub const RING: Self = Self::Ring { len_min: LEN_MIN };
}

/// How a loop of our own works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopOptions {
    /// What does its system calls.
    pub driver: Driver,
    /// Whether it polls for a while before it sleeps.
    pub spin: Spin,
}

/// What a loop runs on, as reports tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// `epoll`, or `ring`; `ring:N` if lists have to be longer or shorter than usual. As [`Driver`]
    /// is written.
    pub driver: String,
    /// Whether it polls before it sleeps.
    pub spin: Spin,
    /// Why there is no ring, or none any more, although one was wanted.
    pub ring_error: Option<String>,
}

impl fmt::Display for DriverInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spin {
            Spin::Off => f.write_str(&self.driver),
            spin => write!(f, "{} (spin {spin})", self.driver),
        }
    }
}

impl LoopOptions {
    /// As the environment wants it: `FULMAR_DRIVER` and `FULMAR_SPIN`; what it says nothing about
    /// is as usual.
    ///
    /// # Errors
    /// What it says is no driver, or no time to spin.
    pub fn from_environment() -> Result<Self, String> {
        Self::chosen(None, None)
    }

    /// What was asked for, and otherwise as the environment wants it: what nobody needs is not
    /// looked at.
    ///
    /// # Errors
    /// As [`LoopOptions::from_environment`].
    pub fn chosen(driver: Option<Driver>, spin: Option<Spin>) -> Result<Self, String> {
        let driver = driver.map_or_else(|| variable("FULMAR_DRIVER"), Ok)?;
        let spin = spin.map_or_else(|| variable("FULMAR_SPIN"), Ok)?;
        Ok(Self { driver, spin })
    }
}

/// Without a value it says nothing, as if it were not there.
fn variable<T: FromStr<Err = String> + Default>(name: &str) -> Result<T, String> {
    match std::env::var_os(name).filter(|text| !text.is_empty()) {
        None => Ok(T::default()),
        Some(text) => text.to_string_lossy().parse().map_err(|error| format!("{name}: {error}")),
    }
}

impl<E: Engine> Reactor<E, Epoll> {
    /// A loop over epoll. If it does without a ring that [`Driver::Auto`] would have had,
    /// [`Reactor::driver_info`] tells why.
    ///
    /// # Errors
    /// Descriptors or memory are used up, or a ring was asked for and cannot be had: the error
    /// says so.
    pub fn with_options(engine: E, options: LoopOptions) -> io::Result<Self> {
        let mut selector = Epoll::new()?;
        selector.set_spin(options.spin);
        let mut reactor = Self::new(engine, selector);
        let len_min = match options.driver {
            Driver::Epoll => return Ok(reactor),
            Driver::Auto => LEN_MIN,
            Driver::Ring { len_min } => len_min,
        };
        match Ring::new() {
            Ok(ring) => reactor.set_ring(ring, len_min),
            Err(error) if options.driver == Driver::Auto => {
                reactor.executor = Executor::Direct(Some(error));
            }
            Err(error) => {
                let text = format!("no io_uring (driver `ring`): {error}");
                return Err(io::Error::new(error.kind(), text));
            }
        }
        Ok(reactor)
    }

    /// What it runs on.
    pub fn driver_info(&self) -> DriverInfo {
        let (driver, ring_error) = match &self.executor {
            Executor::Direct(error) => (Driver::Epoll, error.as_ref().map(io::Error::to_string)),
            Executor::Ring(_, len_min) => (Driver::Ring { len_min: *len_min }, None),
        };
        DriverInfo { driver: driver.to_string(), spin: self.selector.spin(), ring_error }
    }
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "epoll" => Ok(Self::Epoll),
            "ring" => Ok(Self::RING),
            _ => match text.strip_prefix("ring:").map(str::parse) {
                Some(Ok(len_min @ 1..=RING_LEN_MAX)) => Ok(Self::Ring { len_min }),
                _ => Err(format!(
                    "`{text}` is no driver: auto, epoll, ring, or ring:N with 1 to {RING_LEN_MAX}"
                )),
            },
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Auto => f.write_str("auto"),
            Self::Epoll => f.write_str("epoll"),
            Self::RING => f.write_str("ring"),
            Self::Ring { len_min } => write!(f, "ring:{len_min}"),
        }
    }
}

impl FromStr for Spin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            _ => match text.parse() {
                Ok(micros @ 1..=SPIN_MAX_US) => Ok(Self::Within(Duration::from_micros(micros))),
                _ => Err(format!(
                    "`{text}` is no time to spin: off, auto, or 1 to {SPIN_MAX_US} microseconds"
                )),
            },
        }
    }
}

impl fmt::Display for Spin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::Within(time) => write!(f, "{}", time.as_micros()),
        }
    }
}

/// Shorter lists cost more in a ring than by calls.
const LEN_MIN: usize = 8;
/// Whoever polls longer than this wants no sleep at all.
const SPIN_MAX_US: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_say() {
        let every = Driver::Ring { len_min: 1 };
        for (word, driver) in [
            ("auto", Driver::Auto),
            ("epoll", Driver::Epoll),
            ("ring", Driver::RING),
            ("ring:1", every),
        ] {
            assert_eq!((word.parse(), driver.to_string()), (Ok(driver), word.to_owned()));
        }
        for wrong in ["uring", "", "ring:", "ring:0", "ring:65", "ring 8"] {
            assert!(wrong.parse::<Driver>().unwrap_err().contains("auto, epoll, ring"), "{wrong}");
        }
        let micros = Spin::Within(Duration::from_micros(70));
        for (word, spin) in [("off", Spin::Off), ("auto", Spin::Auto), ("70", micros)] {
            assert_eq!((word.parse(), spin.to_string()), (Ok(spin), word.to_owned()));
        }
        for wrong in ["", "0", "-1", "1.5", "1000001", "on"] {
            assert!(wrong.parse::<Spin>().is_err(), "{wrong}");
        }
    }
}
