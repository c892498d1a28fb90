//! The queue against plain bytes: whatever is not dropped leaves in order, once.

use throng_types::cases;

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

/// Plays the steps of a case, which then leaves.
fn played(case: &str) -> String {
    let mut queue = Outbound::default();
    let (mut overflow, mut bytes_max, mut key) = (Overflow::Close, 100, 1);
    for step in case.split(", ") {
        let words: Vec<&str> = step.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().expect(step);
        match *words {
            ["close" | "oldest" | "latest", _] => {
                overflow = match words[0] {
                    "close" => Overflow::Close,
                    "oldest" => Overflow::DropOldest,
                    _ => Overflow::LatestOnly,
                };
                bytes_max = number(1);
            }
            ["key", _] => key = number(1) as u32,
            ["frame", text, ref told @ ..] => {
                let pushed = queue.push_frame(&frame(text), key, overflow, bytes_max);
                let expected = match told {
                    ["full"] => Pushed::Full,
                    ["drops", _] => Pushed::Queued {
                        dropped: number(3) as u32,
                    },
                    _ => Pushed::Queued { dropped: 0 },
                };
                assert_eq!(pushed, expected, "{case}: {step}");
            }
            ["own", text] => queue.push_own(text.as_bytes()),
            ["seal", _] => seal(&mut queue, number(1)),
            ["sealed", text] => queue.push_sealed(text.as_bytes()),
            ["sends", ref all @ .., bytes] => {
                let offered: usize =
                    queue.with_slices(|slices| slices.iter().map(|slice| slice.len()).sum());
                let bytes = bytes.parse().expect(step);
                assert!(
                    bytes == offered || all.is_empty() && bytes < offered,
                    "{case}: {step}"
                );
                queue.sent(bytes);
            }
            ["hold"] => queue.hold(true),
            ["release"] => queue.hold(false),
            ["blocked"] => queue.blocked = true,
            ["forget", "plain"] => queue.forget_plain(),
            ["keep", "begun"] => queue.keep_begun(),
            ["waits"] => {
                assert!(
                    !queue.may_leave() && !queue.is_empty() && queue.is_held(),
                    "{case}"
                );
            }
            ["leaves"] => assert!(queue.may_leave(), "{case}"),
            ["dropped", _] => assert_eq!(queue.dropped as usize, number(1), "{case}"),
            _ => panic!("no step: {step}"),
        }
    }
    drain(&mut queue, 3)
}

#[test]
fn what_leaves_is_what_should() {
    for (case, leaves) in cases(include_str!("tests.txt")) {
        assert_eq!(played(case), leaves, "{case}");
    }
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
