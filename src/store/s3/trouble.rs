//! What went wrong with a request, and whether trying again may help; how it is told to people is in `explain`.
//!
//! Servers' own messages are passed on, shortened; nothing of a request's headers or of credentials is ever part of a message.

use std::time::Duration;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::store::s3::credentials::Unavailable;
use crate::store::s3::message::{chain, short};

/// Attempts at reading what arrives damaged.
const CORRUPT_ATTEMPTS: u32 = 6;

/// How a request ended that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The server said no, with a status and a code.
    Answer,
    /// Nothing came for too long.
    Timeout,
    /// No connection, or it broke before or in the answer.
    Connection,
    /// The other side cannot prove who it is.
    Certificate,
    /// The other side does not speak TLS.
    NoTls,
    /// The URL of the server has the wrong scheme; the message has the right one.
    Scheme,
    /// The proxy wants to know who asks.
    ProxyAuth,
    /// There are no credentials, or who gives them out says no.
    Credentials,
    /// Credentials could not be fetched at the moment.
    CredentialsAway,
    /// What arrived is not what was stored.
    Corrupt,
    /// The request cannot be made or the answer not understood.
    Other,
}

/// A failed request.
#[derive(Debug, Clone)]
pub(super) struct RequestError {
    pub(super) cause: Cause,
    /// HTTP status; 0 without an answer.
    pub(super) status: u16,
    /// The server's error code, empty where there is none.
    pub(super) code: String,
    /// What the server or the library said of it, shortened.
    pub(super) message: String,
    /// Region of the bucket, when the server names it.
    pub(super) region: Option<String>,
    /// How long the server asks to wait.
    pub(super) wait: Option<Duration>,
}

impl RequestError {
    pub(super) fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            cause,
            status: 0,
            code: String::new(),
            message: message.into(),
            region: None,
            wait: None,
        }
    }

    /// The other side pushes back.
    pub(super) fn is_throttle(&self) -> bool {
        let codes = [
            "SlowDown",
            "Throttling",
            "ThrottlingException",
            "TooManyRequests",
            "RequestLimitExceeded",
            "BandwidthLimitExceeded",
        ];
        self.status == 429 || self.status == 503 || codes.contains(&self.code.as_str())
    }

    /// The same request may succeed later. `attempts` were made so far.
    pub(super) fn may_pass(&self, attempts: u32) -> bool {
        match self.cause {
            Cause::Timeout | Cause::Connection | Cause::CredentialsAway => true,
            // Damage on the way passes; damage where it lies does not.
            Cause::Corrupt => attempts < CORRUPT_ATTEMPTS || attempts == u32::MAX,
            // The client corrects its clock by the server's answer.
            Cause::Answer if self.code == "RequestTimeTooSkewed" => attempts < 2,
            Cause::Answer => {
                let codes = [
                    "InternalError",
                    "RequestTimeout",
                    "OperationAborted",
                    "ConditionalRequestConflict",
                ];
                self.is_throttle()
                    || matches!(self.status, 408 | 500 | 502 | 504 | 520..=599)
                    || codes.contains(&self.code.as_str())
            }
            Cause::Certificate
            | Cause::NoTls
            | Cause::Scheme
            | Cause::ProxyAuth
            | Cause::Credentials
            | Cause::Other => false,
        }
    }

    /// The same from a server that answered before: then an odd answer is one that broke.
    pub(super) fn after_answers(self) -> Self {
        match self.cause {
            Cause::NoTls => Self {
                cause: Cause::Connection,
                ..self
            },
            _ => self,
        }
    }

    /// The server takes the credentials for ended.
    pub(super) fn is_expired(&self) -> bool {
        let codes = [
            "ExpiredToken",
            "ExpiredTokenException",
            "TokenRefreshRequired",
        ];
        codes.contains(&self.code.as_str())
    }

    /// The named object or bucket is not there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.code.as_str(), "NoSuchKey" | "NotFound")
            || (self.status == 404
                && !["NoSuchBucket", "NoSuchUpload"].contains(&self.code.as_str()))
    }

    /// The bucket itself is not there.
    pub(super) fn is_missing_bucket(&self) -> bool {
        self.code == "NoSuchBucket"
    }

    /// A condition of the request was not met.
    pub(super) fn is_condition(&self) -> bool {
        self.status == 412 || self.code == "PreconditionFailed"
    }

    /// The server does not know what was asked of it.
    pub(super) fn is_unknown_request(&self) -> bool {
        let codes = [
            "NotImplemented",
            "InvalidRequest",
            "InvalidArgument",
            "ExcessHeaderValues",
            "NotSupported",
        ];
        self.status == 501 || (self.status == 400 && codes.contains(&self.code.as_str()))
    }
}

/// The first error of a type among an error and what caused it.
fn find<'a, T: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The region that a complaint about the signature names: AWS has `expecting 'eu-west-1'`, Garage the scope it
/// `expected: 'DATE/us-east-1/s3/aws4_request'`.
fn region_in(message: &str) -> Option<String> {
    let quoted = |start: &str| {
        let (_, rest) = message.split_once(start)?;
        Some(rest.split_once('\'')?.0)
    };
    let region = quoted("expecting '").or_else(|| quoted("expected: '")?.split('/').nth(1));
    region.map(str::to_owned)
}

impl From<&Unavailable> for RequestError {
    fn from(unavailable: &Unavailable) -> Self {
        let cause = match unavailable.lasting {
            true => Cause::Credentials,
            false => Cause::CredentialsAway,
        };
        Self::new(cause, unavailable.reason.clone())
    }
}

/// What kept a request from its answer, by the words of the libraries below: they have no other way to tell.
fn cause_in(words: &str) -> Option<Cause> {
    let lower = words.to_lowercase();
    let causes = [
        ("tunnel error: proxy auth", Cause::ProxyAuth),
        ("certificate", Cause::Certificate),
        ("tunnel error", Cause::Connection),
        ("invalidcontenttype", Cause::NoTls),
    ];
    let found = causes.iter().find(|(word, _)| lower.contains(word));
    found.map(|(_, cause)| *cause)
}

impl RequestError {
    /// A connection that could not be made, or broke.
    pub(super) fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        let texts = chain(error);
        let cause = cause_in(&texts.join(": ")).unwrap_or(Cause::Connection);
        Self::new(
            cause,
            short(&texts[texts.len().saturating_sub(2)..].join(": ")),
        )
    }

    /// The same with the region that the server's message names, if its headers named none.
    pub(super) fn with_region_of_message(self) -> Self {
        let region = self.region.or_else(|| region_in(&self.message));
        Self { region, ..self }
    }
}

impl<E> From<SdkError<E, HttpResponse>> for RequestError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    fn from(error: SdkError<E, HttpResponse>) -> Self {
        if let Some(unavailable) = find::<Unavailable>(&error) {
            return unavailable.into();
        }
        let texts = match &error {
            SdkError::ServiceError(_) => Vec::new(),
            other => chain(other),
        };
        let words = cause_in(&texts.join(": "));
        // The outer layers only say that sending failed.
        let text = short(&texts[texts.len().saturating_sub(2)..].join(": "));
        let cause = match &error {
            SdkError::ServiceError(_) => Cause::Answer,
            SdkError::TimeoutError(_) => Cause::Timeout,
            _ if let Some(cause) = words => cause,
            SdkError::DispatchFailure(failure) if failure.is_timeout() => Cause::Timeout,
            SdkError::DispatchFailure(failure) if failure.is_user() => Cause::Other,
            SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => Cause::Connection,
            _ => Cause::Other,
        };
        let mut trouble = RequestError::new(cause, text);
        if let Some(response) = error.raw_response() {
            trouble.status = response.status().as_u16();
            let header = |name| response.headers().get(name).map(str::to_owned);
            trouble.region = header("x-amz-bucket-region").map(|region| short(&region));
            trouble.wait = header("retry-after")
                .and_then(|seconds| seconds.parse().ok())
                .map(Duration::from_secs);
        }
        if let SdkError::ServiceError(service) = &error {
            let meta = service.err().meta();
            trouble.code = short(meta.code().unwrap_or_default());
            trouble.message = short(meta.message().unwrap_or_default());
        }
        trouble.with_region_of_message()
    }
}

#[cfg(test)]
impl RequestError {
    /// What a server answered, for tests.
    pub(super) fn answered(status: u16, code: &str, message: &str) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.to_owned(),
            ..Self::new(Cause::Answer, "")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_tried_again_and_what_cannot_is_not() {
        for (status, code) in [
            (503, "SlowDown"),
            (500, "InternalError"),
            (429, ""),
            (400, "RequestTimeout"),
            (409, "ConditionalRequestConflict"),
            (200, "InternalError"),
            (502, ""),
        ] {
            assert!(
                RequestError::answered(status, code, "").may_pass(5),
                "{status} {code}"
            );
        }
        for (status, code) in [
            (403, "AccessDenied"),
            (404, "NoSuchKey"),
            (400, "BadDigest"),
            (501, "NotImplemented"),
            (400, "ExpiredToken"),
            (301, "PermanentRedirect"),
            (412, "PreconditionFailed"),
        ] {
            assert!(
                !RequestError::answered(status, code, "").may_pass(1),
                "{status} {code}"
            );
        }
        assert!(RequestError::answered(403, "RequestTimeTooSkewed", "").may_pass(1));
        assert!(!RequestError::answered(403, "RequestTimeTooSkewed", "").may_pass(2));
        assert!(
            RequestError::answered(503, "", "").is_throttle()
                && !RequestError::answered(500, "", "").is_throttle()
        );
    }

    #[test]
    fn the_right_region_is_found_in_a_complaint() {
        for (message, region) in [
            (
                "the region 'us-east-1' is wrong; expecting 'eu-west-1'",
                Some("eu-west-1"),
            ),
            (
                "unexpected scope, expected: '20261121/garage/s3/aws4_request'",
                Some("garage"),
            ),
            ("the authorization header is malformed", None),
        ] {
            assert_eq!(region_in(message).as_deref(), region);
        }
    }
}
