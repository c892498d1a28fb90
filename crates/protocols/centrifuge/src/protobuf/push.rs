//! What the server sends unasked.

use super::reply::{append_epoch, append_info, append_publication, offset};
use super::write::{bytes, delimited, flag, message, number};
use crate::words::Push;

/// Appends a push in a reply, behind its length.
pub(crate) fn append_push(push: &Push<'_>, out: &mut Vec<u8>) {
    delimited(out, |out| message(4, out, |out| append(push, out)));
}

fn append(push: &Push<'_>, out: &mut Vec<u8>) {
    match *push {
        Push::Publication(publication) => {
            bytes(2, publication.channel.as_str().as_bytes(), out);
            message(4, out, |out| append_publication(publication, None, out));
        }
        Push::Delta { publication, patch } => {
            bytes(2, publication.channel.as_str().as_bytes(), out);
            message(4, out, |out| append_publication(publication, patch, out));
        }
        Push::Join { channel, ref info } => {
            bytes(2, channel.as_bytes(), out);
            message(5, out, |out| message(1, out, |out| append_info(info, out)));
        }
        Push::Leave { channel, ref info } => {
            bytes(2, channel.as_bytes(), out);
            message(6, out, |out| message(1, out, |out| append_info(info, out)));
        }
        Push::Unsubscribe {
            channel,
            code,
            reason,
        } => {
            bytes(2, channel.as_bytes(), out);
            message(7, out, |out| {
                number(2, code.into(), out);
                bytes(3, reason.as_bytes(), out);
            });
        }
        Push::Message(data) => message(8, out, |out| bytes(1, &data.bytes, out)),
        Push::Disconnect { code, reason } => message(11, out, |out| {
            number(1, code.into(), out);
            bytes(2, reason.as_bytes(), out);
        }),
        Push::Subscribe { channel, subscribe } => {
            bytes(2, channel.as_bytes(), out);
            message(9, out, |out| {
                flag(1, subscribe.recoverable, out);
                append_epoch(4, subscribe.position, out);
                number(5, offset(subscribe.position), out);
                flag(6, subscribe.positioned, out);
                bytes(7, subscribe.data.unwrap_or_default().as_bytes(), out);
            });
        }
        Push::Refresh { ttl_s } => message(12, out, |out| {
            flag(1, ttl_s.is_some(), out);
            number(2, ttl_s.unwrap_or_default().into(), out);
        }),
    }
}
