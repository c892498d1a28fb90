//! The front door's connections as bytes, for a process that takes over: between two requests, or
//! in the midst of one that is still coming.

use throng_types::{Save, Saved};

use super::body::Coming;
use super::{Http, Pending};

impl Save for Pending {
    fn save(&self, out: &mut Vec<u8>) {
        let Self {
            raw,
            searched,
            coming,
        } = self;
        raw.save(out);
        searched.save(out);
        coming.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let (raw, searched) = <(Vec<u8>, usize)>::load(from)?;
        let coming = Option::<Coming>::load(from)?;
        (searched <= raw.len()).then_some(Self {
            raw,
            searched,
            coming,
        })
    }
}

impl Http {
    /// Appends it for another process; false, and nothing is to be used, while a request has no
    /// answer.
    pub fn save(&self, out: &mut Vec<u8>) -> bool {
        let Self {
            port,
            peer,
            admission,
            awaits_proxy,
            allowance,
            has_served,
            pending,
            pipeline,
        } = self;
        port.save(out);
        peer.save(out);
        admission.save(out);
        awaits_proxy.save(out);
        allowance.save(out);
        has_served.save(out);
        pending.save(out);
        let pipeline = pipeline.as_ref();
        pipeline.is_none_or(|pipeline| pipeline.is_empty() && !pipeline.ends)
    }

    /// Restores a connection from its saved bytes.
    pub fn load(from: &mut Saved<'_>) -> Option<Self> {
        Some(Self {
            port: Save::load(from)?,
            peer: Save::load(from)?,
            admission: Save::load(from)?,
            awaits_proxy: Save::load(from)?,
            allowance: Save::load(from)?,
            has_served: Save::load(from)?,
            pending: Save::load(from)?,
            pipeline: None,
        })
    }
}
