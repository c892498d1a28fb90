//! Appwrite's answer about an account, and the places where a handshake carries a session: an
//! account without an id is not accepted, and a session is one that the client sent.
//!
//! Input: the account, a list of memberships, then the three headers, with NUL bytes between them.

use throng_appwrite::{Identity, MembershipList, SessionHeaders};

use crate::pieces::{is_json, texts};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"{\"$id\":\"U\",\"name\":\"Ann\",\"status\":true,\"labels\":[\"vip\"],\
      \"emailVerification\":true,\"phoneVerification\":false,\
      \"prefs\":{}}\0{\"memberships\":[{\"$id\":\"m\",\"userId\":\"U\",\"teamId\":\"t\",\
      \"confirm\":true,\"roles\":[\"owner\"]}]}\0a_session_p=abc%3D; \
      x=y\0own\0{\"a_session_p\":\"f\"}",
    b"{\"$id\":\"\"}\0{\"memberships\":[]}\0A_SESSION_P_legacy=l\0\0{\"a_session_console\":\"f\"}",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn appwrite_identity(input: &[u8]) {
    let Some([account, memberships, cookie, session, fallback]) = texts::<5>(input) else {
        return;
    };
    let list = MembershipList {
        body: memberships.as_bytes(),
        is_own: true,
    };
    if let Ok(identity) = Identity::from_account(account.as_bytes(), &[list]) {
        assert!(!identity.is_guest() && is_json(identity.account.as_bytes()));
        let user = format!("user:{}", identity.user_id);
        assert!(identity.roles.contains(&user) && identity.roles.contains(&"users".to_owned()));
    }
    let headers = SessionHeaders {
        cookie: Some(cookie),
        session: Some(session),
        fallback: Some(fallback),
    };
    for admin in [false, true] {
        if let Some(found) = headers.find("p", admin) {
            assert!(!found.is_empty());
            let cookie = cookie.replace("%3D", "=").replace("%3d", "=");
            let sent = cookie.contains(&found) || session == found;
            // JSON may write a text in several ways.
            assert!(sent || is_json(fallback.as_bytes()));
        }
    }
}
