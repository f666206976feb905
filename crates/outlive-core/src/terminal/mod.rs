//! Terminals: what front ends and keepers agree on, without an emulator.

pub mod size;
