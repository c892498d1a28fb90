//! The `throng` binary, met by clients that were written by others. See `docs/TESTING.md`.

mod answers;
mod batches;
mod crowd;
mod drain;
mod examples;
mod fixture;
mod guides;
mod limits;
mod nginx;
mod pipelined;
mod proxies;
mod reload;
mod slow;
mod support;
mod together;
mod upgrade;
mod work;

throng_testkit::dialogues! {
    "dialogues", throng_testkit::play;
    included: ;
    dialogues: answers backends browser cli_client cli_command_line cli_config cli_mistakes
        cli_serve cli_server cli_token commands compression curl dashboard delta drain follow
        history http2 jwks lifetimes live loads logged observe oidc openssl pages proxies publisher
        pusher pusher_apps reload rights server_sdks sign_in story tls tokens upgrade work;
}
