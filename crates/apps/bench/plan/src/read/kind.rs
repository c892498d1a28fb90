//! What happens in a run: the key `scenario` and the table that belongs to it.

use throng_types::units;

use crate::scenario::Kind;
use crate::section::Section;

/// The kind, with its own table.
pub(super) fn read_kind(root: &mut Section<'_>) -> Option<Kind> {
    let word = if root.has("scenario") {
        root.word("scenario", &Kind::NAMES)?
    } else {
        // Asked for all the same, so that a misspelt key is told what it may have meant.
        let _ = root.text("scenario");
        "hold"
    };
    let kind = match word {
        "hold" => Kind::Hold,
        "fan-out" => Kind::FanOut,
        "one-to-one" => Kind::OneToOne,
        "echo" => Kind::Echo,
        "churn" => Kind::Churn,
        "chat" => {
            let mut section = root.section("chat");
            let group_size = section
                .as_mut()
                .and_then(|chat| chat.parsed("group_size", units::parse_count))
                .unwrap_or(10);
            finish(section);
            Kind::Chat { group_size }
        }
        "reconnect-storm" => read_storm(root.section("reconnect_storm")),
        "slow-readers" => {
            let mut section = root.section("slow_readers");
            let share = section
                .as_mut()
                .and_then(|s| s.parsed("share", units::parse_share));
            let bytes = section
                .as_mut()
                .and_then(|s| s.parsed("read", units::parse_size_bytes));
            finish(section);
            Kind::SlowReaders {
                share: share.unwrap_or(0.01),
                bytes_per_s: bytes.unwrap_or(0),
            }
        }
        _ => {
            let mut section = root.section("resume");
            let away = section
                .as_mut()
                .and_then(|s| s.parsed("away", units::parse_duration_us));
            let every = section
                .as_mut()
                .and_then(|s| s.parsed("every", units::parse_duration_us));
            finish(section);
            Kind::Resume {
                away_us: away.unwrap_or(1_000_000),
                every_us: every.unwrap_or(10_000_000),
            }
        }
    };
    Some(kind)
}

fn read_storm(mut section: Option<Section<'_>>) -> Kind {
    let mut time = |key| {
        section
            .as_mut()
            .and_then(|storm| storm.parsed(key, units::parse_duration_us))
    };
    let at_us = time("at").unwrap_or(0);
    let backoff_us = (
        time("backoff_min").unwrap_or(0),
        time("backoff_max").unwrap_or(1_000_000),
    );
    let mut share = |key| {
        section
            .as_mut()
            .and_then(|storm| storm.parsed(key, units::parse_share))
    };
    let (dropped, back_share) = (
        share("share").unwrap_or(1.0),
        share("back").unwrap_or(0.999),
    );
    finish(section);
    Kind::ReconnectStorm {
        at_us,
        share: dropped,
        backoff_us,
        back_share,
    }
}

fn finish(section: Option<Section<'_>>) {
    if let Some(section) = section {
        section.finish();
    }
}
