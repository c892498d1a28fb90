//! Items and commands as publishers send them by ZeroMQ: in tnetstrings, which read the same again.
//!
//! Input: the one part of a message to PULL, the second of one to SUB, or the body of a command.

use throng_grip::command::{CommandKind, CommandRequest};
use throng_grip::item::{zmq_pull_item, zmq_sub_item};
use throng_grip::{Value, tnet};

use crate::grip_items::check;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"T104:7:channel,1:a,2:id,1:1,7:formats,67:10:ws-message,17:7:content,4:text,}11:http-stream,\
      13:7:content,0:,}}}",
    b"142:11:http-stream,49:7:content,2:x\n,15:content-filters,11:8:build-id,]}2:id,1:7,\
      7:prev-id,1:6,4:size,1:5#6:no-seq,4:true!4:meta,13:6:sender,1:\xff,}}",
    b"220:7:channel,1:a,13:http-response,120:4:code,3:201,7:headers,11:8:1:A,1:b,]]10:body-patch,\
      64:60:2:op,3:add,4:path,2:/a,5:value,25:1:1#3:1.5^0:~5:false!1:t,]}]}10:ws-message,\
      46:6:action,5:close,4:code,4:1001#6:reason,3:bye,}}",
    b"J{\"channel\":\"a\",\"formats\":{\"ws-message\":{\"content-bin\":\"AP8=\"}}}",
    b"25:6:method,12:get-zmq-uris,}",
    b"49:2:id,1:9,6:method,7:refresh,4:args,10:3:cid,1:x,}}",
    b"65:2:id,8:1:1#1:2#]6:method,9:conncheck,4:args,17:3:ids,8:1:a,1:b,]}}",
    b"105:2:id,1:p,6:method,7:publish,4:args,66:5:items,54:50:7:channel,1:a,11:http-stream,\
      17:6:action,5:close,}}]}}",
    b"40:4:true!5:false!0:~3:1.5^3:-42#1:x,0:]0:}]",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_zmq(input: &[u8]) {
    if let Ok(item) = zmq_pull_item(&[input]) {
        check(&item);
    }
    if let Ok(item) = zmq_sub_item(&[&b"topic"[..], input]) {
        assert_eq!(item.channel.as_str(), "topic");
        check(&item);
    }
    if let Ok((value, used)) = tnet::decode(input) {
        // A sender that writes sizes and numbers in another way is read as one that writes ours.
        let wire = encoded(&value);
        let (again, whole) = tnet::decode(&wire).expect("what was read can be written");
        assert_eq!(whole, wire.len());
        assert_eq!(encoded(&again), wire);
        for cut in 0..used {
            assert!(tnet::decode(&input[..cut]).is_err(), "cut at {cut}");
        }
        let _ = value.into_json().to_string();
    }
    if let Some(request) = CommandRequest::parse(input) {
        if let CommandKind::Publish(Ok(items)) = &request.command {
            items.iter().for_each(check);
        }
        for reply in [
            |request: &CommandRequest, out: &mut Vec<u8>| request.reply(Value::Null, out),
            |request: &CommandRequest, out: &mut Vec<u8>| request.reply_error("no", out),
        ] {
            let mut out = Vec::new();
            reply(&request, &mut out);
            assert_eq!(tnet::decode(&out).map(|(_, used)| used), Ok(out.len()));
        }
    }
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    tnet::encode(value, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_what_they_seem() {
        for seed in SEEDS {
            let is_item =
                zmq_pull_item(&[seed]).is_ok() || zmq_sub_item(&[&b"t"[..], seed]).is_ok();
            let is_value = tnet::decode(seed).is_ok_and(|(_, used)| used == seed.len());
            assert!(is_item || is_value, "{}", seed.escape_ascii());
        }
    }
}
