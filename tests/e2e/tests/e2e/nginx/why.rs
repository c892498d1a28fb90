//! Why Throng and nginx differ. Each of these is meant.

pub(super) const METHOD: &str =
    "a method that is a token and unknown is refused like any other, and the connection goes on";
pub(super) const SPACES: &str =
    "one space stands between the parts of a request line (RFC 9112 section 3)";
pub(super) const VERSION: &str =
    "what version it is decides first; only 1.0 and 1.1 exist (docs/PROTOCOLS.md)";
pub(super) const OLD: &str = "HTTP/0.9 is not spoken";
pub(super) const TARGET: &str =
    "a target is a path or an http URI without a fragment (RFC 9112 section 3.2)";
pub(super) const PATH: &str =
    "paths are compared as they were sent; nobody before or behind us reads them otherwise";
pub(super) const ROOT: &str = "there is a page at the root";
pub(super) const STAR: &str = "RFC 9110 section 9.3.7 has it answered";
pub(super) const NAME: &str =
    "each line has a name that is a token, and a colon (RFC 9112 section 5)";
pub(super) const CONTROL: &str = "a value has no control characters (RFC 9110 section 5.5)";
pub(super) const LINE_END: &str =
    "a line ends in CRLF and in nothing else, or others may see another end";
pub(super) const CLOSE: &str = "nginx looks for the word within words, or believes the last line";
pub(super) const CONDITION: &str = "nothing here has validators, so conditions mean nothing";
pub(super) const NO_HOST: &str =
    "an empty Host is allowed (RFC 9110 section 7.2), and a name is not looked up";
pub(super) const BAD_HOST: &str = "this is not a host and a port (RFC 3986 section 3.2)";
pub(super) const OLD_KEEP: &str = "HTTP/1.0 has one request a connection";
pub(super) const LIMIT: &str = "a limit of ours (docs/PROTOCOLS.md)";
pub(super) const TAB: &str = "white space around a value may be a tab (RFC 9110 section 5.6.3)";
pub(super) const CODING: &str =
    "501 is for a coding that is named and not known; this is a faulty list";
pub(super) const CODINGS: &str =
    "the second line names a coding that is not known, which is looked at first";
pub(super) const SIZE: &str = "a size has at most 16 digits, and nothing but extensions behind it";
pub(super) const TRAILER: &str = "a trailer is a field line (RFC 9112 section 7.1.2)";
