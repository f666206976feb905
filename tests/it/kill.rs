//! Ending a job with everything it started, and nothing else.
