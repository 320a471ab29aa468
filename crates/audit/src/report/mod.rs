//! Reports on counts: per unit, as tables, records, budgets and advice.
//!
//! Everything here is pure: counts go in, text and numbers come out. A [`AuditRun`] is one program
//! under one load. It can be printed ([`AuditRun::text`]), stored ([`AuditRun::record`],
//! [`AuditRun::read`]), compared ([`RunComparison`]) and checked against a [`Budget`].

mod errno;
mod group;
mod unit;

mod run;

mod waste;

mod budget;
mod compare;
mod json;
mod record;
mod sequence;
mod table;
mod text;

pub use budget::{Budget, BudgetError, Excess};
pub use compare::{Incomparable, RunComparison};
pub use group::CallGroup;
pub use record::RecordError;
pub use run::{AuditRun, LoadSummary};
pub use unit::{CountUnit, Per, UnitError};
pub use waste::{Class, Waste, wastes};
