//! The command line: contract for scripts, texts for people.
