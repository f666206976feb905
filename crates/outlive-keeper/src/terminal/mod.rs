//! What a command's terminal needs beside its bytes: answers, viewers, and to know that it waits for input.

pub(crate) mod answers;
pub(crate) mod awaits;
pub(crate) mod viewers;
