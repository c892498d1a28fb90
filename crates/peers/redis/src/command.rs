//! The scripts, and calls of them.

use throng_redis_link::command;
use throng_types::coded_enum;

use crate::options::Verbs;

coded_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Script {
        /// Text of the script itself.
        fn own;
        Publish = include_str!("lua/publish.lua");
        Look = include_str!("lua/look.lua");
        Release = include_str!("lua/release.lua");
        Come = include_str!("lua/come.lua");
        Tell = include_str!("lua/tell.lua");
        Quit = include_str!("lua/quit.lua");
        Present = include_str!("lua/present.lua");
        Sweep = include_str!("lua/sweep.lua");
        Ask = include_str!("lua/ask.lua");
    }
}

impl Script {
    /// Returns the script's text, which publishes and counts subscribers by these commands.
    pub(crate) fn text(self, verbs: Verbs) -> String {
        let common = include_str!("lua/common.lua");
        let Verbs {
            publish, numsub, ..
        } = verbs;
        format!(
            "local publish, numsub = '{publish}', '{numsub}'\n{common}{}",
            self.own()
        )
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
