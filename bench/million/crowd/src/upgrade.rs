//! An upgrade in the midst of it: another process takes over from the server, and no client may
//! notice.

use std::time::{Duration, Instant};

use crate::drive::{Run, say};
use crate::sample::{pss_of_both, read};

/// Interval between looks at memory during the upgrade.
const LOOK: Duration = Duration::from_millis(50);

/// Cost of one upgrade.
pub(crate) struct Upgraded {
    /// Connections that the clients held before and after.
    pub(crate) alive: [u64; 2],
    /// The server's memory before, the most of both processes together, and after: PSS.
    pub(crate) memory: [u64; 3],
    /// Line of the server's log that reports the hand-over.
    pub(crate) told: String,
}

impl Run<'_> {
    pub(crate) fn upgrade(&mut self) -> Result<Upgraded, String> {
        let (before, alive) = (self.sample("upgrade").server_pss, self.tally.alive);
        say("the server is upgraded");
        let mut most = before;
        let mut looks = String::from("ms,old_pss_bytes,new_pss_bytes\n");
        let began = Instant::now();
        let settings = self.settings;
        self.server.upgrade(settings, |server| {
            std::thread::sleep(LOOK);
            let [old, new] = pss_of_both(server.pid(), server.pids().get(1).copied());
            looks += &format!("{},{old},{new}\n", began.elapsed().as_millis());
            most = most.max(old + new);
        })?;
        let path = settings.out.join("upgrade.csv");
        std::fs::write(&path, looks).map_err(|error| format!("{}: {error}", path.display()))?;
        say(&format!("upgraded in {} s", began.elapsed().as_secs()));
        self.watch("upgraded", Duration::from_secs(30), |_| false);
        let after = self.sample("upgraded").server_pss;
        let log = read(&settings.out.join("server.log").to_string_lossy());
        let told = log.lines().find(|line| line.contains("handed over"));
        Ok(Upgraded {
            alive: [alive, self.tally.alive],
            memory: [before, most, after],
            told: told.unwrap_or_default().to_owned(),
        })
    }
}
