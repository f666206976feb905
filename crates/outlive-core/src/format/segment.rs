//! Names of the log's segments.

/// Returns the name of the segment whose first byte has this offset.
pub fn name(offset: u64) -> String {
    format!("out.{offset:015}.log")
}

/// Returns the offset of a segment's first byte; `None` if the name is not a segment's.
pub fn offset(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("out.")?.strip_suffix(".log")?;
    (digits.len() >= 15 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for start in [0, 1, 104_857_600, u64::MAX] {
            assert_eq!(offset(&name(start)), Some(start));
        }
        for other in
            ["out.idx", "out.1.log", "out.00000000000000x.log", "out..log", "xout.000000000000001.log"]
        {
            assert_eq!(offset(other), None);
        }
    }
}
