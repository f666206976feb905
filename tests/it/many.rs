//! Hundreds of jobs at once.
