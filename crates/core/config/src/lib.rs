//! Configuration: text and variables in, validated options out, each with where it came from.
