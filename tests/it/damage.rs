//! A damaged store: quarantined, reported, in nobody's way.
