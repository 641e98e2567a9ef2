//! Every model of `schedules.rs` as a test.

macro_rules! holds {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                shardpack_model::schedules::$name();
            }
        )*
    };
}

holds! {
    work_is_done_once_each_and_so_many_at_once_whoever_waits
    owners_may_wait_in_any_order
    work_that_is_given_up_keeps_nobody_waiting
    a_reactor_that_is_gone_leaves_nobody_waiting
    a_promise_is_kept_broken_or_known_to_be_unwanted
    a_pace_gives_as_many_places_as_it_says_and_lets_everybody_in
    a_full_link_lets_everybody_in_and_forgets_who_gives_up
    packers_get_their_samples_in_order_with_their_own_contents
}
