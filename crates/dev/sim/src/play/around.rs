//! What clients need of a run, taken from its parts.

/// Lends the parts that clients need.
macro_rules! around {
    ($play:ident) => {
        Around {
            net: &$play.net,
            setup: &$play.setup,
            witness: &mut $play.witness,
            backend: &$play.requests,
        }
    };
}
