//! HTTP/1.1 heads, bodies and upgrades (RFC 9110, RFC 9112).
