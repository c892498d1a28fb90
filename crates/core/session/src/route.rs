//! Claims of gateways to requests, and the few paths that are the front door's own.

use throng_auth::KeyRole;

use crate::close::Port;
use crate::http::request::Incoming;

/// Which of several claims to a request wins: the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The front door's own page at `/`.
    Page,
    /// A rule that covers the path among many others.
    Prefix,
    /// An endpoint at just this path.
    Endpoint,
    /// A rule that names the path itself.
    Rule,
}

/// Party that checks the caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The front door on the API port, by a key of the server API; nobody on other ports.
    OfPort,
    /// The front door on any port, by a key of the server API.
    ApiKey,
    /// The claimant as it opens the request: it has keys of its own, or lets everybody in.
    Own,
}

/// A gateway's claim to a request, and the terms on which the front door lets it in.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub endpoint: u8,
    /// Against other gateways' claims.
    pub rank: Rank,
    /// The methods that it takes, as the header Allow lists them; `None` for all.
    pub methods: Option<&'static str>,
    /// Whether browsers' pages are kept away that [`crate::Guards`] does not let in.
    pub checks_origin: bool,
    /// Whether the front door answers OPTIONS for it, as to a preflight of CORS.
    pub preflight: bool,
    /// Whether [`crate::Gateway::open`] may be called while the body is still coming.
    pub streams_body: bool,
    /// Whether it may be carried out while requests before it have no answer yet. Such a claim is
    /// answered at once or with [`crate::Opened::Later`], and opens no session.
    pub pipelines: bool,
    pub access: Access,
    /// Role that a key of the server API needs; `None` if the gateway checks each call itself.
    pub role: Option<KeyRole>,
    /// Whether the gateway checks the namespaces of each call itself. A key that is limited to some
    /// gets nowhere else.
    pub by_channel: bool,
    /// Bytes of a body that is awaited whole; `None` for the port's limit.
    pub body_bytes_max: Option<usize>,
}

impl Claim {
    /// A claim on the usual terms: an endpoint, these methods, origins checked. Answers preflights
    /// if OPTIONS is the last of the methods.
    #[inline]
    pub fn endpoint(endpoint: u8, methods: &'static str) -> Self {
        Self {
            endpoint,
            rank: Rank::Endpoint,
            methods: Some(methods),
            checks_origin: true,
            preflight: methods.ends_with("OPTIONS"),
            streams_body: false,
            pipelines: false,
            access: Access::OfPort,
            // Who forgets to name one shuts the door.
            role: Some(KeyRole::Admin),
            by_channel: false,
            body_bytes_max: None,
        }
    }

    pub fn takes(&self, method: &str) -> bool {
        let Some(methods) = self.methods else {
            return true;
        };
        // Most ask for the first one.
        let behind = methods.strip_prefix(method);
        behind.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
            || methods.split(", ").any(|known| known == method)
    }
}

/// Endpoints of the front door itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// `OPTIONS *`: what the server as a whole can do (RFC 9110 section 9.3.7).
    Server,
    Health,
    /// The dashboard, which knows nothing until it has asked with a key.
    Dashboard,
    /// `/session` of the API port: a browser shows a key once, and is known by a cookie since.
    Login,
    /// `/session/…`: a browser signs in by an OpenID provider.
    SignIn,
    /// The list of endpoints on the client port; [`crate::Pages`] on the API port.
    Page,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// The gateway in this place of the list.
    Gateway(u8),
    FrontDoor(Own),
}

impl Own {
    pub(crate) fn claim(incoming: &Incoming<'_, '_>) -> Option<(Self, Claim)> {
        let (own, rank) = match (incoming.port, incoming.request.path()) {
            (_, "*") => (Self::Server, Rank::Endpoint),
            (Port::Own { .. }, _) => return None,
            (_, "/healthz") => (Self::Health, Rank::Endpoint),
            (Port::Client, "/") => (Self::Page, Rank::Page),
            (Port::Api, "/") => (Self::Dashboard, Rank::Page),
            (Port::Api, "/session") => (Self::Login, Rank::Endpoint),
            (Port::Api, "/session/oidc" | "/session/callback" | "/session/state") => {
                (Self::SignIn, Rank::Endpoint)
            }
            (Port::Api, path) if !path.starts_with("/api/") => (Self::Page, Rank::Page),
            (Port::Client | Port::Api, _) => return None,
        };
        let methods = match own {
            Self::Server => "OPTIONS",
            Self::Login => "POST, DELETE",
            Self::SignIn => "GET",
            Self::Health | Self::Dashboard | Self::Page => "GET, HEAD",
        };
        let claim = Claim {
            rank,
            checks_origin: !matches!(own, Self::Server | Self::Health),
            preflight: false,
            access: match own {
                // Generators of clients fetch it without a key, and it is the same everywhere.
                Self::Page if incoming.request.path() == "/openapi.json" => Access::Own,
                Self::Page => Access::OfPort,
                Self::Server | Self::Health | Self::Dashboard | Self::Login | Self::SignIn => {
                    Access::Own
                }
            },
            role: Some(match incoming.request.path() {
                "/metrics" | "/stats" | "/stats/hour" => KeyRole::Metrics,
                _ => KeyRole::Read,
            }),
            ..Claim::endpoint(0, methods)
        };
        Some((own, claim))
    }
}

/// Methods allowed on any port, for `OPTIONS *`.
pub(crate) const SERVER_METHODS: &str = "GET, HEAD, POST, OPTIONS";

/// First and last lines of the page at `/` of the client port, around the endpoints of gateways.
pub(crate) const CLIENT_PAGE: [&str; 2] = [
    "Throng's client port:\n",
    "  GET  /healthz\nPublishing is on the API port.\n",
];
