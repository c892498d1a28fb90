//! What passes through takes no memory, however much it is and however slow one side.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use throng_testkit::{Process, Server, Setup, Wire, frame, python_of};

use crate::steps::section;

/// A backend that serves each connection as it likes.
fn backend(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        thread::scope(|scope| {
            for stream in listener.incoming().flatten() {
                scope.spawn(|| serve(stream));
            }
        });
    });
    address
}

#[track_caller]
fn server(origin: SocketAddr) -> Server {
    let route = format!("[[grip.route]]\npath = \"/\"\norigin = \"http://{origin}\"\n");
    Setup::new(&format!("{}\n{route}", section()))
        .shards(2)
        .start()
}

#[track_caller]
fn check_resident(server: &Server, most: u64) {
    let resident = server.metric("throng_process_resident_bytes");
    assert!(resident < most, "{resident} bytes");
}

#[test]
fn a_body_of_any_size_on_its_way_to_a_backend() {
    const BYTES: usize = 256 << 20;
    let origin = backend(|mut stream| {
        // The head, and maybe a little more.
        let mut piece = vec![0; 1 << 20];
        let mut left = BYTES;
        while left > 1 << 20 {
            match stream.read(&mut piece) {
                Ok(count @ 1..) => left = left.saturating_sub(count),
                _ => return,
            }
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
        while matches!(stream.read(&mut piece), Ok(1..)) {}
    });
    let server = server(origin);
    let mut wire = Wire::connect(server.clients());
    let head = format!("POST /up HTTP/1.1\r\nHost: t\r\nContent-Length: {BYTES}\r\n\r\n");
    wire.send(&head);
    let mut writer = wire.writer();
    let writing = thread::spawn(move || {
        let piece = vec![7; 1 << 20];
        (0..BYTES >> 20).all(|_| writer.write_all(&piece).is_ok())
    });
    assert_eq!(wire.response("POST").body, "done");
    check_resident(&server, 64 << 20);
    writing.join().expect("it does not panic");
    server.stop();
}

#[test]
fn an_endless_body_waits_for_its_client() {
    let origin = backend(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
    });
    let server = server(origin);
    let mut wires: Vec<Wire> = (0..3).map(|_| server.stream("/endless")).collect();
    for wire in &mut wires {
        wire.chunk();
    }
    // A client that reads goes on, and others are served.
    for _ in 0..100 {
        assert!(!wires[0].chunk().is_empty());
    }
    check_resident(&server, 200 << 20);
    // A client that has read nothing for a while goes on too, beyond all that sockets hold.
    let mut bytes = 0;
    while bytes < 32 << 20 {
        let chunk = wires[1].chunk();
        assert!(!chunk.is_empty(), "the body ends after {bytes} bytes");
        bytes += chunk.len();
    }
    drop(wires);
    server.stop();
}

#[test]
fn frames_between_a_fast_side_and_a_slow_one() {
    const PIECES: usize = 96;
    let mut python = Command::new(python_of("grip-python", "tests/grip/python"));
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/relay.py"));
    let relay = Process::start(
        python.arg("plain"),
        "python3 with venv makes the environment",
    );
    let port = relay.prints("port").replace("port ", "127.0.0.1:");
    let server = server(port.parse().expect("an address"));
    let mut wire = server.websocket("/socket");
    let mut writer = wire.writer();
    // The backend echoes until its output is not taken, and then it reads no more.
    let writing = thread::spawn(move || {
        let piece = frame(2, [0; 1 << 20]);
        (0..PIECES).all(|_| writer.write_all(&piece).is_ok())
    });
    for piece in 0..PIECES {
        let (opcode, data) = wire.frame();
        assert_eq!((opcode, data.len()), (2, 1 << 20), "{piece}");
    }
    assert!(writing.join().expect("it does not panic"));
    check_resident(&server, 64 << 20);
    server.stop();
}
