//! What the command is given: directory, environment, signals, descriptors, session.
