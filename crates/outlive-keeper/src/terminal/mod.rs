//! What a command's terminal needs beside its bytes: answers, viewers, screens and input that are kept, and to know that it waits for
//! input.

pub(crate) mod answers;
pub(crate) mod awaits;
pub(crate) mod checkpoints;
pub(crate) mod typed;
pub(crate) mod viewers;
