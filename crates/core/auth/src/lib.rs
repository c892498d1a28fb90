//! Tokens and what they allow.
