//! How long ended jobs stay.
