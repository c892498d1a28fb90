//! Wire form of deliveries: its number and kind, without its encoding.

use throng_hub::FormKind;
use throng_types::Save;

/// A wire form of deliveries, declared once by its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub struct Form {
    /// Its place among the gateway's forms.
    pub number: u8,
    /// Whether its deliveries are shared bytes, personal, or need the session's eye.
    pub kind: FormKind,
}

impl Form {
    /// A form; `number` counts from zero within the gateway.
    #[must_use]
    pub const fn new(number: u8, kind: FormKind) -> Self {
        Self { number, kind }
    }
}
