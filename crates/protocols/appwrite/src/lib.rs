//! Appwrite Realtime: messages, channels, roles, queries.
