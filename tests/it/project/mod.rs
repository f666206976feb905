//! Jobs that belong together: started once, started again, brought up and taken down as a project.
//!
//! A module for each capability; each drives the real programs.

mod ensure;
mod restart;
