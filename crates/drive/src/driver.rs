//! The options of a loop: its driver, and polling before sleeping.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use fulmar_engine::Engine;
use fulmar_sys::{RING_LEN_MAX, Ring};

use crate::any_selector::AnySelector;
use crate::epoll::Epoll;
use crate::executor::Executor;
use crate::poll::Poll;
use crate::reactor::Reactor;
use crate::selector::Selector;
use crate::spin::Spin;

/// How a loop waits for readiness and makes its system calls.
///
/// ```
/// use fulmar_drive::Driver;
///
/// assert_eq!("level".parse(), Ok(Driver::Level));
/// assert_eq!("ring:16".parse(), Ok(Driver::Ring { len_min: 16 }));
/// let error = "kqueue".parse::<Driver>().unwrap_err();
/// assert!(error.contains("auto, epoll, level, poll, ring"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// [`Driver::RING`] where io_uring is available, otherwise [`Driver::Epoll`]; `poll(2)` on
    /// systems without epoll.
    #[default]
    Auto,
    /// Edge-triggered epoll, and one system call per operation.
    Epoll,
    /// Level-triggered epoll, and one system call per operation.
    Level,
    /// `poll(2)`, and one system call per operation.
    Poll,
    /// Edge-triggered epoll, and one `io_uring_enter(2)` for each list of operations.
    Ring {
        /// Shorter lists are direct calls.
        len_min: usize,
    },
}

impl Driver {
    /// A ring for the lists for which it pays off.
    pub const RING: Self = Self::Ring { len_min: LEN_MIN };
}

/// The options of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopOptions {
    /// How it waits and makes its system calls.
    pub driver: Driver,
    /// Whether it polls for a while before it sleeps. [`Driver::Poll`] does not support that.
    pub spin: Spin,
}

/// The driver that a loop uses, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// `epoll`, `level`, `poll` or `ring`; `ring:N` if the minimum length of a list is not the
    /// default. As [`Driver`] is written.
    pub driver: String,
    /// Whether it polls before it sleeps.
    pub spin: Spin,
    /// Why there is no ring, or none any more, although one was requested.
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
    /// The options from the environment variables `FULMAR_DRIVER` and `FULMAR_SPIN`; a variable
    /// that is not set, or is empty, leaves the default.
    ///
    /// # Errors
    /// A value is invalid, or the two cannot be combined.
    pub fn from_environment() -> Result<Self, String> {
        Self::chosen(None, None)
    }

    /// The given options; the environment is read only for those that are `None`.
    ///
    /// # Errors
    /// As [`LoopOptions::from_environment`].
    pub fn chosen(driver: Option<Driver>, spin: Option<Spin>) -> Result<Self, String> {
        let driver = driver.map_or_else(|| variable("FULMAR_DRIVER"), Ok)?;
        let spin = spin.map_or_else(|| variable("FULMAR_SPIN"), Ok)?;
        let options = Self { driver, spin };
        options.check()?;
        Ok(options)
    }

    /// The options of a thread with little to do, beside threads with these: it waits in the same
    /// way, and has neither a ring nor polling before sleeping.
    #[must_use]
    pub fn for_background(self) -> Self {
        let driver = match self.driver {
            Driver::Auto | Driver::Ring { .. } => Driver::Epoll,
            Driver::Epoll | Driver::Level | Driver::Poll => self.driver,
        };
        Self { driver, spin: Spin::Off }
    }

    fn check(self) -> Result<(), &'static str> {
        match (self.driver, self.spin) {
            (Driver::Poll, Spin::Auto | Spin::Within(_)) => Err(NO_SPIN),
            (Driver::Auto | Driver::Epoll | Driver::Level | Driver::Ring { .. }, _)
            | (Driver::Poll, Spin::Off) => Ok(()),
        }
    }

    fn selector(self) -> io::Result<AnySelector> {
        let mut epoll = match self.driver {
            Driver::Poll => return Ok(AnySelector::Poll(Poll::new())),
            Driver::Level => Epoll::level_triggered()?,
            Driver::Epoll | Driver::Ring { .. } => Epoll::new()?,
            Driver::Auto => match Epoll::new() {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(AnySelector::Poll(Poll::new()));
                }
                epoll => epoll?,
            },
        };
        epoll.set_spin(self.spin);
        Ok(AnySelector::Epoll(epoll))
    }
}

/// The value of an environment variable; an empty one is the default.
fn variable<T: FromStr<Err = String> + Default>(name: &str) -> Result<T, String> {
    match std::env::var_os(name).filter(|text| !text.is_empty()) {
        None => Ok(T::default()),
        Some(text) => text.to_string_lossy().parse().map_err(|error| format!("{name}: {error}")),
    }
}

impl<E: Engine> Reactor<E, AnySelector> {
    /// A loop with the driver of `options`. [`Reactor::driver_info`] reports which one it is, and
    /// why there is no ring if [`Driver::Auto`] found none.
    ///
    /// # Errors
    /// No descriptors or no memory are left; the requested driver is not available, or does not
    /// support the requested polling: the error contains which and why.
    pub fn with_options(engine: E, options: LoopOptions) -> io::Result<Self> {
        options.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut reactor = Self::new(engine, options.selector()?);
        let len_min = match options.driver {
            Driver::Epoll | Driver::Level | Driver::Poll => return Ok(reactor),
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

    /// The driver that the loop uses now.
    pub fn driver_info(&self) -> DriverInfo {
        let (driver, ring_error) = match &self.executor {
            Executor::Direct(error) => {
                (self.selector.name().to_owned(), error.as_ref().map(io::Error::to_string))
            }
            Executor::Ring(_, len_min) => (Driver::Ring { len_min: *len_min }.to_string(), None),
        };
        let spin = match &self.selector {
            AnySelector::Epoll(epoll) => epoll.spin(),
            AnySelector::Poll(_) => Spin::Off,
        };
        DriverInfo { driver, spin, ring_error }
    }
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "epoll" => Ok(Self::Epoll),
            "level" => Ok(Self::Level),
            "poll" => Ok(Self::Poll),
            "ring" => Ok(Self::RING),
            _ => match text.strip_prefix("ring:").map(str::parse) {
                Some(Ok(len_min @ 1..=RING_LEN_MAX)) => Ok(Self::Ring { len_min }),
                Some(Ok(_) | Err(_)) | None => Err(format!(
                    "unknown driver `{text}`: use auto, epoll, level, poll, ring, or ring:N \
                     (N from 1 to {RING_LEN_MAX})"
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
            Self::Level => f.write_str("level"),
            Self::Poll => f.write_str("poll"),
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
                Ok(_) | Err(_) => Err(format!(
                    "invalid spin `{text}`: use off, auto, or 1 to {SPIN_MAX_US} microseconds"
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

/// Shorter lists cost more in a ring than by direct calls.
const LEN_MIN: usize = 8;
const NO_SPIN: &str =
    "driver `poll` cannot poll before sleeping: use spin `off`, or driver `epoll`";
/// A loop that polls longer than this never sleeps.
const SPIN_MAX_US: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_and_spins_are_parsed_and_printed() {
        let every = Driver::Ring { len_min: 1 };
        for (word, driver) in [
            ("auto", Driver::Auto),
            ("epoll", Driver::Epoll),
            ("level", Driver::Level),
            ("poll", Driver::Poll),
            ("ring", Driver::RING),
            ("ring:1", every),
        ] {
            assert_eq!((word.parse(), driver.to_string()), (Ok(driver), word.to_owned()));
        }
        for wrong in ["uring", "", "ring:", "ring:0", "ring:65", "ring 8"] {
            let error = wrong.parse::<Driver>().unwrap_err();
            let valid = "use auto, epoll, level, poll, ring, or ring:N (N from 1 to 64)";
            assert!(error.contains(&format!("`{wrong}`")) && error.ends_with(valid), "{error}");
        }
        let micros = Spin::Within(Duration::from_micros(70));
        for (word, spin) in [("off", Spin::Off), ("auto", Spin::Auto), ("70", micros)] {
            assert_eq!((word.parse(), spin.to_string()), (Ok(spin), word.to_owned()));
        }
        for wrong in ["", "0", "-1", "1.5", "1000001", "on"] {
            assert!(wrong.parse::<Spin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn poll_does_not_support_spin() {
        for spin in [Spin::Auto, Spin::Within(Duration::from_micros(1))] {
            let error = LoopOptions::chosen(Some(Driver::Poll), Some(spin)).unwrap_err();
            assert!(error.contains("driver `poll`"), "{error}");
            assert!(LoopOptions::chosen(Some(Driver::Level), Some(spin)).is_ok());
        }
        assert!(LoopOptions::chosen(Some(Driver::Poll), Some(Spin::Off)).is_ok());
    }
}
