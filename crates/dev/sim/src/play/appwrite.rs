//! What Appwrite does in a run: events, users that change, answers to look-ups.

use throng_appwrite::FeedMessage;

use super::Play;
use crate::directory::{Answer, SECRET, USERS};
use crate::setup::{APPWRITE, CHANNELS};

/// Bytes of one event.
const FEED_BYTES_MAX: usize = 100_000;

impl Play {
    pub(super) fn appwrite_acts(&mut self) {
        let Some(feed) = &mut self.feed else {
            return;
        };
        if self.net.percent(3) {
            self.net.count("Appwrite's events begin anew");
            if self.net.percent(50) {
                self.directory.change_unheard(self.net.below(USERS));
            }
            self.directory.gap();
            return feed.begin_anew();
        }
        if self.net.percent(30) {
            return self.team_acts();
        }
        let channel = APPWRITE + self.net.below(2);
        let n = self.witness.next_number();
        let payload = format!("{{\"n\":{n},\"pad\":\"\"}}");
        self.witness.sends(&[channel], payload.as_bytes(), false);
        let name = CHANNELS[channel].name;
        let event = format!(
            "{{\"project\":\"sim\",\"roles\":[\"any\"],\"data\":{{\"events\":[\"{name}.create\"],\
             \"channels\":[\"{name}\"],\"timestamp\":\"now\",\"payload\":{payload}}}}}"
        );
        self.tell_appwrite(&event);
        self.witness.accepts(n);
    }

    /// A user joins or leaves the team, or an event for the team happens.
    fn team_acts(&mut self) {
        if self.net.percent(50) {
            self.tell_secret();
            return;
        }
        let number = self.net.below(USERS);
        let user = format!("u{number}");
        let member = self.directory.change(number);
        let action = if member { "update" } else { "delete" };
        // Some events do not name what has changed.
        let what = match self.net.percent(70) {
            true => format!("teams.T.memberships.m-{user}.{action}"),
            false => "teams.T.create".to_owned(),
        };
        self.tell_appwrite(&format!(
            "{{\"project\":\"sim\",\"roles\":[\"team:T\"],\"permissionsChanged\":true,\
                 \"userId\":\"{user}\",\"data\":{{\"events\":[\"{what}\"],\
                 \"channels\":[\"memberships\"],\"payload\":{{\"$id\":\"m-{user}\",\
                 \"teamId\":\"T\",\"confirm\":{member},\"roles\":[]}}}}}}"
        ));
    }

    fn tell_secret(&mut self) -> usize {
        let secret = self.directory.secret();
        self.tell_appwrite(&format!(
            "{{\"project\":\"sim\",\"roles\":[\"team:T\"],\"data\":{{\"events\":[\"e\"],\
                 \"channels\":[\"{SECRET}\"],\"payload\":{{\"secret\":{secret}}}}}}}"
        ));
        secret
    }

    fn tell_appwrite(&mut self, event: &str) {
        self.net.note(format_args!("Appwrite tells {event}"));
        let event = FeedMessage::parse(event.as_bytes(), FEED_BYTES_MAX);
        if let Some(feed) = &mut self.feed {
            feed.publish(event.expect("a good event"));
        }
    }

    /// Appwrite answers a look-up, any of those that wait.
    pub(super) fn look_up(&self) {
        let waiting = self.directory.waiting();
        if waiting == 0 {
            return;
        }
        let fails = self.net.percent(15);
        let Some(answer) = self.directory.answer(self.net.below(waiting), fails) else {
            return;
        };
        if fails {
            self.net.count("a look-up fails");
        }
        if answer.overtaken {
            self.net.count("a user changes while it is looked up");
        }
        if let Some(feed) = &self.feed {
            let Answer {
                conn, token, found, ..
            } = &answer;
            self.net
                .note(format_args!("Appwrite answers {conn:?} {token}: {found:?}"));
            feed.answer(answer);
        }
    }

    /// Lets failed look-ups repeat, makes every change known, and publishes one event for the
    /// team. Returns the number in that event.
    pub(super) fn settle_team(&mut self) -> usize {
        for _ in 0..2 {
            self.net.pass_us(11_000_000);
            self.rest();
        }
        self.directory.all_known();
        let secret = self.tell_secret();
        self.rest();
        secret
    }
}
