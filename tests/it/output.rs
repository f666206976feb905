//! Bytes in are bytes in the log.
