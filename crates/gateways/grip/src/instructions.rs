//! The instructions in a backend's answer.

use throng_grip::exchange::OriginHead;
use throng_grip::instruct::{Instruct, ResponseHead};
use throng_grip::proxy::is_response_hop;

use crate::context::Cx;

/// Reads the instructions of an answer; the fault is for operators.
pub(crate) fn instruct_of(head: &OriginHead, body: &[u8], cx: &Cx<'_>) -> Result<Instruct, String> {
    let fields = head.fields();
    let response = ResponseHead {
        code: head.code,
        reason: &head.reason,
        headers: &fields,
    };
    let own_max = cx.shared.limits.channels_max;
    let channels_max = cx.own.channels_max(own_max);
    let instruct = Instruct::from_response(response, body, channels_max);
    let mut instruct = instruct.map_err(|fault| fault.to_string())?;
    let headers = &mut instruct.reply.headers;
    headers.retain(|header| !is_response_hop(&header.name, true));
    Ok(instruct)
}
