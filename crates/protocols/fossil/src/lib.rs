//! Deltas in the format of the Fossil version control system: what a publication is, said as the
//! difference from the one before it.
//!
//! Owns: the format, both ways. Never: which publication is compared with which, and how a delta
//! is wrapped.
//!
//! Source: the page "Fossil Delta Format" of fossil-scm.org. A delta is the length of what it
//! makes and a line feed; then commands: `N@P,` copies N bytes of the base from place P, `N:`
//! inserts the N bytes that follow; then a checksum of what it makes, and `;`. Numbers are written
//! in 64 digits, which a reader has to know from the format alone: the two directions here share
//! no code, so that each tests the other.
//!
//! Invariants
//! - [`apply`] to a delta of [`encode`] and the same base gives the same bytes.
//! - The work of [`encode`] grows no faster than its two inputs, whatever they are; memory, too.
//! - Bytes from outside never panic in [`apply`] and cost no more memory than its limit.

mod apply;
mod encode;
#[cfg(test)]
mod tests;

pub use apply::{DeltaError, apply};
pub use encode::{BYTES_MAX, DeltaUnit, encode};
