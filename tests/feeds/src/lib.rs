//! Feeds from a real PostgreSQL, against other people's clients: black-box tests, all of them in
//! `tests/`.
//!
//! They know Throng by its command line, its ports and its log, and share no code with it.
