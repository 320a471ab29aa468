//! What is said about counts: shares, tables, records, budgets, advice.
//!
//! Everything here is pure: counts go in, text and numbers come out. A [`Run`] is one program
//! under one load. It is shown ([`Run::text`]), kept ([`Run::record`], [`Run::read`]), held
//! beside another ([`Comparison`]) and held against a [`Budget`]. The modules stand in reading
//! order.

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
pub use compare::{Comparison, Incomparable};
pub use group::Group;
pub use record::RecordError;
pub use run::{Load, Run};
pub use unit::{Per, Unit, UnitError};
pub use waste::{Class, Waste, wastes};
