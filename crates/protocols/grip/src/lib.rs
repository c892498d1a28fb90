//! GRIP: items, instructions, WebSocket-over-HTTP events, ZMTP.
