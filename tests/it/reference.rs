//! Generated pages are up to date, and every module is listed.
