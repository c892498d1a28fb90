//! WebSocket (RFC 6455) for both roles, as bytes in and events out.
