//! One connection as a state machine: bytes in, bytes and commands out.
