//! Who a connection is, from its token.

use throng_auth::{Allow, Claims, TokenFault};
use throng_metrics::Counter;
use throng_types::{ChannelName, Now};

use crate::Desk;

/// What is kept of a connection's token. Anonymous connections have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user, empty for an anonymous one.
    pub user: Box<str>,
    /// JSON that others may see.
    pub info: Option<Box<str>>,
    /// The channels that the token opens; nothing leaves it to the channels' options.
    pub allow: Option<Allow>,
    /// When the connection ends unless it is refreshed, in Unix seconds.
    pub expires_at_unix_s: Option<u64>,
    /// When subscriptions with a token of their own end, in Unix seconds.
    pub subscriptions_until: Vec<(ChannelName, u64)>,
}

/// Why nobody in particular may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// A token is needed.
    NoToken,
    /// The token is not good.
    Token(TokenFault),
}

impl Stranger {
    /// A sentence for the client.
    pub(crate) fn message(self) -> String {
        match self {
            Self::NoToken => "a token is needed: pass it as `Authorization: Bearer TOKEN` or as the query parameter `token`".to_owned(),
            Self::Token(fault) => fault.to_string(),
        }
    }
}

/// Checks a connection token. An absent one is good where anonymous clients are.
pub(crate) fn authenticate(
    token: Option<&str>,
    desk: &Desk,
    now: Now,
) -> Result<Option<Claims>, Stranger> {
    let token = token.filter(|token| !token.is_empty());
    let (Some(token), Some(verifier)) = (token, desk.verifier.as_ref()) else {
        // Without keys a token says nothing, and an SDK may send one all the same.
        return if desk.anonymous {
            Ok(None)
        } else {
            desk.board.count(Counter::AuthMissing);
            Err(Stranger::NoToken)
        };
    };
    let claims = verifier.verify(token, now.unix_s());
    let claims = claims.and_then(|claims| claims.check_connection().map(|()| claims));
    claims.map(Some).map_err(|fault| {
        desk.board.count(failure(fault));
        Stranger::Token(fault)
    })
}

/// The series that counts a refused token.
pub(crate) const fn failure(fault: TokenFault) -> Counter {
    match fault {
        TokenFault::Malformed | TokenFault::NoExpiry => Counter::AuthMalformed,
        TokenFault::Algorithm => Counter::AuthAlgorithm,
        TokenFault::Signature => Counter::AuthSignature,
        TokenFault::Expired => Counter::AuthExpired,
        TokenFault::NotYetValid => Counter::AuthNotYetValid,
        TokenFault::Audience => Counter::AuthAudience,
        TokenFault::Issuer => Counter::AuthIssuer,
        TokenFault::Purpose => Counter::AuthChannel,
    }
}

impl Identity {
    /// What is kept of good claims.
    pub(crate) fn from_claims(claims: &Claims) -> Self {
        Self {
            user: claims.sub.clone(),
            info: claims.info.clone(),
            allow: claims.allow.clone(),
            expires_at_unix_s: claims.ends_at_unix_s(),
            subscriptions_until: Vec::new(),
        }
    }

    /// The next time at which something of this identity ends, in Unix seconds.
    pub(crate) fn next_end_unix_s(&self) -> Option<u64> {
        let subscriptions = self.subscriptions_until.iter().map(|(_, until)| *until);
        subscriptions.chain(self.expires_at_unix_s).min()
    }

    /// Notes when a subscription ends.
    pub(crate) fn set_subscription_until(&mut self, channel: &ChannelName, until: Option<u64>) {
        self.subscriptions_until
            .retain(|(known, _)| known != channel);
        self.subscriptions_until
            .extend(until.map(|until| (channel.clone(), until)));
    }
}
