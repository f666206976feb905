//! A job of another boot, host or pid namespace is never signalled.
