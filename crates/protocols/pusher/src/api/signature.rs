//! Signatures of calls, in their queries.
//!
//! A call is signed over its method, its path and all of its query but the signature. A body is
//! signed by its MD5 in the query, so that digest is computed again here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use md5::{Digest as _, Md5};
use throng_http1::query;
use throng_types::{coded_enum, error_text, percent_decoded};

use crate::AppKeys;

/// Seconds that a call's time may differ from ours.
const CLOCK_SKEW_S: u64 = 600;

coded_enum! {
    /// Reason for refusing a call; answered with 401.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BadSignature {
        /// Sentence for the answer, which says what to look at.
        fn reason;
        Key = "auth_key is not the key of this app";
        Version = "auth_version must be 1.0";
        Time = "auth_timestamp is more than 600 s from this server's time: check both clocks";
        Body = "body_md5 is not the MD5 of the body that arrived";
        Signature = "auth_signature does not fit the method, the path and the query that arrived: \
                     check the secret, and that nothing between rewrites the path";
    }
}

error_text!(BadSignature.reason);

/// Makes the query of a call that the app signs at a time, for tests and tools.
#[must_use]
pub fn signed_query(
    keys: &AppKeys,
    method: &str,
    path: &str,
    body: &[u8],
    now_unix_s: u64,
) -> String {
    let key = keys.key();
    let mut query = format!("auth_key={key}&auth_timestamp={now_unix_s}&auth_version=1.0");
    if !body.is_empty() {
        query += "&body_md5=";
        query += &HEXLOWER.encode(&Md5::digest(body));
    }
    let message = SignedQuery::parse(&query).message(method, path);
    let signature = keys.sign(message.as_bytes());
    format!("{query}&auth_signature={signature}")
}

/// Parameters of a call: decoded values by their names in lower case; the last of a name counts.
pub struct SignedQuery<'a>(BTreeMap<String, Cow<'a, str>>);

impl<'a> SignedQuery<'a> {
    /// Reads a query, and checks nothing.
    #[must_use]
    pub fn parse(query: &'a str) -> Self {
        let pairs = query::pairs(query);
        Self(
            pairs
                .map(|(name, value)| (name.to_ascii_lowercase(), value))
                .collect(),
        )
    }

    /// Value of a parameter; empty if it is missing.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value)
    }

    /// Checks that the app has signed the call, within 600 s of `now_unix_s`, in constant time. A
    /// body needs its MD5 in `body_md5`. `path` is the one that arrived; libraries sign it before
    /// their HTTP client encodes it, so that a signature over the decoded path is good, too.
    pub fn check(
        &self,
        keys: &AppKeys,
        method: &str,
        path: &str,
        body: &[u8],
        now_unix_s: u64,
    ) -> Result<(), BadSignature> {
        if self.get("auth_key") != keys.key() {
            return Err(BadSignature::Key);
        }
        if self.get("auth_version") != "1.0" {
            return Err(BadSignature::Version);
        }
        let time = self.get("auth_timestamp").parse::<u64>();
        if !time.is_ok_and(|time| time.abs_diff(now_unix_s) <= CLOCK_SKEW_S) {
            return Err(BadSignature::Time);
        }
        let told = self.0.get("body_md5");
        if !body.is_empty() || told.is_some() {
            let told = told.and_then(|md5| HEXLOWER_PERMISSIVE.decode(md5.as_bytes()).ok());
            if told.is_none_or(|told| *told != *Md5::digest(body)) {
                return Err(BadSignature::Body);
            }
        }
        let signature = self.get("auth_signature");
        let decoded = percent_decoded(path);
        let paths = [
            Some(path),
            decoded.as_deref().filter(|decoded| *decoded != path),
        ];
        let fits = |path| keys.has_signed(signature, &self.message(method, path));
        match paths.into_iter().flatten().any(fits) {
            true => Ok(()),
            false => Err(BadSignature::Signature),
        }
    }

    /// The text that is signed.
    fn message(&self, method: &str, path: &str) -> String {
        let parameters = self.0.iter().filter(|(name, _)| *name != "auth_signature");
        let parameters: Vec<_> = parameters
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{method}\n{path}\n{}", parameters.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn documented() -> AppKeys {
        AppKeys::new("278d425bdf160c739803", ["7ad3773142a6692b25b8"])
    }

    /// Example of Pusher's page "HTTP API", with its signature.
    const BODY: &[u8] = br#"{"name":"foo","channels":["project-3"],"data":"{\"some\":\"data\"}"}"#;
    const QUERY: &str = "auth_key=278d425bdf160c739803&auth_timestamp=1353088179&auth_version=1.0\
                         &body_md5=ec365a775a4cd0599faeb73354201b6f\
                         &auth_signature=da454824c97ba181a32ccc17a72625ba\
                         02771f50b50e1e7430e47a1f3f457e6c";

    fn check(
        query: &str,
        method: &str,
        path: &str,
        body: &[u8],
        now: u64,
    ) -> Result<(), BadSignature> {
        SignedQuery::parse(query).check(&documented(), method, path, body, now)
    }

    #[test]
    fn the_documented_call_is_signed_well() {
        let now = 1_353_088_179;
        assert_eq!(check(QUERY, "POST", "/apps/3/events", BODY, now), Ok(()));
        let other = QUERY.replace("=da45", "=da46");
        for (query, method, path, body, now, why) in [
            (QUERY, "POST", "/apps/3/events", BODY, now + 600, None),
            (
                QUERY,
                "POST",
                "/apps/3/events",
                BODY,
                now + 601,
                Some(BadSignature::Time),
            ),
            (
                QUERY,
                "POST",
                "/apps/3/events",
                BODY,
                now - 601,
                Some(BadSignature::Time),
            ),
            (
                QUERY,
                "GET",
                "/apps/3/events",
                BODY,
                now,
                Some(BadSignature::Signature),
            ),
            (
                QUERY,
                "POST",
                "/apps/4/events",
                BODY,
                now,
                Some(BadSignature::Signature),
            ),
            (
                &*other,
                "POST",
                "/apps/3/events",
                BODY,
                now,
                Some(BadSignature::Signature),
            ),
            (
                QUERY,
                "POST",
                "/apps/3/events",
                b"{}",
                now,
                Some(BadSignature::Body),
            ),
            (
                QUERY,
                "POST",
                "/apps/3/events",
                b"",
                now,
                Some(BadSignature::Body),
            ),
            (
                "auth_key=x",
                "POST",
                "/apps/3/events",
                BODY,
                now,
                Some(BadSignature::Key),
            ),
            (
                "",
                "POST",
                "/apps/3/events",
                BODY,
                now,
                Some(BadSignature::Key),
            ),
        ] {
            assert_eq!(
                check(query, method, path, body, now).err(),
                why,
                "{query} {path} {now}"
            );
        }
    }

    #[test]
    fn order_case_and_encoding_of_the_query_do_not_count() {
        let keys = AppKeys::new("k", ["s"]);
        let message = "GET\n/apps/1/channels/a;b\nauth_key=k&auth_timestamp=5&auth_version=1.0\
                       &info=user_count,cache";
        let signature = keys.sign(message.as_bytes());
        let query = format!(
            "info=user_count%2Ccache&auth_signature={signature}&Auth_Version=1.0\
             &auth_timestamp=5&auth_key=k"
        );
        for path in ["/apps/1/channels/a;b", "/apps/1/channels/a%3Bb"] {
            assert_eq!(
                SignedQuery::parse(&query).check(&keys, "GET", path, b"", 5),
                Ok(())
            );
        }
        assert_eq!(SignedQuery::parse(&query).get("info"), "user_count,cache");
    }

    proptest! {
        #[test]
        fn any_query_is_read_and_refused(path: String, query: String, body: Vec<u8>) {
            prop_assert!(check(&query, "POST", &path, &body, 0).is_err());
        }
    }
}
