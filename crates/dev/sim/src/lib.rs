//! Seeded simulator over sessions, hub and mailboxes.
