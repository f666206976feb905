//! Exit is not end of file: processes that the command leaves behind.
