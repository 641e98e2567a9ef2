//! Getting objects: the way of every byte that is read from S3.
//!
//! A request is put together and signed here, and its body goes from the socket into the memory of whoever wants it, counted, checksummed
//! and compared on the way. One call is one attempt: when to try again, how many run at once and what is asked for twice is said elsewhere.
//!
//! | file | what it knows |
//! |---|---|
//! | [`place`] | where a bucket's objects are, by the client library's rules: found out once a bucket |
//! | [`sign`] | who asks, so that the server believes it |
//! | [`route`] | the connections to one server, used again and again |
//! | [`dial`] | how one is made: names and their addresses, a proxy, TLS |
//! | [`stream`] | what a connection is |
//! | [`exchange`] | one request and its answer |
//! | [`reply`] | an object on its way: its length, its tag, its content |
//! | [`sums`] | what the content must come to |
//! | [`refusal`] | what a server says instead of an object |

mod dial;
mod exchange;
mod place;
mod refusal;
mod reply;
mod route;
mod sign;
mod stream;
mod sums;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HOST, HeaderValue, IF_MATCH, PROXY_AUTHORIZATION, RANGE, USER_AGENT};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::Empty;

use crate::store::s3::credentials::CredentialsCache;
use crate::store::s3::trouble::{Cause, RequestError};
use crate::store::s3::watch::{self, Clock};
use exchange::Exchange;
use place::{Place, Places};

pub(super) use dial::Dialer;
pub(super) use place::Rules;
pub(super) use reply::Reply;

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("shardpack/", env!("CARGO_PKG_VERSION")));
const CHECKSUM_MODE: &str = "x-amz-checksum-mode";
const REQUEST_PAYER: &str = "x-amz-request-payer";
/// What the server says when this machine's clock is wrong.
const SKEWED: &str = "RequestTimeTooSkewed";
/// Most of an answer without an object that is read.
const MOST_WORDS: usize = 64 << 10;

/// What of which object is wanted, and in which state.
pub(super) struct Wanted<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    /// Its entity tag, without quotes.
    pub(super) tag: Option<&'a str>,
    /// Its first and its last byte; all of it, with the server's checksum, where nothing is said.
    pub(super) range: Option<(u64, u64)>,
}

/// Gets objects of one server.
pub(super) struct Getter {
    places: Places,
    /// Whose requests are signed; none when they are not.
    keeper: Option<CredentialsCache>,
    clock: Arc<Clock>,
    /// This account pays for what it reads.
    pays: bool,
}

impl Getter {
    pub(super) fn new(
        rules: Rules,
        dialer: Dialer,
        keeper: Option<CredentialsCache>,
        clock: &Arc<Clock>,
        pays: bool,
    ) -> Self {
        Self {
            places: Places::new(rules, dialer),
            keeper,
            clock: Arc::clone(clock),
            pays,
        }
    }

    /// Asks for an object, once.
    ///
    /// # Errors
    ///
    /// Anything but the object's beginning, as a server says it or as it failed.
    pub(super) async fn get(&self, wanted: &Wanted<'_>) -> Result<Reply, RequestError> {
        let place = self.places.of(wanted.bucket).await?;
        let mut fresh = false;
        let exchange = loop {
            let (stream, used) = place.route.stream(fresh).await?;
            let request = self.request(&place, wanted).await?;
            match Exchange::begin(stream, request).await {
                Ok(exchange) => break exchange,
                // It ended while nobody looked: all that were kept so long may have.
                Err(_) if used && !fresh => fresh = true,
                Err(error) => return Err(RequestError::failed(&error)),
            }
        };
        watch::moved();
        if let Some(date) = exchange.header("date") {
            self.clock.says(date);
        }
        if exchange.head.status.is_success() {
            return Ok(Reply::new(exchange, &place.route, wanted.range.is_none()));
        }
        let (head, words, stream) = exchange.words(MOST_WORDS).await;
        if let Some(stream) = stream {
            place.route.keep(stream);
        }
        let trouble = refusal::refusal(head.status, &head.headers, &words);
        if trouble.code == SKEWED {
            self.clock.correct();
        }
        Err(trouble)
    }

    /// The request, signed now: an object may have waited for its connection.
    async fn request(
        &self,
        place: &Place,
        wanted: &Wanted<'_>,
    ) -> Result<Request<Empty<Bytes>>, RequestError> {
        let url = place.url(wanted.key);
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(HOST, place.host.clone());
        if let Some(tag) = wanted.tag {
            headers.insert(IF_MATCH, value(format!("\"{tag}\""))?);
        }
        match wanted.range {
            Some((first, last)) => {
                headers.insert(RANGE, value(format!("bytes={first}-{last}"))?);
            }
            None => {
                headers.insert(CHECKSUM_MODE, HeaderValue::from_static("ENABLED"));
            }
        }
        if self.pays {
            headers.insert(REQUEST_PAYER, HeaderValue::from_static("requester"));
        }
        if let Some(keeper) = &self.keeper {
            let credentials = keeper.credentials().await;
            let credentials =
                credentials.map_err(|unavailable| RequestError::from(&unavailable))?;
            let now = self.clock.now();
            sign::sign(credentials, &place.scope, &url, &mut headers, now)?;
        }
        headers.insert(USER_AGENT, AGENT);
        if let Some(authorization) = place.route.authorization() {
            headers.insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        // A proxy that passes requests on must know to whom.
        let target = match place.route.is_forwarded() {
            true => url.as_str(),
            false => place.below(&url),
        };
        let target = target.parse::<Uri>();
        let target = target.map_err(|error| RequestError::new(Cause::Other, error.to_string()))?;
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = target;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn value(text: String) -> Result<HeaderValue, RequestError> {
    HeaderValue::try_from(text).map_err(|error| RequestError::new(Cause::Other, error.to_string()))
}

#[cfg(test)]
mod tests;
