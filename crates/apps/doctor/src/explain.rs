//! Translation of an error to the limit behind it.

use crate::report::Report;

/// Explanation of a limit that was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Name in the kernel, equal to the id of a check where there is one.
    pub limit: &'static str,
    /// Sentence on the failure.
    pub sentence: &'static str,
}

impl Explanation {
    /// Adds the limit's value on this machine and the first line that lifts it.
    pub fn on(&self, report: &Report) -> String {
        let check = report.check(self.limit);
        let current = check.and_then(|check| check.current.as_ref());
        let current = current.map_or_else(String::new, |now| format!("; now {now}"));
        let fix = check.and_then(|check| check.fix.first());
        let fix = fix.map_or_else(String::new, |fix| {
            format!("; lift it with `{}`", fix.line())
        });
        format!("{}: {}{current}{fix}", self.limit, self.sentence)
    }
}

/// Names the limit behind an error number, seen by who opens connections; `None` when the number is
/// not of a limit.
pub fn explain_errno(code: i32) -> Option<Explanation> {
    let rows = include_str!("errors.txt").lines();
    let mut rows = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    rows.find_map(|row| match row[..] {
        [error, limit, sentence] => {
            let number: i32 = error.split(' ').next()?.parse().ok()?;
            (number == code).then_some(Explanation { limit, sentence })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use throng_sys::errno;

    use super::*;
    use crate::tests::{stock, tree};
    use crate::{Machine, Plan, Role, assess};

    #[test]
    fn errors_name_limits() {
        for (code, limit) in [
            (errno::EMFILE, Some("nofile")),
            (errno::ENFILE, Some("file-max")),
            (errno::EADDRNOTAVAIL, Some("ip_local_port_range")),
            (errno::EADDRINUSE, Some("ip_local_port_range")),
            (errno::ENOSPC, Some("max_user_watches")),
            (errno::ENOBUFS, Some("tcp_mem")),
            (errno::ENOMEM, Some("MemAvailable")),
            (errno::EPERM, Some("nf_conntrack_max")),
            (errno::ETIMEDOUT, Some("somaxconn")),
            (errno::ECONNREFUSED, None),
            (errno::ECONNRESET, None),
            (0, None),
            (-1, None),
        ] {
            let found = explain_errno(code).map(|explanation| explanation.limit);
            assert_eq!(found, limit, "{code}");
        }
    }

    #[test]
    fn an_explanation_gains_numbers_and_a_line_from_a_report() {
        let root = tree(&[stock()]);
        let plan = Plan::new(Role::Loadgen, Some(1_000_000));
        let report = assess(&Machine::read(root.path()), &plan);
        let text = explain_errno(errno::EADDRNOTAVAIL).unwrap().on(&report);
        for part in [
            "ip_local_port_range: no source port",
            "28,232 ports",
            "'1024 65535'",
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
        let unlisted = Explanation {
            limit: "tcp_max_tw_buckets",
            sentence: "full",
        };
        assert_eq!(unlisted.on(&report), "tcp_max_tw_buckets: full");
    }
}
