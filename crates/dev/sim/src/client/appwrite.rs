//! Appwrite Realtime: the first words and events.

use serde_json::Value;

use super::state::{Around, Client};
use super::streams::text;
use crate::payload::Got;

impl Client {
    pub(super) fn appwrite(&mut self, words: &Value, around: &mut Around<'_>) {
        match text(words, "type") {
            "connected" => {
                let who = self.who();
                let link = self.link.as_mut().expect("it reads");
                assert!(!link.open, "{who}: first words come first, and once");
                self.all_begin(around);
            }
            "event" => {
                let data = &words["data"];
                let name = data["channels"][0].as_str().expect("a channel");
                let channel = around.witness.channel(name);
                let track = self.track(channel, around);
                around
                    .witness
                    .gets(track, &Got::Json(&data["payload"]), None);
            }
            "pong" => {}
            "error" => {
                // The close follows.
                note!(around.net, "{} is refused: {words}", self.who());
            }
            _ => panic!("{}: words that nobody knows: {words}", self.who()),
        }
    }
}
