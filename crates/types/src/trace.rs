//! Places in traces of others, as W3C's Trace Context names them.

use std::fmt;

use crate::Save;

/// A span, named as the parent of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Save)]
pub struct SpanContext {
    pub trace_id: u128,
    pub span_id: u64,
}

impl SpanContext {
    /// Name of the header that carries one.
    pub const FIELD: &str = "traceparent";

    /// Reads the header `traceparent` (Trace Context, section 3.2); `None` also for what is not
    /// sampled, which nobody will look at.
    #[must_use]
    pub fn sampled(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let mut next = |digits| hex(parts.next()?, digits);
        let (version, trace_id, span_id, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // Later versions may have more parts.
        let is_whole = version != 0xff && (version > 0 || parts.next().is_none());
        let is_named = trace_id != 0 && span_id != 0;
        (is_whole && is_named && flags & 1 == 1).then_some(Self {
            trace_id,
            span_id: span_id as u64,
        })
    }
}

/// Header `traceparent` of what follows from the span, which is sampled.
impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace_id, self.span_id)
    }
}

/// Reads so many digits; letters are in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (is_hex && text.len() == digits)
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_and_sampled_parents_are_read() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = SpanContext {
            trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span_id: 0xb7ad_6b71_6920_3331,
        };
        assert_eq!(SpanContext::sampled(good), Some(context));
        assert_eq!(context.to_string(), good);
        let later = format!("cc{}-more", &good[2..]);
        assert_eq!(SpanContext::sampled(&later), Some(context));
        for wrong in [
            String::new(),
            good.replace("-01", "-00"),
            good.replace("-01", ""),
            good.to_ascii_uppercase(),
            format!("{good}-more"),
            format!("ff{}", &good[2..]),
            good.replace("b7ad6b7169203331", "0000000000000000"),
            good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            good.replace("0af7", "0af"),
            good.replace("0af7", "+af7"),
        ] {
            assert_eq!(SpanContext::sampled(&wrong), None, "{wrong}");
        }
    }
}
