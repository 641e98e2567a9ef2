//! What went wrong with a request: whether trying again may help, and how to say it to a person.
//!
//! Servers' own messages are passed on, shortened; nothing of a request's headers or of credentials is ever part of a message.

use std::time::Duration;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::credentials::Unavailable;
use crate::base::error::{Error, Kind};

/// Longest piece of a server's message that is passed on, in characters.
const MESSAGE_CHARS: usize = 200;

/// Attempts at reading what arrives damaged.
const CORRUPT_ATTEMPTS: u32 = 6;

/// How a request ended that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
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
pub(super) struct Trouble {
    pub(super) sort: Sort,
    /// HTTP status; 0 without an answer.
    pub(super) status: u16,
    /// The server's error code, empty where there is none.
    pub(super) code: String,
    message: String,
    /// Region of the bucket, when the server names it.
    region: Option<String>,
    /// How long the server asks to wait.
    pub(super) wait: Option<Duration>,
}

impl Trouble {
    pub(super) fn new(sort: Sort, message: impl Into<String>) -> Self {
        Self {
            sort,
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
        match self.sort {
            Sort::Timeout | Sort::Connection | Sort::CredentialsAway => true,
            // Damage on the way passes; damage where it lies does not.
            Sort::Corrupt => attempts < CORRUPT_ATTEMPTS || attempts == u32::MAX,
            // The client corrects its clock by the server's answer.
            Sort::Answer if self.code == "RequestTimeTooSkewed" => attempts < 2,
            Sort::Answer => {
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
            Sort::Certificate
            | Sort::NoTls
            | Sort::Scheme
            | Sort::ProxyAuth
            | Sort::Credentials
            | Sort::Other => false,
        }
    }

    /// The same from a server that answered before: then an odd answer is one that broke.
    pub(super) fn after_answers(self) -> Self {
        match self.sort {
            Sort::NoTls => Self {
                sort: Sort::Connection,
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

    /// The error for people. `action` is the permission the request needs, `object` what it was about.
    pub(super) fn explain(&self, action: &str, object: &str, endpoint: Option<&str>) -> Error {
        let server = endpoint.unwrap_or("S3");
        let answer = self.answer();
        // Garage has one code for all of these; its message tells them apart.
        let code = match self.code.as_str() {
            "AccessDenied" if self.message.contains("Invalid signature") => "SignatureDoesNotMatch",
            "AccessDenied" if self.message.contains("No such key") => "InvalidAccessKeyId",
            code => code,
        };
        let (kind, what) = match (self.sort, code, self.status) {
            (Sort::Credentials, ..) => (
                Kind::Failed,
                format!(
                    "no usable credentials ({}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile with `--profile`, \
                     or add `--no-sign-request` for a public bucket",
                    self.message
                ),
            ),
            (Sort::CredentialsAway, ..) => (
                Kind::Transient,
                format!("credentials cannot be fetched at the moment ({}): run again", self.message),
            ),
            (Sort::Certificate, ..) => (Kind::Failed, certificate(server, &self.message)),
            (Sort::Scheme | Sort::NoTls, ..) => (Kind::Usage, format!("{server} {}", self.message)),
            (Sort::ProxyAuth, ..) | (Sort::Answer, _, 407) => (
                Kind::Failed,
                format!("{server} asks for a user and a password, or others: give http://USER:PASSWORD@HOST:PORT in that variable"),
            ),
            (Sort::Connection, ..) => (
                Kind::Transient,
                format!(
                    "{server} cannot be reached ({}): check the network and `--endpoint-url`, then run again",
                    self.message
                ),
            ),
            (Sort::Timeout, ..) => (
                Kind::Transient,
                format!("{server} did not answer in time: run again, or raise `--request-timeout`"),
            ),
            (Sort::Corrupt, ..) => (
                Kind::Transient,
                format!("what arrives differs from what is stored ({}): run again; if it stays so, the object is damaged", self.message),
            ),
            (Sort::Other, ..) => (Kind::Failed, format!("{action}: {}", self.message)),
            (_, "AccessDenied" | "AllAccessDisabled" | "UnauthorizedAccess", _) => (
                Kind::Failed,
                format!("access denied: these credentials need {action} for it{answer}"),
            ),
            (_, "InvalidAccessKeyId" | "InvalidClientTokenId", _) => (
                Kind::Failed,
                format!("{server} does not know this access key: check the credentials, or `--profile` and `--endpoint-url`"),
            ),
            (_, "SignatureDoesNotMatch", _) => (
                Kind::Failed,
                format!("{server} refuses the signature: check the secret key, and `--region`"),
            ),
            (_, "ExpiredToken" | "ExpiredTokenException" | "InvalidToken" | "TokenRefreshRequired", _) => (
                Kind::Failed,
                format!("the session token has expired or is not valid{answer}: fetch new credentials and run again"),
            ),
            (_, "RequestTimeTooSkewed" | "RequestExpired", _) => (
                Kind::Failed,
                "the clock of this machine is wrong: set it (for example with `timedatectl set-ntp true`) and run again".to_owned(),
            ),
            (_, "NoSuchBucket", _) => (
                Kind::Failed,
                format!("there is no such bucket at {server}: check the name, or create it"),
            ),
            (
                _,
                "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" | "TemporaryRedirect",
                _,
            )
            | (_, _, 301 | 307) => (
                Kind::Failed,
                match &self.region {
                    Some(region) => format!("the bucket is in region {region}: add `--region {region}`"),
                    None => format!("the bucket is in another region{answer}: name it with `--region`"),
                },
            ),
            (_, "InvalidObjectState", _) => (
                Kind::Failed,
                "is archived: restore it first, or leave it out".to_owned(),
            ),
            (_, code, _) if code.starts_with("KMS") || code.contains("Kms") => (
                Kind::Failed,
                format!("the encryption key cannot be used{answer}: check `--sse-kms-key-id` and the key's policy"),
            ),
            (_, "", 403) => (
                Kind::Failed,
                format!("access denied: these credentials need {action} for it"),
            ),
            _ if self.may_pass(u32::MAX) => (
                Kind::Transient,
                format!("{server} is in trouble{answer}: run again"),
            ),
            _ => (Kind::Failed, format!("{action} was refused{answer}")),
        };
        let error = Error::new(kind, format!("{object}: {what}"));
        match self.is_missing_bucket() {
            true => error.of_absent_place(),
            false => error,
        }
    }

    /// What the server said, for the end of a clause.
    fn answer(&self) -> String {
        match (self.status, self.code.as_str(), self.message.as_str()) {
            (0, "", _) => String::new(),
            (status, "", _) => format!(" (status {status})"),
            (_, code, "") => format!(" ({code})"),
            (_, code, message) => format!(" ({code}: {message})"),
        }
    }
}

/// What is wrong with a server's certificate, by the words of the library that refused it.
fn certificate(server: &str, message: &str) -> String {
    // An authority that was made anew under its old name signs badly, for those who know the old one.
    let lower = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let (what, remedy) = if has(&["unknownissuer", "badsignature"]) {
        (
            "is signed by an authority that is not known here",
            "name that authority's certificate in AWS_CA_BUNDLE",
        )
    } else if has(&["valid for name", "notvalidforname"]) {
        ("is for another name", "give that name in `--endpoint-url`")
    } else if has(&["expired", "not valid yet", "notvalidyet"]) {
        (
            "has ended or not begun",
            "renew it, or set the clock of this machine",
        )
    } else if has(&["causedasendentity"]) {
        (
            "is an authority's own (CA:TRUE)",
            "let that authority sign one for the server, without CA:TRUE",
        )
    } else {
        ("cannot be used", "give the server another")
    };
    format!("{server}: its certificate {what} ({message}): {remedy}")
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

/// Texts of an error and what caused it, innermost last, without saying the same twice.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts
}

pub(super) fn short(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let mut short: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MESSAGE_CHARS)
        .collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
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

impl From<&Unavailable> for Trouble {
    fn from(unavailable: &Unavailable) -> Self {
        let sort = match unavailable.lasting {
            true => Sort::Credentials,
            false => Sort::CredentialsAway,
        };
        Self::new(sort, unavailable.reason.clone())
    }
}

impl<E> From<SdkError<E, HttpResponse>> for Trouble
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
        let lower = texts.join(": ").to_lowercase();
        // The outer layers only say that sending failed.
        let text = short(&texts[texts.len().saturating_sub(2)..].join(": "));
        let sort = match &error {
            SdkError::ServiceError(_) => Sort::Answer,
            SdkError::TimeoutError(_) => Sort::Timeout,
            _ if lower.contains("tunnel error: proxy auth") => Sort::ProxyAuth,
            _ if lower.contains("certificate") => Sort::Certificate,
            _ if lower.contains("tunnel error") => Sort::Connection,
            _ if lower.contains("invalidcontenttype") => Sort::NoTls,
            SdkError::DispatchFailure(failure) if failure.is_timeout() => Sort::Timeout,
            SdkError::DispatchFailure(failure) if failure.is_user() => Sort::Other,
            SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => Sort::Connection,
            _ => Sort::Other,
        };
        let mut trouble = Trouble::new(sort, text);
        if let Some(response) = error.raw_response() {
            trouble.status = response.status().as_u16();
            let header = |name| response.headers().get(name).map(str::to_owned);
            trouble.region = header("x-amz-bucket-region");
            trouble.wait = header("retry-after")
                .and_then(|seconds| seconds.parse().ok())
                .map(Duration::from_secs);
        }
        if let SdkError::ServiceError(service) = &error {
            let meta = service.err().meta();
            trouble.code = meta.code().unwrap_or_default().to_owned();
            trouble.message = short(meta.message().unwrap_or_default());
            if trouble.region.is_none() {
                trouble.region = region_in(&trouble.message);
            }
        }
        trouble
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str, message: &str) -> Trouble {
        Trouble {
            status,
            code: code.to_owned(),
            message: message.to_owned(),
            ..Trouble::new(Sort::Answer, "")
        }
    }

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
            assert!(answer(status, code, "").may_pass(5), "{status} {code}");
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
            assert!(!answer(status, code, "").may_pass(1), "{status} {code}");
        }
        assert!(answer(403, "RequestTimeTooSkewed", "").may_pass(1));
        assert!(!answer(403, "RequestTimeTooSkewed", "").may_pass(2));
        assert!(answer(503, "", "").is_throttle() && !answer(500, "", "").is_throttle());
    }

    #[test]
    fn each_message_says_what_to_do() {
        let mut moved = answer(301, "PermanentRedirect", "");
        moved.region = Some("eu-west-1".to_owned());
        for (trouble, expected) in [
            (
                answer(403, "AccessDenied", "Access Denied"),
                "these credentials need s3:PutObject",
            ),
            (answer(403, "", ""), "these credentials need s3:PutObject"),
            (answer(404, "NoSuchBucket", ""), "check the name"),
            (moved, "add `--region eu-west-1`"),
            (
                answer(400, "ExpiredToken", "expired"),
                "fetch new credentials",
            ),
            (
                answer(403, "RequestTimeTooSkewed", ""),
                "the clock of this machine is wrong",
            ),
            (
                answer(403, "SignatureDoesNotMatch", ""),
                "check the secret key",
            ),
            (
                answer(403, "InvalidAccessKeyId", ""),
                "does not know this access key",
            ),
            (
                answer(403, "AccessDenied", "Forbidden: Invalid signature"),
                "check the secret key",
            ),
            (
                answer(403, "AccessDenied", "Forbidden: No such key: GK0"),
                "does not know this access key",
            ),
            (Trouble::new(Sort::Timeout, ""), "raise `--request-timeout`"),
            (
                Trouble::new(Sort::Connection, "connection refused"),
                "check the network",
            ),
            (
                Trouble::new(Sort::Certificate, "invalid peer certificate: UnknownIssuer"),
                "AWS_CA_BUNDLE",
            ),
            (Trouble::new(Sort::Credentials, "none"), "AWS_ACCESS_KEY_ID"),
        ] {
            let error = trouble
                .explain("s3:PutObject", "s3://b/k", None)
                .to_string();
            assert!(
                error.starts_with("s3://b/k: ") && error.contains(expected),
                "{error}"
            );
        }
        let outage = answer(503, "SlowDown", "Reduce your request rate").explain("a", "b", None);
        assert_eq!(outage.kind(), Kind::Transient);
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

    #[test]
    fn a_servers_message_is_shortened_to_one_line() {
        let text = short(&format!("a\nb{}", "x".repeat(500)));
        assert!(text.starts_with("a bxx") && text.ends_with('…'));
        assert!(text.chars().count() <= MESSAGE_CHARS + 1);
    }
}
