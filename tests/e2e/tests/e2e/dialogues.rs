//! Dialogues in text files: requests and answers, clients' orders and events. `docs/TESTING.md` has
//! their words.

use throng_testkit::play;

throng_dialogue::dialogues! {
    "dialogues", play;
    answers backends browser commands compression curl dashboard delta history jwks lifetimes live
    logged openssl pages proxies publisher reload server_sdks sign_in story tls tokens upgrade work
}
