//! Keeping what was typed, where that was asked for.

use std::io;
use std::os::fd::AsFd;

use outlive_core::file;
use outlive_core::terminal::typed::{LIMIT, Typed};
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Appending, Point};
use outlive_sys::{clock, durable};

/// Records a piece of input that was taken when the log ended at `offset`. The job goes on whatever becomes of it.
pub(crate) fn record(dir: impl AsFd, offset: u64, bytes: &[u8]) {
    append(dir, &Typed { time: Timestamp(clock::wall_us()), offset, bytes }).ok();
}

/// Forgets what was typed so far.
pub(crate) fn clear(dir: impl AsFd) -> io::Result<()> {
    match fault::step(Point::TypedDrop, || durable::remove(dir, file::INPUT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens the file each time: nothing of it has to be passed on to a keeper that goes on in place of this one.
fn append(dir: impl AsFd, typed: &Typed<'_>) -> io::Result<()> {
    let file = fault::step(Appending::TYPED.open, || durable::open_or_create(dir, file::INPUT))?;
    let length = file.metadata()?.len();
    if length >= LIMIT {
        return Ok(());
    }
    // No other process writes to it, so its end stays where it is.
    let written = fault::write_all_at(Appending::TYPED.write, &file, &typed.to_record(), length);
    if written.is_err() {
        // A reader would find nothing behind a part of a record.
        file.set_len(length)?;
    }
    written
}

#[cfg(test)]
mod tests {
    use outlive_core::terminal::typed::records;

    use super::*;

    #[test]
    fn no_more_is_kept_than_may_be() {
        let path = tempfile::tempdir().unwrap();
        let dir = durable::open_dir(path.path()).unwrap();
        record(&dir, 7, b"ls\r");
        let file = std::fs::read(path.path().join(file::INPUT)).unwrap();
        let kept: Vec<_> = records(&file).map(|typed| (typed.offset, typed.bytes)).collect();
        assert_eq!(kept, [(7, &b"ls\r"[..])]);
        let open = durable::open_rw(&dir, file::INPUT).unwrap();
        for (length, grown) in [(LIMIT - 1, 24 + 3), (LIMIT, 0)] {
            open.set_len(length).unwrap();
            record(&dir, 7, b"ls\r");
            assert_eq!(open.metadata().unwrap().len(), length + grown);
        }
    }
}
