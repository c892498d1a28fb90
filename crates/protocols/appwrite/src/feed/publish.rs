//! Events of our own making, in the form in which Appwrite publishes its events.

use crate::json;

/// An event to put on the feed: for presence, for the `tests` channel, and for publishers that
/// have no Appwrite behind them.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'e> {
    /// The project.
    pub project: &'e str,
    /// Who may get it.
    pub roles: &'e [&'e str],
    /// Its names, the most telling first.
    pub names: &'e [&'e str],
    /// Where it is heard.
    pub channels: &'e [&'e str],
    /// When it happened, in Unix milliseconds.
    pub time_unix_ms: u64,
    /// One JSON value.
    pub payload: &'e str,
}

impl NewEvent<'_> {
    /// Appends the message, for Redis or for [`FeedMessage::parse`](super::FeedMessage::parse).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"project":"#);
        json::push_str(out, self.project);
        out.extend_from_slice(br#","roles":"#);
        json::push_strs(out, self.roles);
        out.extend_from_slice(br#","permissionsChanged":false,"userId":null,"data":{"events":"#);
        json::push_strs(out, self.names);
        out.extend_from_slice(br#","channels":"#);
        json::push_strs(out, self.channels);
        out.extend_from_slice(br#","timestamp":"#);
        json::push_str(out, &timestamp(self.time_unix_ms));
        out.extend_from_slice(br#","payload":"#);
        out.extend_from_slice(self.payload.as_bytes());
        out.extend_from_slice(b"}}");
    }
}

/// A moment as Appwrite writes it since 1.2: `2026-08-21T12:42:57.123+00:00`.
#[must_use]
pub fn timestamp(unix_ms: u64) -> String {
    let (days, ms_of_day) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = date(days);
    let (seconds, ms) = (ms_of_day / 1000, ms_of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

/// The Gregorian date of a day since 1970. Years begin in March here, so that the day that some
/// years have more is their last.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_FROM_MARCH_OF_YEAR_0: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days_since_1970 + DAYS_FROM_MARCH_OF_YEAR_0;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let leap_days = day_of_era / 1460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FeedMessage;

    #[test]
    fn moments() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (951_868_799_999, "2000-02-29T23:59:59.999+00:00"),
            (1_704_067_199_000, "2023-12-31T23:59:59.000+00:00"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000+00:00"),
            (1_787_316_177_123, "2026-08-21T12:42:57.123+00:00"),
        ] {
            assert_eq!(timestamp(unix_ms), text);
        }
    }

    #[test]
    fn what_is_published_can_be_read() {
        let mut message = Vec::new();
        NewEvent {
            project: "console",
            roles: &["guests"],
            names: &["test.event"],
            channels: &["tests"],
            time_unix_ms: 0,
            payload: r#"{"response":"WS:/v1/realtime:passed"}"#,
        }
        .encode(&mut message);
        let event = FeedMessage::parse(&message, 1 << 20).unwrap();
        assert_eq!(&*event.project, "console");
        assert_eq!(event.names(), ["test.event"]);
        assert_eq!(event.attributes()["response"], "WS:/v1/realtime:passed");
        assert!(!event.for_everyone());
    }
}
