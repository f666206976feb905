//! Many front ends at the same time.
