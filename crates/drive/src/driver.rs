//! What does the system calls of our own loop, and how it waits: for those who choose.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use fulmar_engine::Engine;
use fulmar_sys::Ring;

use crate::epoll::Epoll;
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
    Ring,
}

/// How a loop of our own works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopOptions {
    /// What does its system calls.
    pub driver: Driver,
    /// Whether it polls for a while before it sleeps.
    pub spin: Spin,
}

impl<E: Engine> Reactor<E, Epoll> {
    /// A loop over epoll. With it comes why it does without a ring, if it would have had one.
    ///
    /// # Errors
    /// Descriptors or memory are used up, or a ring was asked for and cannot be had: the error
    /// says so.
    pub fn with_options(engine: E, options: LoopOptions) -> io::Result<(Self, Option<io::Error>)> {
        let mut selector = Epoll::new()?;
        selector.set_spin(options.spin);
        let mut reactor = Self::new(engine, selector);
        let ring = match options.driver {
            Driver::Epoll => return Ok((reactor, None)),
            Driver::Auto | Driver::Ring => Ring::new(),
        };
        match ring {
            Ok(ring) => {
                reactor.set_ring(ring);
                Ok((reactor, None))
            }
            Err(error) if options.driver == Driver::Auto => Ok((reactor, Some(error))),
            Err(error) => {
                let text = format!("no io_uring (driver `ring`): {error}");
                Err(io::Error::new(error.kind(), text))
            }
        }
    }
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "epoll" => Ok(Self::Epoll),
            "ring" => Ok(Self::Ring),
            _ => Err(format!("`{text}` is no driver: there are auto, epoll and ring")),
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::Ring => "ring",
        })
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

/// Whoever polls longer than this wants no sleep at all.
const SPIN_MAX_US: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_say() {
        for driver in [Driver::Auto, Driver::Epoll, Driver::Ring] {
            assert_eq!(driver.to_string().parse(), Ok(driver));
        }
        assert!("uring".parse::<Driver>().unwrap_err().contains("auto, epoll and ring"));
        assert_eq!("off".parse(), Ok(Spin::Off));
        assert_eq!("auto".parse(), Ok(Spin::Auto));
        assert_eq!("70".parse(), Ok(Spin::Within(Duration::from_micros(70))));
        for wrong in ["", "0", "-1", "1.5", "1000001", "on"] {
            assert!(wrong.parse::<Spin>().is_err(), "{wrong}");
        }
    }
}
