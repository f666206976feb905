//! Waiting for jobs to end.
