//! What went wrong with a request, said to a person: what it was about, what happened, and what to do.

use crate::base::error::{Error, Kind};
use crate::store::s3::trouble::{Cause, RequestError};

/// The status by which a proxy asks who is there.
const PROXY_AUTH: u16 = 407;

impl RequestError {
    /// The error for people. `action` is the permission the request needs, `object` what it was about.
    pub(super) fn explain(&self, action: &str, object: &str, endpoint: Option<&str>) -> Error {
        let server = endpoint.unwrap_or("S3");
        let (kind, what) = match (self.cause, self.status) {
            (Cause::Answer, status) if status != PROXY_AUTH => self.explain_answer(action, server),
            _ => self.explain_failure(action, server),
        };
        let error = Error::new(kind, format!("{object}: {what}"));
        match self.is_missing_bucket() {
            true => error.of_absent_place(),
            false => error,
        }
    }

    /// What kept the request from getting the server's answer, the proxy's included.
    fn explain_failure(&self, action: &str, server: &str) -> (Kind, String) {
        match self.cause {
            Cause::Credentials => (
                Kind::Failed,
                format!(
                    "no usable credentials ({}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile with `--profile`, \
                     or add `--no-sign-request` for a public bucket",
                    self.message
                ),
            ),
            Cause::CredentialsAway => (
                Kind::Transient,
                format!(
                    "credentials cannot be fetched at the moment ({}): run again",
                    self.message
                ),
            ),
            Cause::Certificate => (Kind::Failed, certificate(server, &self.message)),
            Cause::Scheme | Cause::NoTls => (Kind::Usage, format!("{server} {}", self.message)),
            Cause::ProxyAuth | Cause::Answer => (
                Kind::Failed,
                format!(
                    "{server} asks for a user and a password, or others: give http://USER:PASSWORD@HOST:PORT in that variable"
                ),
            ),
            Cause::Connection => (
                Kind::Transient,
                format!(
                    "{server} cannot be reached ({}): check the network and `--endpoint-url`, then run again",
                    self.message
                ),
            ),
            Cause::Timeout => (
                Kind::Transient,
                format!("{server} did not answer in time: run again, or raise `--request-timeout`"),
            ),
            Cause::Corrupt => (
                Kind::Transient,
                format!(
                    "what arrives differs from what is stored ({}): run again; if it stays so, the object is damaged",
                    self.message
                ),
            ),
            Cause::Other => (Kind::Failed, format!("{action}: {}", self.message)),
        }
    }

    /// What the server said no with.
    fn explain_answer(&self, action: &str, server: &str) -> (Kind, String) {
        let answer = self.answer();
        // Garage has one code for all of these; its message tells them apart.
        let code = match self.code.as_str() {
            "AccessDenied" if self.message.contains("Invalid signature") => "SignatureDoesNotMatch",
            "AccessDenied" if self.message.contains("No such key") => "InvalidAccessKeyId",
            code => code,
        };
        match (code, self.status) {
            ("AccessDenied" | "AllAccessDisabled" | "UnauthorizedAccess", _) => (
                Kind::Failed,
                format!("access denied: these credentials need {action} for it{answer}"),
            ),
            ("InvalidAccessKeyId" | "InvalidClientTokenId", _) => (
                Kind::Failed,
                format!("{server} does not know this access key: check the credentials, or `--profile` and `--endpoint-url`"),
            ),
            ("SignatureDoesNotMatch", _) => (
                Kind::Failed,
                format!("{server} refuses the signature: check the secret key, and `--region`"),
            ),
            ("ExpiredToken" | "ExpiredTokenException" | "InvalidToken" | "TokenRefreshRequired", _) => (
                Kind::Failed,
                format!("the session token has expired or is not valid{answer}: fetch new credentials and run again"),
            ),
            ("RequestTimeTooSkewed" | "RequestExpired", _) => (
                Kind::Failed,
                "the clock of this machine is wrong: set it (for example with `timedatectl set-ntp true`) and run again".to_owned(),
            ),
            ("NoSuchBucket", _) => (
                Kind::Failed,
                format!("there is no such bucket at {server}: check the name, or create it"),
            ),
            (
                "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" | "TemporaryRedirect",
                _,
            )
            | (_, 301 | 307) => (
                Kind::Failed,
                match &self.region {
                    Some(region) => format!("the bucket is in region {region}: add `--region {region}`"),
                    None => format!("the bucket is in another region{answer}: name it with `--region`"),
                },
            ),
            ("InvalidObjectState", _) => (
                Kind::Failed,
                "is archived: restore it first, or leave it out".to_owned(),
            ),
            (code, _) if code.starts_with("KMS") || code.contains("Kms") => (
                Kind::Failed,
                format!("the encryption key cannot be used{answer}: check `--sse-kms-key-id` and the key's policy"),
            ),
            ("", 403) => (
                Kind::Failed,
                format!("access denied: these credentials need {action} for it"),
            ),
            _ if self.may_pass(u32::MAX) => (
                Kind::Transient,
                format!("{server} is in trouble{answer}: run again"),
            ),
            _ => (Kind::Failed, format!("{action} was refused{answer}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_says_what_to_do() {
        let mut moved = RequestError::answered(301, "PermanentRedirect", "");
        moved.region = Some("eu-west-1".to_owned());
        for (trouble, expected) in [
            (
                RequestError::answered(403, "AccessDenied", "Access Denied"),
                "these credentials need s3:PutObject",
            ),
            (
                RequestError::answered(403, "", ""),
                "these credentials need s3:PutObject",
            ),
            (
                RequestError::answered(404, "NoSuchBucket", ""),
                "check the name",
            ),
            (moved, "add `--region eu-west-1`"),
            (
                RequestError::answered(400, "ExpiredToken", "expired"),
                "fetch new credentials",
            ),
            (
                RequestError::answered(403, "RequestTimeTooSkewed", ""),
                "the clock of this machine is wrong",
            ),
            (
                RequestError::answered(403, "SignatureDoesNotMatch", ""),
                "check the secret key",
            ),
            (
                RequestError::answered(403, "InvalidAccessKeyId", ""),
                "does not know this access key",
            ),
            (
                RequestError::answered(403, "AccessDenied", "Forbidden: Invalid signature"),
                "check the secret key",
            ),
            (
                RequestError::answered(403, "AccessDenied", "Forbidden: No such key: GK0"),
                "does not know this access key",
            ),
            (
                RequestError::new(Cause::Timeout, ""),
                "raise `--request-timeout`",
            ),
            (
                RequestError::new(Cause::Connection, "connection refused"),
                "check the network",
            ),
            (
                RequestError::new(
                    Cause::Certificate,
                    "invalid peer certificate: UnknownIssuer",
                ),
                "AWS_CA_BUNDLE",
            ),
            (
                RequestError::new(Cause::Credentials, "none"),
                "AWS_ACCESS_KEY_ID",
            ),
        ] {
            let error = trouble
                .explain("s3:PutObject", "s3://b/k", None)
                .to_string();
            assert!(
                error.starts_with("s3://b/k: ") && error.contains(expected),
                "{error}"
            );
        }
        let outage = RequestError::answered(503, "SlowDown", "Reduce your request rate")
            .explain("a", "b", None);
        assert_eq!(outage.kind(), Kind::Transient);
    }
}
