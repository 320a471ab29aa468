//! Parses the configuration language of HAProxy into a validated, complete model.
//!
//! In the model, every default is applied, every name resolved and every expression compiled: the
//! proxy does not need the text. Follows HAProxy's configuration manual (2.6). An unknown keyword
//! is an error with its position and the most similar keyword.
//!
//! ```
//! use fulmar_haproxy::{Environment, Options, ConfigSource, ThisMachine, load};
//!
//! let text = "
//!     defaults
//!         mode http
//!         timeout client 10s
//!         timeout connect 1s
//!         timeout server 10s
//!     listen web
//!         bind 127.0.0.1:8080
//!         server one 127.0.0.1:8081
//! ";
//! let sources = [ConfigSource::text("web.cfg", text)];
//! let loaded = load(&sources, &Environment::default(), &ThisMachine, &Options::default())?;
//! assert_eq!(loaded.config.backends[0].servers[0].name, "one");
//! # Ok::<(), fulmar_haproxy::Diagnostics>(())
//! ```
#![forbid(unsafe_code)]

pub mod rules;

mod keywords_page;
mod load;

mod diagnostics;
mod machine;
pub mod model;

mod config_reader;

mod accounts;
mod arguments;
mod build_config;
mod checks;
mod compile;
mod condition_names;
mod draft;
mod environment;
mod keyword_table;
mod keywords;
mod line;
mod options;
mod parameters;
mod position;
mod text;
mod tracking;
mod values;

pub use diagnostics::{Diagnostic, Diagnostics, Severity};
pub use environment::Environment;
pub use keywords_page::keywords_page;
pub use load::{ConfigSource, Loaded, load};
pub use machine::{Machine, ThisMachine};
pub use model::{
    BackendConfig, BackendId, Bind, Config, FrontendConfig, Global, Mode, Position, ServerConfig,
    ServerId,
};
pub use options::{ConfigLeniency, Options};
