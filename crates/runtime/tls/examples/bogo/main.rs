//! A server for BoringSSL's test runner ("bogo"): `tests/bogo/run` starts the runner, which starts
//! this program for each of its cases.
//!
//! The runner plays a client that keeps to the protocol or breaks it. It says by flags what the
//! server shall do, and listens; this program connects, says its number, and is a server from then
//! on: [`TlsLink`] as the engine uses it, with the record layer that `-records` names. It says all
//! data back with every bit flipped.
//!
//! Ends with 0 if all went well, with 1 and a word on standard error if not, and with 89 for a flag
//! that it does not know or what Throng's ports do not offer. With 90 if records should have been
//! ours and were not.

mod flags;

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::process::ExitCode;

use throng_tls::{
    Authorities, CertificateError, Certificates, MinVersion, RecordLayer, ServerTls, Site,
    TlsFault, TlsLink,
};

use crate::flags::{Case, Flags};

const FAILED: u8 = 1;
const NOT_OFFERED: u8 = 89;
const MUST_NOT_BE: u8 = 90;

/// Mask that turns a byte of the question into the byte of the answer.
const FLIP: u8 = 0xff;
const READ_BYTES: usize = 16 << 10;

/// Exit code of a failed run, and the reason.
type End = (u8, String);

fn failed(why: impl ToString) -> End {
    (FAILED, why.to_string())
}

fn main() -> ExitCode {
    // Some values are bytes and no text; a case with such a flag is skipped anyway.
    let args = std::env::args_os().skip(1);
    let args: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    if args.iter().any(|arg| arg == "-is-handshaker-supported") {
        println!("No");
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, why)) => {
            if code == NOT_OFFERED {
                note(&args, &why);
            }
            eprintln!("{why}");
            ExitCode::from(code)
        }
    }
}

/// Adds a line to the file that `-notes` names, for the table of reasons: the runner shows none.
fn note(args: &[String], why: &str) {
    let mut at = args.iter().skip_while(|arg| *arg != "-notes");
    if let Some(path) = at.nth(1) {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let result = file.and_then(|mut file| file.write_all(format!("{why}\n").as_bytes()));
        result.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

fn run(args: &[String]) -> Result<(), End> {
    let flags = Flags::read(args).map_err(|flag| (NOT_OFFERED, flag))?;
    if let Some(flag) = &flags.unseen {
        note(args, &format!("unseen {flag}"));
    }
    let tls = port(&flags)?;
    for case in
        std::iter::once(&flags.first).chain(std::iter::repeat_n(&flags.later, flags.resumptions))
    {
        connection(&flags, case, &tls)?;
    }
    Ok(())
}

/// Returns the server's TLS settings. Its tickets hold for all connections of the case.
fn port(flags: &Flags) -> Result<ServerTls, End> {
    let read = |path: &str| std::fs::read(path).map_err(failed);
    let site = Site::read_certificate("", &read(&flags.certificate)?).map_err(failed)?;
    let key = read(&flags.key)?;
    let no_such_key = |error: CertificateError| (NOT_OFFERED, format!("a key: {error}"));
    let site = site.with_key(&key).map_err(no_such_key)?;
    let clients = match &flags.clients {
        None => None,
        Some(path) => Some(Authorities::read(&read(path)?).map_err(failed)?),
    };
    let min_version = match flags.needs_tls13 {
        true => MinVersion::Tls13,
        false => MinVersion::Tls12,
    };
    let certificates = Certificates::new(&[site]);
    ServerTls::new(&certificates, min_version, flags.records, clients.as_ref()).map_err(failed)
}

fn connection(flags: &Flags, case: &Case, tls: &ServerTls) -> Result<(), End> {
    let address: SocketAddr = match flags.is_ipv6 {
        true => (Ipv6Addr::LOCALHOST, flags.port).into(),
        false => (Ipv4Addr::LOCALHOST, flags.port).into(),
    };
    let mut socket = TcpStream::connect(address).map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    let number = flags.number.to_le_bytes();
    socket.write_all(&number).map_err(failed)?;
    let result = exchange(flags, case, tls, &mut socket);
    // Bytes that nobody reads would make the kernel reset the connection, and our last words would
    // be lost.
    let _ = socket.shutdown(Shutdown::Write);
    let _ = io::copy(&mut socket, &mut io::sink());
    result
}

fn exchange(
    flags: &Flags,
    case: &Case,
    tls: &ServerTls,
    socket: &mut TcpStream,
) -> Result<(), End> {
    let mut link = TlsLink::server(tls).map_err(|fault| failed(word(&fault)))?;
    let mut has_begun = false;
    let mut bytes = vec![0; if flags.is_slow { 1 } else { READ_BYTES }];
    loop {
        let count = match socket.read(&mut bytes) {
            // The peer has gone before it had read all.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            read => read.map_err(failed)?,
        };
        if count == 0 {
            return match link.shaken() {
                None => Err(failed(word(&TlsFault::Gone))),
                Some(_) if flags.needs_close => Err(failed("NoCloseNotify")),
                Some(_) => Ok(()),
            };
        }
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        let told = link.receive(&mut bytes[..count], &mut plain, &mut wire);
        if let (false, Some(shaken)) = (has_begun, link.shaken()) {
            has_begun = true;
            case.check(shaken).map_err(failed)?;
            for _ in 0..flags.first_words.1 {
                let words = flags.first_words.0.as_bytes();
                link.seal(words, &mut wire).map_err(failed)?;
            }
            if flags.closes {
                link.close(&mut wire);
            }
        }
        if !flags.closes {
            plain.iter_mut().for_each(|byte| *byte ^= FLIP);
            link.seal(&plain, &mut wire).map_err(failed)?;
        }
        if matches!(told, Ok(true)) {
            link.close(&mut wire);
        }
        socket.write_all(&wire).map_err(failed)?;
        let is_over = told.map_err(|fault| failed(word(&fault)))?;
        if is_over || has_begun && flags.closes && !flags.needs_close {
            return Ok(());
        }
        if has_begun && flags.records == RecordLayer::Lean && !link.can_move() {
            return Err((MUST_NOT_BE, "records are rustls', not ours".to_owned()));
        }
    }
}

/// A fault in the words of `tests/bogo/cases.toml`.
fn word(fault: &TlsFault) -> String {
    match fault {
        TlsFault::Refused(error) => format!("{error:?}"),
        other => format!("{other:?}"),
    }
}
