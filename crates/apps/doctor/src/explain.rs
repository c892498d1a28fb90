//! Translation of an error to the limit behind it.

use crate::plan::Role;
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

/// Names the limit behind an error number, seen at an end with this role; `None` when the
/// number is not of a limit.
pub fn explain_errno(code: i32, role: Role) -> Option<Explanation> {
    let rows = include_str!("errors.txt").lines();
    let mut rows = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    rows.find_map(|row| match row[..] {
        [error, end, limit, sentence] => {
            let number: i32 = error.split(' ').next()?.parse().ok()?;
            let is_seen = end == "any" || role.opens();
            (number == code && is_seen).then_some(Explanation { limit, sentence })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use throng_sys::errno;

    use super::*;
    use crate::tests::{stock, tree};
    use crate::{Machine, Plan, assess};

    #[test]
    fn errors_name_limits() {
        use Role::{Both, Loadgen, Server};
        for (code, role, limit) in [
            (errno::EMFILE, Server, Some("nofile")),
            (errno::EMFILE, Loadgen, Some("nofile")),
            (errno::ENFILE, Server, Some("file-max")),
            (errno::EADDRNOTAVAIL, Loadgen, Some("ip_local_port_range")),
            (errno::EADDRNOTAVAIL, Both, Some("ip_local_port_range")),
            // A server that binds an address it does not have has hit no limit.
            (errno::EADDRNOTAVAIL, Server, None),
            (errno::EADDRINUSE, Loadgen, Some("ip_local_port_range")),
            (errno::EADDRINUSE, Server, None),
            (errno::ENOSPC, Server, Some("max_user_watches")),
            (errno::ENOBUFS, Server, Some("tcp_mem")),
            (errno::ENOMEM, Loadgen, Some("MemAvailable")),
            (errno::EPERM, Loadgen, Some("nf_conntrack_max")),
            (errno::ETIMEDOUT, Loadgen, Some("somaxconn")),
            (errno::ETIMEDOUT, Server, None),
            (errno::ECONNREFUSED, Loadgen, None),
            (errno::ECONNRESET, Server, None),
            (0, Both, None),
            (-1, Both, None),
        ] {
            let found = explain_errno(code, role).map(|explanation| explanation.limit);
            assert_eq!(found, limit, "{code} {role:?}");
        }
    }

    #[test]
    fn an_explanation_gains_numbers_and_a_line_from_a_report() {
        let root = tree(&[stock()]);
        let plan = Plan::new(Role::Loadgen, Some(1_000_000));
        let report = assess(&Machine::read(root.path()), &plan);
        let text = explain_errno(errno::EADDRNOTAVAIL, Role::Loadgen)
            .unwrap()
            .on(&report);
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
