//! All wire forms, and those for subscriptions that do not get publications as they were published:
//! as differences, or only some of them.

use throng_centrifuge::{Codec, Push};
use throng_session::{Form, FormKind, Patch};
use throng_types::{PayloadKind, Publication};

use crate::forms::{
    CENTRIFUGE, CENTRIFUGE_DEFLATED, EVENTS, LINES, MESSAGES, PROTOBUF, PROTOBUF_DEFLATED,
    UNI_HTTP, UNI_SSE, UNI_WS, UNI_WS_DEFLATED, words,
};
use crate::mode::Mode;
use crate::socket::Socket;

/// Any of them, for a subscription with a filter: the session looks at each publication.
pub(crate) const FILTERED: Form = Form::new(PLAIN + 5, FormKind::Personal);

/// Number of forms without differences.
const PLAIN: u8 = 11;

/// Form in which publications are sent as differences, for subscriptions that have agreed to it.
pub(crate) const fn with_deltas(mode: Mode) -> Form {
    Form::new(PLAIN + mode.number(), FormKind::Delta)
}

/// The client of a form with differences.
fn mode_of(form: u8) -> Option<Mode> {
    let number = form.checked_sub(PLAIN)?;
    Mode::WITH_COMMANDS.get(usize::from(number)).copied()
}

/// Forms of the gateway, by their numbers.
pub(crate) const ALL: &[Form] = &[
    CENTRIFUGE,
    UNI_WS,
    UNI_SSE,
    UNI_HTTP,
    PROTOBUF,
    EVENTS,
    LINES,
    MESSAGES,
    CENTRIFUGE_DEFLATED,
    UNI_WS_DEFLATED,
    PROTOBUF_DEFLATED,
    with_deltas(Mode::Json),
    with_deltas(Mode::Protobuf),
    with_deltas(Mode::Events),
    with_deltas(Mode::Lines),
    with_deltas(Mode::Messages),
    FILTERED,
];

/// Appends a publication in a shared wire form.
pub(crate) fn encode(form: u8, publication: &Publication, out: &mut Vec<u8>) {
    match mode_of(form) {
        // A coming or a going; publications have a function of their own.
        Some(mode) => mode.frame(out, |out| mode.codec().push(&words(publication), out)),
        None => crate::forms::encode(form, publication, out),
    }
}

/// Appends a publication in a form with differences.
pub(crate) fn encode_delta(
    form: u8,
    publication: &Publication,
    patch: Option<Patch<'_>>,
    out: &mut Vec<u8>,
) {
    let Some(mode) = mode_of(form) else {
        return;
    };
    // In JSON, data that is no JSON is sent as a JSON string, and the patch was not computed for
    // that.
    let is_readable = |patch: &Patch<'_>| {
        let kinds = [patch.base.kind, publication.payload.kind];
        mode.codec() == Codec::Protobuf || kinds == [PayloadKind::Json; 2]
    };
    let patch = patch.filter(is_readable).map(|patch| patch.delta);
    let push = Push::Delta { publication, patch };
    mode.frame(out, |out| mode.codec().push(&push, out));
}

/// Appends a publication in the form of a client, if its filter lets it pass.
pub(crate) fn encode_filtered(socket: &Socket, publication: &Publication, out: &mut Vec<u8>) {
    if socket.passes(publication) {
        let mode = socket.mode();
        let push = Push::Publication(publication);
        mode.frame(out, |out| mode.codec().push(&push, out));
    }
}
