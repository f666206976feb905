//! Starting a job: a handle at once, whatever the starter is like.
