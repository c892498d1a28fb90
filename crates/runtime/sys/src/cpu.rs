//! Processors: how many, and how much of their time was used.

use std::io;
use std::mem::MaybeUninit;

use rustix::param::clock_ticks_per_second;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user_us: u64,
    /// In the kernel, on behalf of that code.
    pub system_us: u64,
}

impl CpuTime {
    pub const fn total_us(self) -> u64 {
        self.user_us.saturating_add(self.system_us)
    }
}

/// Returns the number of threads that can run at once: allowed cores, cut by a cgroup's quota; at
/// least 1.
pub fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of a process since its start, all threads; `None` is this process.
///
/// This process is measured to the microsecond, another one to the kernel's clock tick (10 ms).
/// Errors: `NotFound` when no such process exists; `InvalidData` when its `/proc` entry is
/// unreadable.
pub fn process_time(pid: Option<u32>) -> io::Result<CpuTime> {
    let Some(pid) = pid else {
        return usage(libc::RUSAGE_SELF);
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_stat(&stat, clock_ticks_per_second()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// CPU time of the calling thread since its start. Errors: those of getrusage(2), which has none
/// for valid arguments.
pub fn thread_time() -> io::Result<CpuTime> {
    usage(libc::RUSAGE_THREAD)
}

/// rustix has no getrusage(2).
fn usage(who: libc::c_int) -> io::Result<CpuTime> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writing one `rusage`, and the kernel writes no more.
    if unsafe { libc::getrusage(who, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and so filled the value; all zero bytes, which it held before,
    // are a valid `rusage` as well, since it consists of integers.
    let usage = unsafe { usage.assume_init() };
    Ok(CpuTime {
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
    })
}

fn micros(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000)
        .saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// Fields 14 and 15 of proc_pid_stat(5). The name in field 2 may hold spaces and parentheses,
/// so counting starts after its last closing one.
fn parse_stat(stat: &str, ticks_per_s: u64) -> Option<CpuTime> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next_us = || {
        let ticks: u64 = fields.next()?.parse().ok()?;
        ticks.saturating_mul(1_000_000).checked_div(ticks_per_s)
    };
    Some(CpuTime {
        user_us: next_us()?,
        system_us: next_us()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_grows_with_work() {
        let (thread, process) = (thread_time().unwrap(), process_time(None).unwrap());
        let mut x = 1_u64;
        while thread_time().unwrap().total_us() <= thread.total_us() + 2_000 {
            for _ in 0..10_000 {
                x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
        }
        assert!(process.total_us() + 2_000 < process_time(None).unwrap().total_us());
        assert!(process_time(Some(std::process::id())).is_ok());
        assert_eq!(
            process_time(Some(u32::MAX)).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn stat_is_read_past_any_name() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20";
        let expect = Some(CpuTime {
            user_us: 2_500_000,
            system_us: 310_000,
        });
        for name in ["throng", "a b", "a) S (b", ")", ""] {
            assert_eq!(
                parse_stat(&format!("7 ({name}) {tail}"), 100),
                expect,
                "{name:?}"
            );
        }
        for bad in [
            "",
            "7 (x",
            "7 (x) S 1 2",
            "7 (x) S 1 2 3 4 5 6 7 8 9 10 u s",
        ] {
            assert_eq!(parse_stat(bad, 100), None, "{bad:?}");
        }
        assert_eq!(parse_stat(&format!("7 (x) {tail}"), 0), None);
    }
}
