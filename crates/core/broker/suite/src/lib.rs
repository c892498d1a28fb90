//! Contract of every broker, as tests that each broker runs.
//!
//! A broker brings a [`Cluster`]: all its parts, and the links between them. The suite speaks to
//! it as hubs would, lets things happen one by one in an order that comes from a seed, and looks at
//! what reaches each hub. Nothing may be expected at once: replies may come late, so every property
//! holds after [`Cluster::step`] has nothing more to do.
//!
//! ```ignore
//! throng_broker_suite::tests!(|setup| Box::new(MyCluster::new(setup)));
//! ```
//!
//! Never: a hub, the clock.

mod bounds;
mod cluster;
mod delivery;
mod presence;
mod random;
mod streams;
mod tester;

pub use bounds::*;
pub use cluster::{Cluster, HubMessage, Late, Make, Parts, Setup, TestHub};
pub use delivery::*;
pub use presence::*;
pub use random::*;
pub use streams::*;
pub use tester::Tester;

/// Runs a property with one, two, three and 64 shards.
pub fn check(property: fn(&mut Tester), make: Make) {
    for (shards, seeds) in [(1, 2), (2, 4), (3, 8), (64, 1)] {
        for seed in 0..seeds {
            // Shown if it fails.
            println!("{shards} shards, seed {seed}");
            property(&mut Tester::new(make, shards, seed));
        }
    }
}

/// A test for each property.
#[macro_export]
macro_rules! tests {
    ($make:expr) => {
        $crate::tests!(
            $make =>
            positions_rise_and_begin_at_one_epoch,
            recovery_is_whole_or_lost,
            recovery_is_for_channels_that_have_it,
            a_cache_gives_the_newest,
            a_forgotten_stream_is_never_continued,
            history_pages_go_both_ways,
            history_expires,
            old_history_goes_when_its_channel_is_full,
            a_key_is_published_once,
            everybody_gets_the_same_order,
            only_subscribers_get_publications,
            many_at_once_are_as_each_alone,
            a_trace_comes_with_its_publication,
            what_is_not_kept_is_delivered,
            nothing_is_kept_of_those_who_left,
            unknown_channels_are_refused,
            history_stays_within_its_bytes,
            one_reply_carries_only_so_much,
            a_full_hub_makes_publishers_busy,
            every_request_has_one_reply,
            nothing_is_lost_or_doubled_in_any_order,
            members_are_those_who_came_and_have_not_left,
            users_come_with_their_first_connection_and_leave_with_their_last,
            who_comes_hears_of_it_after_its_reply,
            a_long_list_is_not_cut,
            an_older_version_is_not_published,
            versions_are_compared_with_the_newest_of_all,
            a_history_is_forgotten_and_its_stream_goes_on,
        );
    };
    ($make:expr => $($property:ident),* $(,)?) => {
        $(
            #[test]
            fn $property() {
                $crate::check($crate::$property, $make);
            }
        )*
    };
}
