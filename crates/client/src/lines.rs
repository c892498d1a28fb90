//! Splitter of a stream into lines.

/// Error of a line longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of the stream is too long")]
pub struct LineTooLong;

/// Splitter of a stream at its line feeds. Holds memory only while a line comes in pieces.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Takes bytes, and reports each line that ends in them, without its line feed. No line may be
    /// longer than `bytes_max`. Errors: [`LineTooLong`] for a line above `bytes_max`.
    pub fn feed(
        &mut self,
        mut data: &[u8],
        bytes_max: usize,
        mut on_line: impl FnMut(&[u8]),
    ) -> Result<(), LineTooLong> {
        while let Some(end) = data.iter().position(|&byte| byte == b'\n') {
            let (head, rest) = data.split_at(end);
            data = rest.get(1..).unwrap_or_default();
            if bytes_max.saturating_sub(self.line.len()) < head.len() {
                return Err(LineTooLong);
            }
            if self.line.is_empty() {
                on_line(head);
            } else {
                self.line.extend_from_slice(head);
                on_line(&std::mem::take(&mut self.line));
            }
        }
        if bytes_max.saturating_sub(self.line.len()) < data.len() {
            return Err(LineTooLong);
        }
        self.line.extend_from_slice(data);
        Ok(())
    }

    /// Forgets the line that has not ended.
    pub fn clear(&mut self) {
        self.line = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_wherever_the_bytes_are_cut() {
        let bytes = b"one\n\ntwo\r\nthree";
        for cut in 0..=bytes.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for part in [&bytes[..cut], &bytes[cut..]] {
                lines
                    .feed(part, 5, |line| {
                        found.push(String::from_utf8_lossy(line).into_owned())
                    })
                    .unwrap();
            }
            assert_eq!(found, ["one", "", "two\r"], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit() {
        for parts in [&["abc\n", "abcd"][..], &["ab", "cd\n"], &["abcd\n"]] {
            let mut lines = Lines::default();
            let fed: Result<(), _> = parts
                .iter()
                .try_for_each(|part| lines.feed(part.as_bytes(), 3, |_| ()));
            assert_eq!(fed, Err(LineTooLong), "{parts:?}");
        }
        assert_eq!(Lines::default().feed(b"abc\nabc", 3, |_| ()), Ok(()));
    }
}
