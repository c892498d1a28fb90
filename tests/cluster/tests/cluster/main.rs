//! What users of several nodes see, while all goes well and while it does not. Most stories are
//! dialogues (`docs/TESTING.md` has their words); here are those with many clients or publishers,
//! and those in which a network changes answers.

mod crowd;
mod doubt;
mod hooks;
mod names;
mod nodes;
mod three_nats;

macro_rules! stories {
    ($($name:ident, $broker:expr, $seed:literal);*) => {
        $(
            mod $name {
                use crate::nodes::Broker;
                use crate::{crowd, doubt, hooks};

                #[test]
                fn all_clients_of_a_dead_node_come_back_at_once() {
                    crowd::all_clients_of_a_dead_node_come_back_at_once($broker);
                }

                #[test]
                fn members_come_and_go_and_a_node_dies() {
                    crowd::members_come_and_go_and_a_node_dies($broker);
                }

                #[test]
                fn two_contents_for_one_position_are_told() {
                    doubt::two_contents_for_one_position_are_told($broker);
                }

                #[test]
                fn webhooks_lose_nothing_and_are_true_in_the_end() {
                    hooks::webhooks_lose_nothing_and_are_true_in_the_end(&$broker, $seed);
                }
            }
        )*
    };
}

stories!(on_redis, Broker::redis(), 1; on_nats, Broker::nats(), 2);

throng_testkit::dialogues! {
    "dialogues", throng_testkit::play;
    included: nodes;
    redis: api faults moving presence redis secure sentinel slots story;
    nats: api faults moving nats presence story three_nats;
}
