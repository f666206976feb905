//! How many jobs may be live.
