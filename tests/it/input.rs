//! Writing to a job.
