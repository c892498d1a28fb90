//! The queue against plain bytes: whatever is not dropped leaves in order, once.

use super::*;

fn frame(text: &str) -> Frame {
    Frame::new(text.as_bytes())
}

/// Drains the queue into a kernel that takes `most` bytes at a time, and returns the bytes it got.
fn drain(queue: &mut Outbound, most: usize) -> String {
    let mut seen = Vec::new();
    while !queue.is_empty() {
        let chunk: Vec<u8> = queue.with_slices(|slices| {
            slices
                .iter()
                .flat_map(|slice| slice.to_vec())
                .take(most)
                .collect()
        });
        assert!(!chunk.is_empty(), "a queue with items offers bytes");
        queue.sent(chunk.len());
        seen.extend(chunk);
    }
    assert_eq!((queue.bytes(), queue.own.len(), queue.head_sent), (0, 0, 0));
    String::from_utf8(seen).unwrap()
}

#[test]
fn bytes_leave_in_order_whatever_the_kernel_takes() {
    for most in 1..40 {
        let mut queue = Outbound::default();
        queue.push_begun(&frame("begun"), 2);
        queue.push_own(b"one");
        queue.push_own(b"-two");
        for n in 0..100 {
            let pushed = queue.push_frame(&frame(&format!("<{n}>")), n, Overflow::Close, 1 << 20);
            assert_eq!(pushed, Pushed::Queued { dropped: 0 });
            if n % 7 == 0 {
                queue.push_own(b"+");
            }
        }
        let expect: String = std::iter::once("gunone-two".to_owned())
            .chain((0..100).map(|n| format!("<{n}>{}", if n % 7 == 0 { "+" } else { "" })))
            .collect();
        assert_eq!(queue.bytes(), expect.len());
        assert_eq!(drain(&mut queue, most), expect);
    }
}

#[test]
fn a_full_queue_closes() {
    let mut queue = Outbound::default();
    assert_eq!(
        queue.push_frame(&frame("12345"), 1, Overflow::Close, 8),
        Pushed::Queued { dropped: 0 }
    );
    assert_eq!(
        queue.push_frame(&frame("12345"), 1, Overflow::Close, 8),
        Pushed::Full
    );
    assert_eq!(drain(&mut queue, 100), "12345");
}

#[test]
fn the_oldest_goes_but_never_one_that_has_begun() {
    let mut queue = Outbound::default();
    let push = |queue: &mut Outbound, text: &str| {
        queue.push_frame(&frame(text), 1, Overflow::DropOldest, 10)
    };
    push(&mut queue, "aaaa");
    queue.sent(1);
    queue.push_own(b"!");
    push(&mut queue, "bbbb");
    assert_eq!(push(&mut queue, "cccc"), Pushed::Queued { dropped: 1 });
    assert_eq!(
        push(&mut queue, "larger than the queue"),
        Pushed::Queued { dropped: 2 }
    );
    assert_eq!(queue.dropped, 3);
    assert_eq!(drain(&mut queue, 100), "aaa!");
}

#[test]
fn only_the_latest_of_a_key_stays_while_blocked() {
    let mut queue = Outbound::default();
    let push = |queue: &mut Outbound, key, text: &str| {
        queue.push_frame(&frame(text), key, Overflow::LatestOnly, 100)
    };
    push(&mut queue, 1, "a1 ");
    push(&mut queue, 1, "a2 ");
    assert_eq!(
        queue.dropped, 0,
        "a connection that keeps up gets everything"
    );
    queue.blocked = true;
    push(&mut queue, 2, "b1 ");
    assert_eq!(push(&mut queue, 1, "a3 "), Pushed::Queued { dropped: 2 });
    assert_eq!(push(&mut queue, 2, "b2 "), Pushed::Queued { dropped: 1 });
    assert_eq!(drain(&mut queue, 2), "a3 b2 ");
}

#[test]
fn while_held_own_bytes_overtake_frames() {
    let mut queue = Outbound::default();
    let push =
        |queue: &mut Outbound, text: &str| queue.push_frame(&frame(text), 1, Overflow::Close, 100);
    push(&mut queue, "before ");
    queue.push_own(b"head ");
    queue.hold(true);
    push(&mut queue, "first ");
    queue.push_own(b"more ");
    push(&mut queue, "second ");
    let sent: usize = queue.with_slices(|slices| slices.iter().map(|slice| slice.len()).sum());
    assert_eq!(sent, "before head more ".len());
    queue.sent(sent);
    assert!(!queue.may_leave() && !queue.is_empty() && queue.is_held());
    queue.push_own(b"words ");
    assert!(queue.may_leave());
    queue.hold(false);
    queue.push_own(b"after");
    assert_eq!(drain(&mut queue, 3), "words first second after");
}

#[test]
fn own_bytes_between_dropped_frames_do_not_pile_up() {
    for overflow in [Overflow::DropOldest, Overflow::LatestOnly] {
        let mut queue = Outbound::default();
        queue.push_begun(&frame("begun "), 1);
        queue.blocked = true;
        let mut expect = "egun ".to_owned();
        for n in 0..2000 {
            queue.push_own(b".");
            expect.push('.');
            queue.push_frame(&frame("0123456789"), n % 2, overflow, 4000);
        }
        assert!(queue.items.len() < 1000, "{}", queue.items.len());
        let left = drain(&mut queue, 7);
        assert_eq!(left.replace(|c: char| c.is_ascii_digit(), ""), expect);
    }
}

#[test]
fn a_large_reply_leaves_deliveries_their_room() {
    let mut queue = Outbound::default();
    queue.push_own(&[b'r'; 100]);
    let pushed = queue.push_frame(&frame("12345"), 1, Overflow::Close, 8);
    assert_eq!(pushed, Pushed::Queued { dropped: 0 });
    queue.sent(90);
    let pushed = queue.push_frame(&frame("12345"), 1, Overflow::Close, 8);
    assert_eq!(pushed, Pushed::Full);
}

#[test]
fn a_channel_that_sheds_does_not_shed_for_one_that_closes() {
    let mut queue = Outbound::default();
    let push = |queue: &mut Outbound, overflow, text: &str| {
        queue.push_frame(&frame(text), 1, overflow, 12)
    };
    push(&mut queue, Overflow::Close, "kept ");
    push(&mut queue, Overflow::DropOldest, "shed ");
    let pushed = push(&mut queue, Overflow::DropOldest, "new ");
    assert_eq!(pushed, Pushed::Queued { dropped: 1 });
    let pushed = push(&mut queue, Overflow::DropOldest, "too large");
    assert_eq!(pushed, Pushed::Queued { dropped: 2 });
    assert_eq!(drain(&mut queue, 100), "kept ");
}

/// The cost of one delivery does not grow with items that wait before it and stay.
#[test]
fn what_stays_is_looked_at_once() {
    const KEPT: usize = 5000;
    let mut queue = Outbound::default();
    let push = |queue: &mut Outbound, overflow, text: &str| {
        queue.push_frame(&frame(text), 1, overflow, 2 * KEPT + 8)
    };
    for _ in 0..KEPT {
        push(&mut queue, Overflow::Close, "k ");
    }
    for n in 0..1000 {
        let text = format!("{n:03} ");
        let dropped = u32::from(n >= 2);
        let pushed = push(&mut queue, Overflow::DropOldest, &text);
        assert_eq!(pushed, Pushed::Queued { dropped });
        // Some of what stays leaves, and more comes.
        if n % 10 == 5 {
            queue.sent(2);
            push(&mut queue, Overflow::Close, "k ");
        }
    }
    assert!(queue.looks < KEPT + 3000, "{}", queue.looks);
    let left = drain(&mut queue, 1000);
    assert_eq!(left.replace("k ", ""), "998 999 ");
    assert_eq!(left.matches("k ").count(), KEPT);
}

/// Whatever happens to a queue, what sheds is found where it is.
#[test]
fn what_may_go_is_found_whatever_happened_before() {
    let mut rng = 7_u64;
    for _ in 0..200 {
        let mut queue = Outbound::default();
        for _ in 0..200 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pick = |shift: u32, below: u64| (rng >> shift) % below;
            let text = "x".repeat(1 + pick(33, 6) as usize);
            let overflow = [Overflow::Close, Overflow::DropOldest, Overflow::LatestOnly];
            match pick(37, 12) {
                0..=5 => {
                    let overflow = overflow[pick(41, 3) as usize];
                    queue.push_frame(&frame(&text), pick(43, 3) as u32, overflow, 40);
                }
                6 | 7 => queue.push_own(text.as_bytes()),
                8 => queue.hold(pick(41, 2) == 0),
                9 => queue.blocked = pick(41, 2) == 0,
                10 if !queue.is_held() => seal(&mut queue, pick(41, 9) as usize),
                _ => {
                    let offered = queue.with_slices(|slices| {
                        slices.iter().map(|slice| slice.len()).sum::<usize>()
                    });
                    let bytes = pick(41, 9) as usize;
                    if 0 < bytes.min(offered) {
                        queue.sent(bytes.min(offered));
                    }
                }
            }
            // This asserts that nothing before its start may go.
            queue.drop_oldest(0, 40);
        }
    }
}

/// Seals the head of a queue as the engine does, in capitals so that a test sees it.
fn seal(queue: &mut Outbound, most: usize) {
    let sealed: Vec<u8> = queue.with_slices(|slices| {
        let bytes = slices.iter().flat_map(|slice| slice.to_vec());
        bytes.take(most).collect()
    });
    queue.sent(sealed.len());
    queue.push_sealed(&sealed.to_ascii_uppercase());
}

#[test]
fn what_is_sealed_leaves_first_whatever_the_kernel_takes() {
    for most in 1..30 {
        for cut in 1..20 {
            let mut queue = Outbound::default();
            queue.push_own(b"own ");
            queue.push_frame(&frame("frame "), 1, Overflow::Close, 1000);
            queue.push_own(b"more ");
            seal(&mut queue, cut);
            let whole = "own frame more ";
            let (head, tail) = whole.split_at(cut.min(whole.len()));
            assert_eq!(queue.sealed(), Some(head.to_uppercase().as_bytes()));
            // rustls' own words go behind what is sealed.
            queue.push_sealed(b"(KEYS)");
            queue.push_own(b"last");
            let expect = format!("{}(KEYS){tail}last", head.to_uppercase());
            assert_eq!(queue.bytes(), expect.len());
            assert_eq!(drain(&mut queue, most), expect, "{most} {cut}");
        }
    }
}

#[test]
fn what_is_sealed_in_part_is_never_dropped() {
    for (cut, left) in [(2, "AAaabbbb"), (4, "AAAA"), (6, "AAAABBbb")] {
        let mut queue = Outbound::default();
        for text in ["aaaa", "bbbb"] {
            queue.push_frame(&frame(text), 1, Overflow::DropOldest, 10);
        }
        seal(&mut queue, cut);
        queue.blocked = true;
        let pushed = queue.push_frame(&frame("larger than the queue"), 1, Overflow::DropOldest, 10);
        assert!(matches!(pushed, Pushed::Queued { .. }));
        let seen = drain(&mut queue, 3);
        assert!(left.starts_with(&seen) && seen.len() >= 4, "{cut}: {seen}");
        let expect = if cut == 2 { "AAaa" } else { left };
        assert_eq!(seen, expect);
    }
}

#[test]
fn what_is_sealed_leaves_although_the_rest_is_held() {
    let mut queue = Outbound::default();
    queue.push_own(b"head ");
    queue.hold(true);
    queue.push_frame(&frame("held "), 1, Overflow::Close, 100);
    seal(&mut queue, 2);
    assert!(queue.may_leave());
    queue.sent(2);
    assert!(queue.may_leave());
    queue.sent(3);
    assert!(!queue.may_leave());
    queue.push_sealed(b"(KEYS)");
    assert!(queue.may_leave());
    queue.sent(6);
    assert!(!queue.may_leave() && queue.is_held());
    queue.hold(false);
    assert_eq!(drain(&mut queue, 2), "held ");
}

#[test]
fn what_is_not_sealed_can_be_forgotten() {
    let mut queue = Outbound::default();
    queue.push_own(b"sealed plain");
    queue.push_frame(&frame("frame"), 1, Overflow::Close, 100);
    seal(&mut queue, 7);
    queue.sent(3);
    queue.forget_plain();
    queue.push_sealed(b"(ALERT)");
    assert_eq!(drain(&mut queue, 2), "LED (ALERT)");
}

#[test]
fn what_may_have_begun_to_leave_stays_and_nothing_else() {
    for taken in 0..12 {
        for sealed in [false, true] {
            let mut queue = Outbound::default();
            push_frames(&mut queue, &["aaaa", "bbbb"]);
            queue.push_own(b"....");
            push_frames(&mut queue, &["cccc"]);
            queue.sent(taken);
            if sealed {
                queue.push_sealed(b"#");
            }
            queue.keep_begun();
            queue.push_own(b"!");
            let rest = match taken {
                8.. => &"...."[taken - 8..],
                _ => &"aaaabbbb"[taken..(taken + 1).next_multiple_of(4)],
            };
            let expect = format!("{}{rest}!", if sealed { "#" } else { "" });
            assert_eq!(queue.bytes(), expect.len());
            assert_eq!(drain(&mut queue, 100), expect, "{taken} {sealed}");
        }
    }
}

#[test]
fn a_message_in_parts_leaves_whole_or_not_at_all() {
    let parts = [frame("head"), frame("-tail")];
    for taken in 0..16 {
        let mut queue = Outbound::default();
        push_frames(&mut queue, &["abc"]);
        for _ in 0..2 {
            let pushed = queue.push_parts(&parts, 21);
            assert_eq!(pushed, Pushed::Queued { dropped: 0 });
        }
        assert_eq!(queue.push_parts(&parts, 21), Pushed::Full);
        queue.sent(taken);
        // Where another process goes on, too.
        let mut queue = Outbound::load(&mut Saved::new(&queue.saved())).unwrap();
        queue.keep_begun();
        queue.push_own(b"!");
        let all = "abchead-tailhead-tail";
        let end = [3, 12, 21].into_iter().find(|end| *end > taken).unwrap();
        assert_eq!(drain(&mut queue, 100), format!("{}!", &all[taken..end]));
    }
}

#[test]
fn what_is_held_has_not_begun() {
    let mut queue = Outbound::default();
    queue.hold(true);
    push_frames(&mut queue, &["held"]);
    queue.keep_begun();
    queue.push_own(b"!");
    assert_eq!(drain(&mut queue, 100), "!");
}

fn push_frames(queue: &mut Outbound, frames: &[&str]) {
    for text in frames {
        queue.push_frame(&frame(text), 1, Overflow::Close, 1 << 20);
    }
}

/// Takes all that may leave.
fn leaves(queue: &mut Outbound) -> Vec<u8> {
    let mut all = Vec::new();
    while queue.may_leave() {
        let bytes: Vec<u8> = queue.with_slices(|slices| {
            let bytes = slices.iter().flat_map(|slice| slice.to_vec());
            bytes.collect()
        });
        queue.sent(bytes.len());
        all.extend(bytes);
    }
    all
}

#[test]
fn a_queue_goes_on_where_it_was() {
    for (sealed, sent) in [0, 4, 11]
        .iter()
        .flat_map(|&n| (0..=12).map(move |sent| (n, sent)))
    {
        let mut queue = Outbound::default();
        queue.push_own(b"own");
        queue.push_frame(&frame("frame"), 1, Overflow::DropOldest, 100);
        queue.push_own(b"more");
        queue.hold(true);
        queue.push_frame(&frame("held"), 1, Overflow::Close, 100);
        queue.sent(sent);
        // Records that say some of it, and have left in part.
        let left = b"ownframemore"[sent..].to_vec();
        let said = sealed.min(left.len());
        let mut expect = left.clone();
        if said > 0 {
            queue.sent(said);
            queue.push_sealed(b"records");
            queue.sent(sealed % 7);
            expect.splice(..said, b"records"[sealed % 7..].iter().copied());
        }
        let bytes = queue.saved();
        let mut moved = Outbound::load_whole(&bytes).expect("what was saved");
        assert_eq!(moved.bytes(), queue.bytes());
        assert_eq!((moved.is_held(), moved.saved() == bytes), (true, true));
        assert_eq!(leaves(&mut moved), expect, "{sealed} {sent}");
        moved.hold(false);
        assert_eq!(leaves(&mut moved), b"held");
        for cut in 0..bytes.len() {
            assert!(Outbound::load_whole(&bytes[..cut]).is_none());
        }
        for at in 0..bytes.len() {
            for wrong in [0, 1, 2, 3, 4, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                if let Some(mut queue) = Outbound::load_whole(&bytes) {
                    leaves(&mut queue);
                    queue.hold(false);
                    leaves(&mut queue);
                }
            }
        }
    }
}
