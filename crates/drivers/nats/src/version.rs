//! Versions of NATS that keep what the driver rests on.
//!
//! With one copy of a stream, `Nats-Expected-Last-Subject-Sequence` is compared where the message
//! is stored. With several, old servers compare it before they agree on the message: of three that
//! expect one sequence, two are often acknowledged (2.9.10: in 143 of 200 rounds; 2.9.25, 2.10.0
//! and 2.10.29: in none of 200).

/// The most copies of a stream, and the first version that is right for so many.
const FIRST: [(u8, [u64; 3]); 2] = [(1, [2, 9, 0]), (u8::MAX, [2, 9, 25])];

/// Whether a server of this version is right for so many copies.
///
/// # Errors
/// Why not, and what to do, in words.
pub(crate) fn check(version: &str, replicas: u8) -> Result<(), String> {
    let least = FIRST.iter().find(|(most, _)| replicas <= *most);
    let Some((_, least)) = least else {
        return Ok(());
    };
    // `2.12.0-RC.1` is 2.12.0.
    let number = version.split('-').next().unwrap_or_default();
    let mut numbers = number.split('.').map(|it| it.parse::<u64>().ok());
    let numbers = [(); 3].map(|()| numbers.next().flatten().unwrap_or_default());
    if numbers >= *least {
        return Ok(());
    }
    let [major, minor, patch] = least;
    let least = format!("{major}.{minor}.{patch}");
    Err(match replicas {
        1 => format!("NATS is version {version:?}, and {least} is the oldest that Throng can use"),
        _ => format!(
            "NATS is version {version:?}, which loses acknowledged publications where \
             broker.replicas is {replicas}: use NATS {least} or later on all of its servers, or \
             one server and broker.replicas = 1"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn versions_are_right_for_so_many_copies() {
        for (version, one, three) in [
            ("2.8.4", false, false),
            ("2.9.0", true, false),
            ("2.9.10", true, false),
            ("2.9.24", true, false),
            ("2.9.25", true, true),
            ("2.10.0", true, true),
            ("2.12.0-RC.1", true, true),
            ("3.0.0", true, true),
            ("", false, false),
            ("x", false, false),
        ] {
            let right = [1, 3].map(|replicas| check(version, replicas).is_ok());
            assert_eq!(right, [one, three], "{version}");
        }
        let why = check("2.9.10", 3).unwrap_err();
        assert!(
            why.contains("2.9.25") && why.contains("broker.replicas"),
            "{why}"
        );
    }
}
