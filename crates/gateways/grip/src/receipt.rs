//! Receipts: the way of the number of receivers to the publisher of an item.
//!
//! The item's publication carries the receipt as a tag. Each shard counts the deliveries queued for
//! its sessions, and reports them after the last one; the publisher's shard adds up. A number that
//! is not known for certain is not sent.

use throng_types::{Publication, ShardId};

use crate::shared::GripShared;

/// The name of the tag.
const TAG: &str = "{\"receipt\":\"";

/// A publisher's wish to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The shard of the publisher.
    pub shard: ShardId,
    /// Which of that shard's.
    pub number: u64,
}

impl Receipt {
    /// The tags of a publication with this receipt.
    #[must_use]
    pub fn to_tags(self) -> Box<str> {
        format!("{TAG}{}:{}\"}}", self.shard.0, self.number).into()
    }

    /// The receipt in a publication's tags, if there is one.
    #[must_use]
    pub fn from_tags(tags: Option<&str>) -> Option<Self> {
        let text = tags?.strip_prefix(TAG)?.strip_suffix("\"}")?;
        let (shard, number) = text.split_once(':')?;
        Some(Self {
            shard: ShardId(shard.parse().ok()?),
            number: number.parse().ok()?,
        })
    }
}

fn place(publication: &Publication) -> usize {
    std::ptr::from_ref(publication).addr()
}

impl GripShared {
    /// A session took a publication.
    pub fn took(&self, publication: &Publication) {
        if publication.tags.is_some() {
            *self
                .taken
                .borrow_mut()
                .entry(place(publication))
                .or_default() += 1;
        }
    }

    /// Takes the receipt and the count of a publication, after its last delivery here.
    #[must_use]
    pub fn carried(&self, publication: &Publication) -> Option<(Receipt, u64)> {
        let count = self.taken.borrow_mut().remove(&place(publication));
        let receipt = Receipt::from_tags(publication.tags.as_deref())?;
        Some((receipt, count.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_read_back() {
        let receipt = Receipt {
            shard: ShardId(7),
            number: u64::MAX,
        };
        let tags = receipt.to_tags();
        assert_eq!(&*tags, "{\"receipt\":\"7:18446744073709551615\"}");
        assert_eq!(Receipt::from_tags(Some(&tags)), Some(receipt));
        for other in [
            "",
            "{}",
            "{\"receipt\":\"7\"}",
            "{\"receipt\":\"x:1\"}",
            "{\"receipt\":\"300:1\"}",
        ] {
            assert_eq!(Receipt::from_tags(Some(other)), None, "{other}");
        }
        assert_eq!(Receipt::from_tags(None), None);
    }
}
