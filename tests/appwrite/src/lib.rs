//! The `throng` binary against Appwrite's web SDKs: black-box tests, all of them in `tests/`.
//!
//! Events come through a real Redis; what answers for Appwrite's own API is a stand-in that knows
//! sessions, accounts and memberships, and nothing else.
