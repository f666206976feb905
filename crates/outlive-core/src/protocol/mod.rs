//! Messages to and from a keeper: the launch request, and the conversation over its socket.

pub mod control;
pub mod launch;
pub mod wire;
