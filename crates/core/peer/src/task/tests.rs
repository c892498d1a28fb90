//! Tests of tasks without a host.

use std::cell::RefCell;
use std::rc::Rc;

use throng_types::Now;

use super::{Either, Late, Net, Tasks, first, queue};
use crate::{Dial, DialTls, Ended, LinkEvent, LinkId, PeerContext, ReadFlow, Want, Wants};

/// Tasks, and a host that records their wishes.
#[derive(Default)]
struct Host {
    tasks: Tasks,
    now: Now,
    wants: Wants<()>,
}

impl Host {
    fn run(&mut self) -> Vec<Want> {
        self.tasks
            .run(&mut PeerContext::new(self.now, &mut self.wants));
        std::iter::from_fn(|| self.wants.take()).collect()
    }

    fn pass(&mut self, ms: u64) -> Vec<Want> {
        self.now.mono = self.now.mono + ms;
        self.run()
    }
}

fn dial() -> Dial {
    Dial {
        host: "h".to_owned(),
        port: 1,
        tls: None,
        timeout_ms: 9,
    }
}

const LINK: LinkId = LinkId(1);

/// A task that records its result.
fn told<F: Future<Output = String> + 'static>(
    host: &Host,
    task: impl FnOnce(Net) -> F,
) -> (super::Task, Rc<RefCell<String>>) {
    let said = Rc::new(RefCell::new(String::new()));
    let (net, into) = (host.tasks.net().clone(), said.clone());
    let future = task(net.clone());
    let task = net.spawn(async move {
        *into.borrow_mut() = future.await;
    });
    (task, said)
}

#[test]
fn a_question_and_its_answer_in_pieces() {
    let mut host = Host::default();
    let (_task, said) = told(&host, |net| async move {
        let mut link = net.dial(dial()).await.expect("a link");
        link.write(b"hello".to_vec());
        let mut got = Vec::new();
        while got.len() < 4 {
            got.extend(link.read().await.expect("bytes"));
        }
        let end = link.read().await.expect_err("an end");
        format!("{} {end:?}", String::from_utf8(got).expect("text"))
    });
    assert_eq!(host.run(), [Want::Dial(LINK, dial())]);
    assert_eq!(host.run(), []);
    host.tasks.event(LINK, LinkEvent::Connected);
    assert_eq!(host.run(), [Want::Write(LINK, b"hello".to_vec())]);
    host.tasks.event(LINK, LinkEvent::Bytes(b"an"));
    host.run();
    host.tasks.event(LINK, LinkEvent::Bytes(b"sw"));
    host.tasks.event(LINK, LinkEvent::Ended(Ended::ByPeer));
    assert_eq!(host.run(), [], "its end was told already");
    assert_eq!(*said.borrow(), "answ ByPeer");
    assert!(host.tasks.is_empty() && !host.tasks.has(LINK));
}

#[test]
fn what_nobody_reads_holds_the_link() {
    let mut host = Host::default();
    let (_task, said) = told(&host, |net| async move {
        let mut link = net.dial(dial()).await.expect("a link");
        net.sleep(10).await;
        let count = link.read().await.expect("bytes").len();
        net.sleep(10).await;
        drop(link);
        count.to_string()
    });
    host.run();
    host.tasks.event(LINK, LinkEvent::Connected);
    host.run();
    let half = vec![0; super::INPUT_BYTES_MAX / 2];
    assert_eq!(
        host.tasks.event(LINK, LinkEvent::Bytes(&half)),
        ReadFlow::More
    );
    assert_eq!(
        host.tasks.event(LINK, LinkEvent::Bytes(&half)),
        ReadFlow::Hold
    );
    assert_eq!(host.run(), []);
    assert_eq!(host.pass(10), [Want::Resume(LINK)]);
    assert_eq!(host.pass(9), []);
    assert_eq!(host.tasks.deadline(), Some(host.now.mono + 1));
    assert_eq!(host.pass(1), [Want::End(LINK)]);
    assert_eq!(*said.borrow(), super::INPUT_BYTES_MAX.to_string());
    assert_eq!(host.tasks.deadline(), None);
}

#[test]
fn tls_may_begin_late_and_a_link_may_be_released() {
    let tls = || DialTls {
        name: "n".to_owned(),
        insecure: false,
        authorities: None,
        http2: false,
    };
    let mut host = Host::default();
    let released = Rc::new(RefCell::new(None));
    let into = released.clone();
    let (_task, _) = told(&host, |net| async move {
        let mut link = net.dial(dial()).await.expect("a link");
        link.secure(tls()).await.expect("a handshake");
        link.write(b"x".to_vec());
        link.written().await.expect("it has left");
        *into.borrow_mut() = link.release();
        String::new()
    });
    host.run();
    host.tasks.event(LINK, LinkEvent::Connected);
    assert_eq!(host.run(), [Want::Secure(LINK, tls())]);
    host.tasks.event(LINK, LinkEvent::Connected);
    assert_eq!(host.run(), [Want::Write(LINK, b"x".to_vec())]);
    host.tasks.event(LINK, LinkEvent::Bytes(b"left"));
    host.tasks.event(LINK, LinkEvent::Written);
    assert_eq!(host.run(), [], "it goes on without its task");
    assert_eq!(released.take(), Some((LINK, b"left".to_vec())));
    assert!(!host.tasks.has(LINK));
}

/// An attacker on the network path can send bytes before the handshake.
#[test]
fn what_comes_before_tls_is_not_taken_for_protected() {
    let tls = || DialTls {
        name: "n".to_owned(),
        insecure: false,
        authorities: None,
        http2: false,
    };
    let mut host = Host::default();
    let (_task, said) = told(&host, |net| async move {
        let mut link = net.dial(dial()).await.expect("a link");
        format!("{:?}", link.secure(tls()).await)
    });
    host.run();
    host.tasks.event(LINK, LinkEvent::Connected);
    assert_eq!(host.run(), [Want::Secure(LINK, tls())]);
    host.tasks.event(LINK, LinkEvent::Bytes(b"plain"));
    assert_eq!(host.run(), []);
    host.tasks.event(LINK, LinkEvent::Connected);
    host.tasks.event(LINK, LinkEvent::Bytes(b"sealed"));
    assert_eq!(host.run(), [Want::End(LINK)]);
    let refused = Ended::Broken("it said something before TLS".to_owned());
    assert_eq!(*said.borrow(), format!("{:?}", Err::<(), _>(refused)));
}

#[test]
fn a_task_that_is_dropped_ends_its_links() {
    let mut host = Host::default();
    let (task, _) = told(&host, |net| async move {
        let kept = net.dial(dial()).await.expect("a link");
        net.sleep(1_000).await;
        drop(kept);
        String::new()
    });
    host.run();
    host.tasks.event(LINK, LinkEvent::Connected);
    host.run();
    drop(task);
    assert_eq!(host.run(), [Want::End(LINK)]);
    assert!(host.tasks.is_empty());
    assert_eq!(host.tasks.deadline(), None);
}

#[test]
fn what_takes_too_long_is_late() {
    let mut host = Host::default();
    let (sender, mut receiver) = queue(2);
    let (_task, said) = told(&host, |net| async move {
        let late = net.timeout(5, net.sleep(6)).await;
        let inside = net.timeout(5, net.sleep(5)).await;
        let both = first(receiver.next(), net.sleep(0)).await;
        let end = receiver.next().await;
        format!("{late:?} {inside:?} {both:?} {end:?}")
    });
    host.run();
    assert_eq!(host.tasks.deadline(), Some(host.now.mono + 5));
    host.pass(5);
    assert!(sender.send(1).is_ok() && sender.send(2).is_ok());
    assert_eq!(sender.send(3), Err(3), "full");
    host.pass(5);
    let (late, both): (Result<(), _>, Either<_, ()>) = (Err(Late), Either::Left(Some(1)));
    assert_eq!(*said.borrow(), format!("{late:?} Ok(()) {both:?} Some(2)"));
    assert_eq!(sender.send(3), Err(3), "nobody takes it");
}

#[test]
fn a_sender_may_wait_for_room() {
    let mut host = Host::default();
    let (sender, mut receiver) = queue(1);
    let (_task, said) = told(&host, |_| async move {
        let mut put = Vec::new();
        for item in 1..5 {
            put.push(sender.put(item).await);
        }
        format!("{put:?}")
    });
    host.run();
    assert_eq!(receiver.try_next(), Some(1));
    assert_eq!(receiver.try_next(), None, "nobody ran");
    host.run();
    assert_eq!(receiver.try_next(), Some(2));
    host.run();
    assert_eq!(*said.borrow(), "");
    drop(receiver);
    host.run();
    assert_eq!(*said.borrow(), "[Ok(()), Ok(()), Ok(()), Err(4)]");
}
