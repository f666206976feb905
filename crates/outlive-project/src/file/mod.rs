//! From a file to a project: what may be written, and what is wrong with what was written.

mod check;
pub(crate) mod env;
pub(crate) mod expand;
pub(crate) mod fault;
pub(crate) mod keys;
pub(crate) mod place;
pub(crate) mod process_compose;
pub(crate) mod procfile;
pub(crate) mod read;
pub(crate) mod templates;
