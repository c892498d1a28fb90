//! Loads in stages: so many connections by then, so many more by then.

use throng_types::units::{grouped, parse_count, parse_duration_us};

use super::{Phase, Schedule};

/// A stage: within its time the connections grow evenly to its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Connections at its end.
    pub clients: u64,
    /// How long it takes, in µs.
    pub duration_us: u64,
}

impl Stage {
    /// `10k:2m`: ten thousand connections after two minutes.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (clients, duration) = text.split_once(':').ok_or_else(|| {
            format!("`{text}` is not a stage; write `10k:2m` for 10,000 connections within 2 min")
        })?;
        let stage = Self {
            clients: parse_count(clients)?,
            duration_us: parse_duration_us(duration)?,
        };
        match stage.duration_us {
            0 => Err(format!("`{text}`: a stage takes some time, such as 10s")),
            _ => Ok(stage),
        }
    }

    /// The arrivals of stages one after another. A stage with the number of the one before it
    /// waits.
    ///
    /// # Errors
    /// A sentence if a stage has fewer connections than the one before it: a schedule says when
    /// connections come, and not when they go.
    pub fn schedule(stages: &[Self]) -> Result<Schedule, String> {
        let mut before = 0;
        let phases = stages.iter().map(|stage| {
            let more = stage.clients.checked_sub(before).ok_or_else(|| {
                format!(
                    "a stage with {} connections cannot follow one with {}: connections that have \
                     come stay (--lifetime ends them)",
                    grouped(stage.clients),
                    grouped(before)
                )
            })?;
            before = stage.clients;
            let per_s = more as f64 * 1e6 / stage.duration_us as f64;
            Ok(Phase {
                events_max: (more > 0).then_some(more),
                ..Phase::constant(per_s, stage.duration_us)
            })
        });
        phases.collect::<Result<_, String>>().map(Schedule::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read() {
        for (text, clients, duration_us) in [
            ("10k:2m", 10_000, 120_000_000),
            ("1:500ms", 1, 500_000),
            ("0:1s", 0, 1_000_000),
        ] {
            let stage = Stage {
                clients,
                duration_us,
            };
            assert_eq!(Stage::parse(text), Ok(stage), "{text}");
        }
        for wrong in ["", "10k", "10k:", ":2m", "10k:0s", "10k:2m:3m", "2m:10k"] {
            assert!(Stage::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn connections_grow_to_the_number_of_each_stage_within_its_time() {
        let stages = ["100:1s", "100:2s", "1100:1s", "1101:10s"];
        let stages = stages.map(|text| Stage::parse(text).unwrap());
        let schedule = Stage::schedule(&stages).unwrap();
        assert_eq!(schedule.count(), 1_101);
        assert_eq!(schedule.duration_us(), 14_000_000);
        for (number, at_us) in [
            (0, 0),
            (50, 500_000),
            (99, 990_000),
            (100, 3_000_000),
            (600, 3_500_000),
            (1_099, 3_999_000),
            (1_100, 4_000_000),
        ] {
            assert_eq!(schedule.at(number), Some(at_us), "{number}");
        }
        let fewer = [stages[2], stages[0]];
        let why = Stage::schedule(&fewer).unwrap_err();
        assert!(
            why.contains("100 connections cannot follow one with 1,100"),
            "{why}"
        );
    }
}
