//! Centrifugo client protocol v2, JSON: commands, replies, pushes and codes.
