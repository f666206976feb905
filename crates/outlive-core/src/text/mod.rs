//! From bytes to what a reader is shown: lines, forms, ranges and budgets.

pub mod budget;
pub mod characters;
pub mod context;
pub mod cursor;
pub mod display;
pub mod lines;
pub mod plain;
pub mod rendered;
