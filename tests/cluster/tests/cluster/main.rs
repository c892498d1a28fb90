//! What users of several nodes see, while all goes well and while it does not: each story on every
//! broker.

mod api;
mod asking;
mod broker;
mod clocks;
mod crowd;
mod doubt;
mod faults;
mod keyed;
mod moving;
mod names;
mod nodes;
mod presence;
mod refusing;
mod secure;
mod sentinel;
mod several;
mod slots;
mod story;
mod three_nats;

macro_rules! stories {
    ($name:ident, $kind:expr => $($module:ident::$story:ident),* $(,)?) => {
        mod $name {
            use crate::broker::Kind;

            $(
                #[test]
                fn $story() {
                    crate::$module::$story($kind);
                }
            )*
        }
    };
    ($($name:ident, $kind:expr);*) => {
        $(
            stories!(
                $name, $kind =>
                api::calls_concern_all_nodes_whichever_is_asked,
                clocks::clocks_apart_by_ten_seconds_change_nothing,
                crowd::all_clients_of_a_dead_node_come_back_at_once,
                crowd::members_come_and_go_and_a_node_dies,
                doubt::two_contents_for_one_position_are_told,
                story::commands_that_come_to_another_node_are_carried_out,
                faults::a_client_that_was_away_for_several_restarts_is_whole,
                faults::the_broker_restarts_with_its_data,
                faults::the_broker_restarts_with_an_older_copy_of_its_data,
                faults::the_broker_restarts_without_its_data,
                faults::the_broker_is_paused_until_nodes_have_reconnected_in_vain,
                faults::the_network_between_a_node_and_the_broker_is_cut,
                faults::the_network_between_a_node_and_the_broker_is_slow,
                moving::a_node_is_upgraded_while_it_has_no_broker,
                moving::an_upgrade_that_breaks_off_changes_nothing,
                moving::nobody_notices_upgrades_of_a_node,
                presence::members_are_right_after_the_broker_was_away,
                presence::members_are_right_after_an_older_copy,
                presence::members_of_all_nodes_are_listed_and_those_of_a_dead_node_are_not,
                story::what_is_published_on_any_node_is_heard_on_all_in_one_order,
                story::what_was_missed_is_recovered_on_another_node,
                story::clients_of_a_node_that_is_killed_are_whole_on_another,
            );
        )*
    };
}

stories!(on_redis, Kind::Redis; on_nats, Kind::Nats);
