//! Files of other programs: read as they are, or made an `outlive.toml`.
//!
//! Proves that what they say comes to pass, and that what is left out is named.

mod import;
mod process_compose;
mod procfile;

use super::Project;
