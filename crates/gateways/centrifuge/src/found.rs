//! The call `connections` of the server API: the search, and the rows of all nodes.
//!
//! Rule for "full": an answer has [`ROWS_MAX`] rows at most, and the number of all matches.

use throng_centrifuge::api::{ConnectionInfo, ConnectionsRequest, ServerApiError};
use throng_session::{NodeReply, Search, SurveyReply, Transport};
use throng_types::ChannelName;

/// Rows of an answer by default.
const ROWS: u32 = 100;
/// Rows of an answer at most.
const ROWS_MAX: u32 = 1_000;

/// The transports that can be looked for.
const TRANSPORTS: [Transport; 4] = [
    Transport::WebSocket,
    Transport::Sse,
    Transport::Stream,
    Transport::Http,
];

/// Converts the call `connections` to a search.
///
/// # Errors
/// [`ServerApiError::BadRequest`] for an unknown transport or a bad channel name.
pub(crate) fn search(wanted: &ConnectionsRequest<'_>) -> Result<Search, ServerApiError> {
    let transport = match &*wanted.transport {
        "" => None,
        name => {
            let known = TRANSPORTS.iter().find(|known| known.as_str() == name);
            Some(*known.ok_or(ServerApiError::BadRequest)?)
        }
    };
    let channel = match &*wanted.channel {
        "" => None,
        name => Some(ChannelName::new(name).map_err(|_| ServerApiError::BadRequest)?),
    };
    Ok(Search {
        user: (&*wanted.user).into(),
        address: (&*wanted.address).into(),
        transport,
        channel,
        slow: wanted.slow,
        rows_max: match wanted.limit {
            0 => ROWS,
            limit => limit.min(ROWS_MAX),
        },
    })
}

/// Rows of all nodes, as many as requested; of slow ones the slowest.
pub(crate) fn rows_of<'a>(nodes: &'a [NodeReply], search: &Search) -> Vec<ConnectionInfo<'a>> {
    let mut rows: Vec<_> = nodes
        .iter()
        .flat_map(|node| {
            let found = node.replies.iter().filter_map(|reply| match reply {
                SurveyReply::Found(found) => Some(found),
                _ => None,
            });
            let rows = found.flat_map(|found| &found.rows);
            rows.map(|row| ConnectionInfo {
                client: &row.client,
                user: &row.user,
                address: &row.address,
                transport: row.transport.as_str(),
                node: &node.uid,
                queued_bytes: row.queued_bytes,
                num_subs: row.subscriptions,
                channels: row.channels.iter().map(ChannelName::as_str).collect(),
            })
        })
        .collect();
    if search.slow {
        rows.sort_by_key(|row| std::cmp::Reverse(row.queued_bytes));
    }
    rows.truncate(search.rows_max as usize);
    rows
}
