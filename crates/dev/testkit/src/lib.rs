//! Real clients, free ports and fixtures for tests.
