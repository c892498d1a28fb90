//! The `throng` binary against other people's clients: black-box tests, all of them in `tests/`.
//!
//! They know the server by its command line, its ports and its log, and share no code with it.
