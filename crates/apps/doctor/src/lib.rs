//! What this machine can hold, what binds first, and how to lift it.
