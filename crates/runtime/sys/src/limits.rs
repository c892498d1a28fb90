//! The process's own resource limits.
//!
//! Owns: `RLIMIT_NOFILE`, the number of descriptors this process may hold. Never: touches
//! another process or a sysctl.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits on a process's descriptors: `RLIMIT_NOFILE`, getrlimit(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nofile {
    /// Limit in force; `u64::MAX` is no limit.
    pub soft: u64,
    /// Limit up to which the process may raise `soft` by itself; `u64::MAX` is no limit.
    pub hard: u64,
}

/// Reads the limit of this process.
pub fn nofile() -> Nofile {
    let limit = getrlimit(Resource::Nofile);
    Nofile {
        soft: limit.current.unwrap_or(u64::MAX),
        hard: limit.maximum.unwrap_or(u64::MAX),
    }
}

/// Raises the soft limit to the hard one, which needs no privilege, and returns what holds now.
/// Errors: those of setrlimit(2).
pub fn raise_nofile() -> io::Result<Nofile> {
    let before = nofile();
    set_nofile(Nofile {
        soft: before.hard,
        hard: before.hard,
    })?;
    Ok(nofile())
}

/// Sets both limits of this process. Raising `hard` needs `CAP_SYS_RESOURCE`, and `fs.nr_open`
/// bounds it even then. Errors: `EPERM` without the privilege or above `fs.nr_open`; `EINVAL` when
/// `soft` is above `hard`.
pub fn set_nofile(limit: Nofile) -> io::Result<()> {
    let finite = |value| (value != u64::MAX).then_some(value);
    let limit = Rlimit {
        current: finite(limit.soft),
        maximum: finite(limit.hard),
    };
    Ok(setrlimit(Resource::Nofile, limit)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_meets_the_hard_limit_and_keeps_it() {
        let before = nofile();
        assert!(before.soft <= before.hard);
        let after = raise_nofile().unwrap();
        assert_eq!(
            after,
            Nofile {
                soft: before.hard,
                hard: before.hard
            }
        );
        assert_eq!(nofile(), after);
    }

    #[test]
    fn soft_above_hard_is_refused() {
        let now = nofile();
        if now.hard != u64::MAX {
            let error = set_nofile(Nofile {
                soft: now.hard + 1,
                hard: now.hard,
            })
            .unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
