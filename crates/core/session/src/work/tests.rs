use super::*;

const LIMITS: WorkLimits = WorkLimits {
    messages_per_s_max: 100,
    requests_per_s_max: 1_000,
    address_ms_per_s_max: 500,
    channels_max: 128,
    counts_private: false,
};
const STRANGER: &str = "192.0.2.7";

fn at(ms: u64) -> Now {
    Now::new(ms, 0)
}

fn meter(limits: WorkLimits) -> Meter {
    Meter::new(limits, [3, 9])
}

/// Counts how often a connection may do a piece of work at one moment.
fn burst(meter: &Meter, work: Work, now: Now) -> usize {
    (0..1_000_000)
        .take_while(|_| meter.spend(work, now).is_ok())
        .count()
}

/// A connection of an address that is not counted.
fn alone(limits: WorkLimits) -> Meter {
    let meter = meter(limits);
    meter.lend(Allowance::default());
    meter
}

#[test]
fn two_seconds_of_messages_may_come_at_once_and_time_brings_more() {
    for (per_s, first, after_a_second) in [(1, 2, 1), (100, 200, 100), (50_000, 100_000, 50_000)] {
        let meter = alone(WorkLimits {
            messages_per_s_max: per_s,
            ..LIMITS
        });
        assert_eq!(burst(&meter, Work::Message, at(5_000)), first, "{per_s}");
        assert_eq!(
            meter.spend(Work::Message, at(5_000)),
            Err(Overspent::Connection)
        );
        let second = burst(&meter, Work::Message, at(6_000));
        assert_eq!(second, after_a_second, "{per_s}");
        // However long it was silent, it has no more than at first.
        assert_eq!(
            burst(&meter, Work::Message, at(9_000_000)),
            first,
            "{per_s}"
        );
    }
}

#[test]
fn a_limit_of_zero_is_none() {
    let meter = alone(WorkLimits {
        messages_per_s_max: 0,
        requests_per_s_max: 0,
        ..LIMITS
    });
    for work in [Work::Message, Work::Subscribe, Work::Request] {
        for _ in 0..100_000 {
            assert_eq!(meter.spend(work, at(0)), Ok(()), "{work:?}");
        }
    }
}

#[test]
fn a_page_may_subscribe_to_all_its_channels_at_once_and_publish() {
    for (per_s, channels_max) in [(100, 128), (100, 500), (1, 500), (20, 65_535)] {
        let meter = alone(WorkLimits {
            messages_per_s_max: per_s,
            channels_max,
            ..LIMITS
        });
        for n in 0..channels_max {
            assert_eq!(
                meter.spend(Work::Subscribe, at(0)),
                Ok(()),
                "{n} of {channels_max}"
            );
        }
        assert_eq!(meter.spend(Work::Message, at(0)), Ok(()), "{per_s}");
    }
}

#[test]
fn what_goes_to_another_node_is_paid_by_its_bytes() {
    let counts = [0, 64 << 10].map(|bytes| {
        let meter = alone(LIMITS);
        burst(&meter, Work::Carry { bytes }, at(5_000))
    });
    assert_eq!(counts, [13_333, 3_344]);
}

#[test]
fn the_fourth_bad_token_ends_the_trust() {
    let meter = alone(LIMITS);
    let bad = Some(TokenFault::Signature);
    for _ in 0..3 {
        meter.token_checked(Some(Algorithm::Hs256), bad, at(0));
        assert!(!meter.has_lost_trust());
        assert_eq!(meter.spend(Work::Message, at(0)), Ok(()));
    }
    // These count as what the issuer has signed.
    for fault in [None, Some(TokenFault::Expired)] {
        meter.token_checked(Some(Algorithm::Hs256), fault, at(0));
        assert!(!meter.has_lost_trust(), "{fault:?}");
    }
    // Nothing was computed for it, and it is bad all the same.
    meter.token_checked(None, Some(TokenFault::Malformed), at(0));
    assert!(meter.has_lost_trust());
    assert_eq!(meter.spend(Work::Message, at(0)), Err(Overspent::Tokens));
    meter.token_checked(None, bad, at(0));
    // And it stays so, whatever the connection is lent for next.
    let own = meter.take_back().unwrap();
    meter.lend(own);
    assert_eq!(
        meter.spend(Work::Message, at(90_000)),
        Err(Overspent::Tokens)
    );
}

#[test]
fn dear_tokens_use_an_allowance_up_and_cheap_ones_do_not() {
    let checks = |algorithm| {
        let meter = alone(LIMITS);
        (0..2_000)
            .take_while(|_| {
                meter.token_checked(Some(algorithm), None, at(0));
                meter.spend(Work::Message, at(0)).is_ok()
            })
            .count()
    };
    // Five hundred private channels with good tokens are no attack.
    for (algorithm, least, most) in [
        (Algorithm::Hs256, 150, 250),
        (Algorithm::Es256, 150, 200),
        (Algorithm::Es384, 100, 170),
    ] {
        let count = checks(algorithm);
        assert!((least..most).contains(&count), "{algorithm}: {count}");
    }
    let meter = alone(WorkLimits {
        channels_max: 500,
        ..LIMITS
    });
    for n in 0..500 {
        assert_eq!(meter.spend(Work::Subscribe, at(0)), Ok(()), "{n}");
        meter.token_checked(Some(Algorithm::Es384), None, at(0));
    }
}

#[test]
fn an_address_pays_for_all_its_connections() {
    let meter = meter(LIMITS);
    let payer = meter.payer(STRANGER.parse().unwrap());
    assert_ne!(payer, Payer::NOBODY);
    let mut connections = 0;
    // Each with three bad tokens, which is what one connection may bring.
    while connections < 10_000 {
        meter.pays(payer);
        meter.lend(Allowance::default());
        if meter.spend(Work::Request, at(0)).is_err() {
            break;
        }
        for _ in 0..3 {
            meter.token_checked(Some(Algorithm::Es384), Some(TokenFault::Signature), at(0));
        }
        connections += 1;
    }
    // 1.15 ms count ten times, at half of each second: about ninety tokens in two seconds.
    assert!((20..40).contains(&connections), "{connections}");
    assert_eq!(meter.spend(Work::Request, at(0)), Err(Overspent::Address));
    assert!(!meter.admits(STRANGER.parse().unwrap(), Work::Arrival, at(0)));
    // The next address is not to blame, and time heals.
    assert!(meter.admits("192.0.2.8".parse().unwrap(), Work::Arrival, at(0)));
    assert!(meter.admits(STRANGER.parse().unwrap(), Work::Arrival, at(3_000)));
    assert_eq!(meter.spend(Work::Request, at(3_000)), Ok(()));
}

#[test]
fn an_ipv6_address_does_not_escape_within_its_64() {
    let meter = meter(LIMITS);
    let payer = |text: &str| meter.payer(text.parse().unwrap());
    assert_eq!(payer("2001:db8::1"), payer("2001:db8::2"));
    assert_ne!(payer("2001:db8::1"), payer("2001:db8:0:1::1"));
    let bits = payer("2001:db8::1").to_bits().unwrap();
    assert!(bits < 1 << 30);
    assert_eq!(Payer::from_bits(bits), payer("2001:db8::1"));
    assert_eq!(Payer::NOBODY.to_bits(), None);
}

#[test]
fn proxies_close_by_are_not_counted_unless_they_are_named() {
    for address in ["127.0.0.1", "10.0.0.1", "fd00::1"] {
        let address = address.parse().unwrap();
        assert_eq!(meter(LIMITS).payer(address), Payer::NOBODY);
        let counts = WorkLimits {
            counts_private: true,
            ..LIMITS
        };
        assert_ne!(meter(counts).payer(address), Payer::NOBODY);
    }
    let off = WorkLimits {
        address_ms_per_s_max: 0,
        ..LIMITS
    };
    assert_eq!(meter(off).payer(STRANGER.parse().unwrap()), Payer::NOBODY);
}

/// A thousand addresses that have spent all do not keep ten thousand others out.
#[test]
fn a_full_table_harms_few() {
    let meter = meter(LIMITS);
    let address = |n: u32| IpAddr::from((0xc000_0200_u32 + n).to_be_bytes());
    for n in 0..1_000 {
        meter.pays(meter.payer(address(n)));
        meter.lend(Allowance::default());
        while meter.spend(Work::Session, at(0)).is_ok() {
            let algorithm = Algorithm::Es384;
            let is_good = false;
            meter.charge(Work::Token { algorithm, is_good }, at(0));
        }
    }
    let harmed = (1_000..11_000).filter(|n| !meter.admits(address(*n), Work::Arrival, at(0)));
    let harmed = harmed.count();
    assert!(harmed < 100, "{harmed}");
}

/// A list of members costs as a list, for its connection and its address; a few cost nothing more.
#[test]
fn answers_are_charged_by_what_is_in_them() {
    let few = Work::answer(3, 400);
    let (list, page) = (Work::answer(2_500, 250_000), Work::answer(10, 1_000_000));
    assert_eq!((few.cpu_us(), list.cpu_us(), page.cpu_us()), (1, 994, 979));
    let meter = meter(LIMITS);
    let asked = |answer| {
        let mut own = Allowance::default();
        (0..1_000)
            .take_while(|_| {
                meter.lend(own);
                let may = meter.spend(Work::Message, at(0)).is_ok();
                own = meter.take_back().unwrap();
                meter.charge_own(&mut own, answer, at(0));
                may
            })
            .count()
    };
    assert_eq!((asked(few), asked(list), asked(page)), (200, 25, 25));
    // Whatever one answer holds, the connection may go on asking.
    assert_eq!(asked(Work::answer(1_000, 8 << 20)), 3);
    let stranger = STRANGER.parse().unwrap();
    let payer = meter.payer(stranger);
    let lists = (0..100_000).take_while(|_| {
        meter.charge_payer(payer, list, at(0));
        meter.admits(stranger, Work::Message, at(0))
    });
    // Half of each second is his, and two seconds come at once.
    let lists = lists.count();
    assert!((950..1_050).contains(&lists), "{lists}");
}

/// An address at its bound pays for an answer, so each answer keeps it away for as long as it cost.
#[test]
fn an_address_at_its_bound_pays_for_what_was_done() {
    let meter = meter(LIMITS);
    let stranger = STRANGER.parse().unwrap();
    while meter.admits(stranger, Work::Session, at(0)) {}
    // Half of each second is his: 100 ms cost 200.
    let answer = Work::answer(0, 102_400_000);
    meter.charge_payer(meter.payer(stranger), answer, at(0));
    assert!(!meter.admits(stranger, Work::Session, at(199)));
    assert!(meter.admits(stranger, Work::Session, at(201)));
}

#[test]
fn without_a_connection_nothing_is_counted() {
    let meter = meter(LIMITS);
    assert_eq!(meter.spend(Work::Message, at(0)), Ok(()));
    meter.charge(Work::Request, at(0));
    meter.token_checked(None, Some(TokenFault::Malformed), at(0));
    assert!(!meter.has_lost_trust());
    assert!(meter.take_back().is_none());
}

#[test]
fn it_is_small() {
    // Every connection pays this.
    assert_eq!(size_of::<Allowance>(), 8);
}
