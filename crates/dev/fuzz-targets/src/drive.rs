//! Runs targets without a fuzzer: on their seeds, on every prefix of them, on mutations of them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Target;
use crate::mutate::{Chance, mutate};

/// An input on which a target panicked, made as small as was easy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the target.
    pub target: &'static str,
    /// The bytes; they belong into the target's seeds once the bug is fixed.
    pub input: Vec<u8>,
    /// Message of the panic.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = self.input.escape_ascii();
        write!(f, "{}: b\"{input}\"\n    {}", self.target, self.message)
    }
}

/// Runs a target on its seeds, on every prefix of them and on so many mutations of them, which are
/// always the same ones: more of them begin with the fewer.
///
/// # Errors
/// The first input that fails.
pub fn drive(target: &Target, mutations: usize) -> Result<(), Failure> {
    let seeds = target.seeds();
    for seed in &seeds {
        for end in (0..=seed.len()).rev() {
            attempt(target, &seed[..end])?;
        }
    }
    let mut chance = Chance::new(target.name);
    for _ in 0..mutations {
        attempt(target, &mutate(&seeds, &mut chance))?;
    }
    Ok(())
}

fn attempt(target: &Target, input: &[u8]) -> Result<(), Failure> {
    let Some(message) = panic_of(target, input) else {
        return Ok(());
    };
    let input = smaller(target, input.to_vec());
    Err(Failure {
        target: target.name,
        message: panic_of(target, &input).unwrap_or(message),
        input,
    })
}

fn panic_of(target: &Target, input: &[u8]) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    Some(text.unwrap_or_default())
}

/// Leaves out whatever can be left out while it still fails.
fn smaller(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let mut piece_bytes = input.len() / 2;
    while piece_bytes > 0 {
        let mut at = 0;
        while at + piece_bytes <= input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..at + piece_bytes);
            if panic_of(target, &shorter).is_some() {
                input = shorter;
            } else {
                at += piece_bytes;
            }
        }
        piece_bytes /= 2;
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRITTLE: Target = Target {
        name: "brittle",
        run: |input| {
            assert!(!input.windows(2).any(|two| two == b"%%"), "two of them");
        },
        seeds: "a harmless seed with 100% in it",
    };

    #[test]
    fn what_breaks_is_found_made_small_and_printed() {
        let failure = drive(&BRITTLE, 5000).unwrap_err();
        assert_eq!(failure.input, b"%%");
        assert_eq!(failure.to_string(), "brittle: b\"%%\"\n    two of them");
        // The same again.
        assert_eq!(drive(&BRITTLE, 5000), Err(failure));
    }

    #[test]
    fn prefixes_are_tried() {
        let target = Target {
            run: |input| assert_ne!(input, b"a harmless", "here"),
            ..BRITTLE
        };
        assert_eq!(drive(&target, 0).unwrap_err().input, b"a harmless");
    }
}
