//! How a connection is made: which addresses a name has, through which proxy, under TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper_util::client::proxy::matcher::Matcher;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::exchange::Exchange;
use super::stream::Stream;
use crate::store::s3::tls::Trust;
use crate::store::s3::trouble::{Cause, RequestError};

/// Longest time until a connection stands, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// The next address is tried beside one that says nothing for so long.
const NEXT: Duration = Duration::from_millis(250);
/// The addresses of a name are asked for again after this time: S3 gives others every few seconds.
const KNOWN: Duration = Duration::from_secs(5);

/// One end of a connection, by its name.
pub(super) struct Party {
    pub(super) https: bool,
    /// Without brackets.
    host: String,
    port: u16,
    addresses: Addresses,
}

/// A proxy on the way.
pub(super) struct Via {
    proxy: Party,
    /// What it is told of who asks.
    pub(super) authorization: Option<HeaderValue>,
}

/// Makes connections.
pub(in crate::store::s3) struct Dialer {
    trust: Trust,
    proxies: Option<Matcher>,
    /// Made when it is needed first: reading the system's authorities takes milliseconds.
    tls: OnceLock<Arc<ClientConfig>>,
}

impl Dialer {
    pub(in crate::store::s3) fn new(trust: Trust, proxies: Option<Matcher>) -> Self {
        Self {
            trust,
            proxies,
            tls: OnceLock::new(),
        }
    }

    /// The proxy on the way to a server, if there is one.
    pub(super) fn via(&self, server: &Party) -> Option<Via> {
        let scheme = if server.https { "https" } else { "http" };
        let url = format!("{scheme}://{}", server.authority());
        let found = self.proxies.as_ref()?.intercept(&url.parse().ok()?)?;
        let uri = found.uri();
        let https = uri.scheme_str() == Some("https");
        let usual = if https { 443 } else { 80 };
        Some(Via {
            proxy: Party::new(https, uri.host()?, uri.port_u16().unwrap_or(usual)),
            authorization: found.basic_auth().cloned(),
        })
    }

    /// Connects to a server.
    pub(super) async fn dial(
        &self,
        server: &Party,
        via: Option<&Via>,
    ) -> Result<Stream, RequestError> {
        let dialled = async {
            let Some(via) = via else {
                let stream = Stream::Plain(server.connect().await?);
                return self.secure(server, stream).await;
            };
            let stream = Stream::Plain(via.proxy.connect().await?);
            let stream = self.secure(&via.proxy, stream).await?;
            match server.https {
                // It reads the requests and passes them on.
                false => Ok(stream),
                true => self.secure(server, via.tunnel(server, stream).await?).await,
            }
        };
        let slow = || RequestError::new(Cause::Timeout, "no connection in time");
        timeout(CONNECT, dialled).await.map_err(|_| slow())?
    }

    /// Speaks TLS with whoever wants it.
    async fn secure(&self, with: &Party, stream: Stream) -> Result<Stream, RequestError> {
        if !with.https {
            return Ok(stream);
        }
        let config = match self.tls.get() {
            Some(config) => config,
            None => {
                let made = self.trust.config();
                let made =
                    made.map_err(|error| RequestError::new(Cause::Other, error.to_string()))?;
                self.tls.get_or_init(|| made)
            }
        };
        let name = ServerName::try_from(with.host.clone());
        let name = name.map_err(|error| RequestError::failed(&error))?;
        let stream = TlsConnector::from(Arc::clone(config))
            .connect(name, stream)
            .await;
        let stream = stream.map_err(|error| RequestError::failed(&error))?;
        Ok(Stream::Tls(Box::new(stream)))
    }
}

impl Via {
    /// Has the proxy connect this to a server.
    async fn tunnel(&self, server: &Party, stream: Stream) -> Result<Stream, RequestError> {
        let authority = server.authority();
        let odd =
            |error: &dyn std::fmt::Display| RequestError::new(Cause::Other, error.to_string());
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = authority.parse::<Uri>().map_err(|error| odd(&error))?;
        let host = HeaderValue::try_from(authority).map_err(|error| odd(&error))?;
        request.headers_mut().insert(HOST, host);
        if let Some(authorization) = &self.authorization {
            request
                .headers_mut()
                .insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let exchange = Exchange::begin(stream, request).await;
        let exchange = exchange.map_err(|error| RequestError::failed(&error))?;
        match exchange.head.status {
            status if status.is_success() => Ok(exchange.raw().2),
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err(RequestError::new(
                Cause::ProxyAuth,
                "proxy authorization required",
            )),
            status => {
                let what = format!("the proxy answers with status {}", status.as_u16());
                Err(RequestError::new(Cause::Connection, what))
            }
        }
    }
}

impl Party {
    pub(super) fn new(https: bool, host: &str, port: u16) -> Self {
        Self {
            https,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            addresses: Addresses::default(),
        }
    }

    /// Whether it is this one.
    pub(super) fn is(&self, https: bool, host: &str, port: u16) -> bool {
        let host = host.trim_matches(['[', ']']);
        self.https == https && self.host == host && self.port == port
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    async fn connect(&self) -> Result<TcpStream, RequestError> {
        let failed = |what: &str, error: &io::Error| {
            RequestError::new(Cause::Connection, format!("{what}: {error}"))
        };
        let addresses = self.addresses.of(&self.host, self.port).await;
        let addresses = addresses.map_err(|error| failed("dns error", &error))?;
        let stream = connect(addresses).await;
        let stream = stream.map_err(|error| failed("tcp connect error", &error))?;
        // A request is one small write.
        _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// The addresses of a name, and which of them is the next one's.
#[derive(Default)]
struct Addresses {
    known: Mutex<Option<(Instant, Vec<SocketAddr>)>>,
    next: AtomicUsize,
}

impl Addresses {
    /// The addresses to try for one connection. Each begins with another, so that all of the server's machines have their share.
    async fn of(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        // Hundreds connect at once: one asks.
        let mut known = self.known.lock().await;
        let addresses = match &*known {
            Some((since, addresses)) if since.elapsed() < KNOWN => addresses,
            _ => {
                let addresses = lookup_host((host, port)).await?.collect();
                &known.insert((Instant::now(), addresses)).1
            }
        };
        Ok(spread(addresses, self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

/// The addresses of the family that this machine prefers, beginning with the `turn`-th, then those of the other.
fn spread(addresses: &[SocketAddr], turn: usize) -> Vec<SocketAddr> {
    let first = addresses.first().map(SocketAddr::is_ipv4);
    let preferred = |address: &SocketAddr| Some(address.is_ipv4()) == first;
    let (mut spread, others): (Vec<_>, Vec<_>) = addresses.iter().copied().partition(preferred);
    let turn = turn % spread.len().max(1);
    spread.rotate_left(turn);
    spread.extend(others);
    spread
}

/// Connects to the first address that answers.
async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut left = addresses.into_iter();
    loop {
        match left.next() {
            Some(address) => _ = attempts.spawn(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(failed),
            None => {}
        }
        let patience = match left.len() {
            0 => CONNECT,
            _ => NEXT,
        };
        match timeout(patience, attempts.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => failed = error,
            Ok(Some(Err(ended))) => failed = io::Error::other(ended),
            // None yet: the next is tried beside it.
            Ok(None) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn connections_are_spread_over_the_addresses_that_are_preferred() {
        let addresses = ["1.0.0.1:1", "[::1]:1", "1.0.0.2:1", "1.0.0.3:1"];
        let addresses = addresses.map(|address| address.parse::<SocketAddr>().unwrap());
        let turn = |turn| {
            let spread = spread(&addresses, turn).into_iter();
            spread
                .map(|address| address.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(turn(0), ["1.0.0.1:1", "1.0.0.2:1", "1.0.0.3:1", "[::1]:1"]);
        assert_eq!(turn(4), ["1.0.0.2:1", "1.0.0.3:1", "1.0.0.1:1", "[::1]:1"]);
        assert!(spread(&[], 3).is_empty());
    }

    #[test]
    fn an_address_that_does_not_answer_leaves_the_others() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let here = listener.local_addr().unwrap();
            // Nobody listens there.
            let refused = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let away = refused.local_addr().unwrap();
            drop(refused);
            assert_eq!(
                connect(vec![away, here])
                    .await
                    .unwrap()
                    .peer_addr()
                    .unwrap(),
                here
            );
            let error = connect(vec![away]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            assert!(connect(Vec::new()).await.is_err());
        });
    }
}
