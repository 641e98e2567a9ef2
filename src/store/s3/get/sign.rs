//! Who asks: signature version 4 over a request without a body.

use std::sync::LazyLock;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign as signed,
};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::identity::Identity;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::store::s3::trouble::{Cause, RequestError};

/// Of no bytes.
const SHA256_OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// What S3 wants to be different from AWS's other services.
static SETTINGS: LazyLock<SigningSettings> = LazyLock::new(|| {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings
});

/// What a signature is good for besides the request and the day.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) region: String,
    pub(super) service: String,
}

/// Signs a GET of `url`, with all of its headers, at this time.
pub(super) fn sign(
    credentials: Credentials,
    scope: &Scope,
    url: &str,
    headers: &mut HeaderMap,
    now: SystemTime,
) -> Result<(), RequestError> {
    // Of a header or a setting: never of a secret.
    let failed = |error: &dyn std::fmt::Display| {
        RequestError::new(
            Cause::Other,
            format!("the request cannot be signed: {error}"),
        )
    };
    let identity = Identity::from(credentials);
    let params = SigningParams::builder()
        .identity(&identity)
        .region(&scope.region)
        .name(&scope.service)
        .time(now)
        .settings(SETTINGS.clone())
        .build()
        .map_err(|error| failed(&error))?
        .into();
    let said = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let body = SignableBody::Precomputed(SHA256_OF_NOTHING.to_owned());
    let request = SignableRequest::new("GET", url, said, body).map_err(|error| failed(&error))?;
    let output = signed(request, &params).map_err(|error| failed(&error))?;
    let (added, _) = output.into_parts().0.into_parts();
    for header in added {
        let mut value = HeaderValue::from_str(header.value()).map_err(|error| failed(&error))?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(header.name()), value);
    }
    Ok(())
}
