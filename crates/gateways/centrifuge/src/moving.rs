//! Sessions as bytes, for a process that takes over. Calls of the server API and requests with
//! commands are answered before, or stay until they are; so does a client about which a backend is
//! being asked.

use throng_session::Questions;
use throng_types::{Save, Saved};

use crate::asked::{Asked, Proxied};
use crate::gateway::Session;
use crate::socket::Socket;
use crate::uni_stream::UniStream;

/// Kinds of sessions: the second and the last two have more, as few have.
const SOCKET: u8 = 0;
const STREAM: u8 = 1;
const SOCKET_WITH_MORE: u8 = 2;
const STREAM_OF_BACKEND: u8 = 3;

/// Appends a session; false if it cannot move now.
pub(crate) fn save(session: &Session, out: &mut Vec<u8>) -> bool {
    match session {
        Session::Socket(socket) => {
            out.push(match socket.asked() {
                Some(_) => SOCKET_WITH_MORE,
                None => SOCKET,
            });
            socket.save(out)
        }
        Session::Stream(stream) => {
            out.push(match stream.is_backends() {
                true => STREAM_OF_BACKEND,
                false => STREAM,
            });
            stream.save(out)
        }
        Session::Call(_) | Session::Upstream(_) => false,
    }
}

/// Restores a session from its saved bytes.
pub(crate) fn load(from: &mut Saved<'_>) -> Option<Session> {
    let kind = u8::load(from)?;
    match kind {
        SOCKET | SOCKET_WITH_MORE => {
            Socket::load(from, kind == SOCKET_WITH_MORE).map(Session::Socket)
        }
        STREAM | STREAM_OF_BACKEND => {
            UniStream::load(from, kind == STREAM_OF_BACKEND).map(Session::Stream)
        }
        _ => None,
    }
}

impl Asked {
    /// Appends a socket's lasting state; false if other state waits for the hub or a backend.
    pub(crate) fn save(&self, out: &mut Vec<u8>) -> bool {
        self.filters.save(out);
        self.proxied.is_some().save(out);
        let rests = self.proxied.as_ref().is_none_or(|it| it.save(out));
        let is_answered = self.opening.is_none() && self.subscribing.is_empty();
        rests && is_answered && self.data.is_empty() && self.welcome.is_none()
    }

    pub(crate) fn load(from: &mut Saved<'_>) -> Option<Self> {
        let filters = Save::load(from)?;
        let proxied = match bool::load(from)? {
            true => Some(Box::new(Proxied::load(from)?)),
            false => None,
        };
        Some(Self {
            filters,
            proxied,
            ..Self::default()
        })
    }
}

impl Proxied {
    /// Appends it; false if a backend has not answered.
    pub(crate) fn save(&self, out: &mut Vec<u8>) -> bool {
        let questions = &self.questions;
        questions.headers.save(out);
        (questions.meta.clone(), self.is_backends).save(out);
        self.refreshed.save(out);
        questions.next.save(out);
        questions.is_quiet() && self.later.is_empty()
    }

    pub(crate) fn load(from: &mut Saved<'_>) -> Option<Self> {
        let mut questions = Questions::default();
        questions.headers = Save::load(from)?;
        questions.meta = Save::load(from)?;
        let (is_backends, refreshed) = (Save::load(from)?, Save::load(from)?);
        questions.next = Save::load(from)?;
        Some(Self {
            questions,
            is_backends,
            refreshed,
            later: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use throng_broker::BackendId;
    use throng_session::{Open, Passed};
    use throng_types::ChannelName;

    use super::*;
    use crate::asked::Pending;

    fn asked() -> Asked {
        let said = Passed {
            name: "x-said".into(),
            value: "hello".into(),
            is_emulated: true,
        };
        let mut proxied = Proxied {
            is_backends: true,
            refreshed: ChannelName::new("a").into_iter().collect(),
            ..Proxied::default()
        };
        proxied.questions.headers.push(said);
        (proxied.questions.meta, proxied.questions.next) = (Some("{}".into()), 7);
        Asked {
            proxied: Some(Box::new(proxied)),
            ..Asked::default()
        }
    }

    #[test]
    fn what_backends_know_comes_back_whole() {
        let mut bytes = Vec::new();
        assert!(asked().save(&mut bytes));
        let back = Asked::load(&mut Saved::new(&bytes)).expect("what was saved");
        let mut again = Vec::new();
        assert!(back.save(&mut again) && again == bytes);
        for cut in 0..bytes.len() {
            assert!(
                Asked::load(&mut Saved::new(&bytes[..cut])).is_none(),
                "{cut}"
            );
        }
    }

    #[test]
    fn who_waits_for_something_stays() {
        let waits: [fn(&mut Asked); 4] = [
            |it| {
                let proxied = it.proxied.get_or_insert_default();
                proxied.questions.open.push(Open {
                    number: 1,
                    to: BackendId::DEFAULT,
                    pending: Pending::Rpc { command: 2 },
                });
            },
            |it| it.proxied.get_or_insert_default().later.push(b' '),
            |it| it.welcome = Some("{}".into()),
            |it| it.opening = Some(throng_session::Opening::new(1, 1, false)),
        ];
        for wait in waits {
            let mut asked = asked();
            wait(&mut asked);
            assert!(!asked.save(&mut Vec::new()));
        }
    }
}
