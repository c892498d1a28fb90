//! The scripts, and calls of them.

use throng_redis_link::command;

use crate::options::Verbs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Publish,
    Look,
    Release,
    Come,
    Tell,
    Quit,
    Present,
    Sweep,
    Ask,
}

impl Script {
    pub(crate) const ALL: [Self; 9] = [
        Self::Publish,
        Self::Look,
        Self::Release,
        Self::Come,
        Self::Tell,
        Self::Quit,
        Self::Present,
        Self::Sweep,
        Self::Ask,
    ];

    /// Returns the script's text, which publishes and counts subscribers by these commands.
    pub(crate) fn text(self, verbs: Verbs) -> String {
        let own = match self {
            Self::Publish => include_str!("lua/publish.lua"),
            Self::Look => include_str!("lua/look.lua"),
            Self::Release => include_str!("lua/release.lua"),
            Self::Come => include_str!("lua/come.lua"),
            Self::Tell => include_str!("lua/tell.lua"),
            Self::Quit => include_str!("lua/quit.lua"),
            Self::Present => include_str!("lua/present.lua"),
            Self::Sweep => include_str!("lua/sweep.lua"),
            Self::Ask => include_str!("lua/ask.lua"),
        };
        let common = include_str!("lua/common.lua");
        let Verbs {
            publish, numsub, ..
        } = verbs;
        format!("local publish, numsub = '{publish}', '{numsub}'\n{common}{own}")
    }
}

/// Appends a call of a script that Redis knows by its digest.
pub(crate) fn call(out: &mut Vec<u8>, digest: &str, keys: &[&str], args: &[&[u8]]) {
    let count = keys.len().to_string();
    let head = [b"EVALSHA".as_slice(), digest.as_bytes(), count.as_bytes()];
    let keys = keys.iter().map(|key| key.as_bytes());
    let parts = head.into_iter().chain(keys).chain(args.iter().copied());
    command(out, &parts.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_command() {
        let mut out = Vec::new();
        call(&mut out, "abc", &["k"], &[b"1"]);
        assert_eq!(
            out,
            b"*5\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\n1\r\n"
        );
    }
}
