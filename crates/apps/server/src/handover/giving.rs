//! A shard of the old process: comes to rest, gives what it holds, and lets go or goes on.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use throng_engine::{Linux, Running};
use throng_types::Parts;

use super::order::{Giving, Moved, Word};
use super::parcel::Parcel;
use super::steps;
use super::taking::HUB;
use crate::list::GatewayList;
use crate::shard::ShardApp;

/// Longest wait until the new process hears every channel, and until the old one has what comes
/// before that.
const CUT: Duration = Duration::from_secs(8);

/// Hands over one shard, which goes on afterwards: as before, or to drain what has stayed.
///
/// # Errors
/// If the reactor fails.
pub(crate) fn give<L: GatewayList>(
    running: &mut Running<ShardApp<L>>,
    giving: &Giving,
) -> io::Result<()> {
    steps::be_still(running);
    let rests = rest(running, giving)?;
    // The caller may have given up; the verdict says so.
    let mut goes_on = || drop(giving.report.send(Word::GoesOn));
    let parcel = rests.map(|()| Parcel::pack(running, &mut goes_on));
    let sent = match &parcel {
        Ok(parcel) => send(parcel, giving).map_err(|error| error.to_string()),
        Err(why) => Err(why.clone()),
    };
    let counts = sent.map(|()| Moved {
        moved: parcel.as_ref().map_or(0, Parcel::len),
        stay: running.conns().len(),
    });
    // Then no verdict comes.
    let _ = giving.report.send(Word::Sent(counts));
    let is_over = giving.verdict.recv().is_ok();
    match parcel {
        Ok(parcel) if is_over => steps::leave(running, parcel, giving.drain),
        parcel => steps::go_on(running, parcel.ok()),
    }
    Ok(())
}

/// Finishes what was begun, and what a broker elsewhere delivers before the new process hears it;
/// or says why not.
fn rest<L: GatewayList>(
    running: &mut Running<ShardApp<L>>,
    giving: &Giving,
) -> io::Result<Result<(), String>> {
    if !come_to_rest(running, giving, giving.until, |_| true)? {
        let why = "the shards have too much under way to come to rest";
        return Ok(Err(why.to_owned()));
    }
    running.app_mut().stop_at(Some(giving.cut));
    match send_expected(running.app(), giving) {
        Ok(false) => return Ok(Ok(())),
        Ok(true) => {}
        Err(error) => return Ok(Err(error.to_string())),
    }
    let until = giving.until + CUT;
    Ok(
        match come_to_rest(running, giving, until, ShardApp::has_stopped)? {
            true => Ok(()),
            false => Err("the broker does not deliver to the new process in time".to_owned()),
        },
    )
}

/// Sends which channels the new process is to hear from elsewhere; false if there are none.
fn send_expected<L: GatewayList>(app: &ShardApp<L>, giving: &Giving) -> io::Result<bool> {
    let mut sent = Ok(());
    let mut send_piece = |piece: &[u8]| {
        if sent.is_ok() {
            let message = [&[HUB], piece].concat();
            sent = giving.link.send(&message, &[]);
            let _ = giving.report.send(Word::GoesOn);
        }
    };
    let mut parts = Parts::new(&mut send_piece);
    let any = app.save_expected(giving.cut, &mut parts);
    parts.end();
    sent.map(|()| any)
}

/// Goes on until all shards rest at the same time, and this is over on each; false if that takes
/// too long.
fn come_to_rest<L: GatewayList>(
    running: &mut Running<ShardApp<L>>,
    giving: &Giving,
    until: Instant,
    is_over: impl Fn(&ShardApp<L>) -> bool,
) -> io::Result<bool> {
    loop {
        loop {
            if !steps::still_turn(running)? {
                break;
            }
            if Instant::now() > until {
                return Ok(false);
            }
        }
        if giving.meeting.meet(false, until).is_none() {
            return Ok(false);
        }
        // None of them runs now.
        let is_busy = steps::is_busy(running) || !is_over(running.app());
        match giving.meeting.meet(is_busy, until) {
            Some(true) => {}
            Some(false) => return Ok(true),
            None => return Ok(false),
        }
    }
}

/// Sends the hub, then the connections in the order of their places. Nothing is given away by it.
fn send(parcel: &Parcel<Linux>, giving: &Giving) -> io::Result<()> {
    parcel.each(|message, sockets| {
        let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.as_fd()).collect();
        giving.link.send(message, &fds)?;
        // The caller may have given up; the verdict says so.
        let _ = giving.report.send(Word::GoesOn);
        Ok(())
    })
}
