//! Server-sent events (WHATWG HTML): encode and decode.
