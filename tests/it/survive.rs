//! A job survives its starter, its terminal and every other process of outlive but its keeper.
