//! Syscalls and every unsafe block.
