//! The MCP server: every tool, both eras of the protocol, whatever a client sends.
//!
//! A client of its own speaks raw messages over pipes to the real `outlive mcp`; the official Python client does after it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

mod budgets;
mod bytes;
mod environment;
mod hostile;
mod isolation;
mod notices;
mod official;
mod protocol;
mod slips;
mod survival;
mod tasks;
mod terminals;
mod tools;
mod waiting;
