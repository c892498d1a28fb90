//! A timer that wakes the poll to the microsecond; the poll's own timeout counts in milliseconds.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// One timer descriptor with one alarm.
#[derive(Debug)]
pub(super) struct Timer {
    fd: OwnedFd,
}

impl Timer {
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { fd })
    }

    /// Wakes the poll once after `delay`, and forgets the alarm before.
    pub(super) fn set(&self, delay: Duration) -> io::Result<()> {
        // Zero would switch it off.
        let delay = delay.max(Duration::from_nanos(1));
        let alarm = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: delay.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: delay.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &alarm)?;
        Ok(())
    }
}
