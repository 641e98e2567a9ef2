//! The client: which server it talks to, as whom, and how connections to it are made.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{
    Region, RequestChecksumCalculation, ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls;

use super::connection::S3Options;

/// Connections idle for longer are closed by S3's side; using one then is an error.
const IDLE: Duration = Duration::from_secs(8);
const CONNECT: Duration = Duration::from_secs(10);

/// The client, its endpoint if it is not AWS's, and whether nobody can touch what is sent to it.
pub(super) async fn client(options: &S3Options) -> (Client, Option<String>, bool) {
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(
            tls::rustls_provider::CryptoMode::AwsLc,
        ))
        .pool_idle_timeout(IDLE)
        .build_https();
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    if let Some(profile) = &options.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &options.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if options.no_sign_request {
        loader = loader.no_credentials();
    }
    let shared = loader.load().await;
    let environment = |name| std::env::var(name).ok().filter(|url| !url.is_empty());
    let endpoint = options
        .endpoint_url
        .clone()
        .or_else(|| environment("AWS_ENDPOINT_URL_S3"))
        .or_else(|| environment("AWS_ENDPOINT_URL"))
        .or_else(|| shared.endpoint_url().map(str::to_owned));
    let mut config = aws_sdk_s3::config::Builder::from(&shared)
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT).build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .force_path_style(options.path_style.unwrap_or(endpoint.is_some()));
    if shared.region().is_none() {
        // What every other client assumes too; a bucket elsewhere says where it is.
        config = config.region(Region::new("us-east-1"));
    }
    if let Some(endpoint) = &endpoint {
        config = config.endpoint_url(endpoint);
    }
    let untouchable = endpoint.as_deref().is_none_or(is_untouchable);
    let endpoint = endpoint.as_deref().map(without_secrets);
    (Client::from_conf(config.build()), endpoint, untouchable)
}

/// Whether what is sent to this server is under TLS, or never leaves this machine.
fn is_untouchable(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return true;
    };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["127.0.0.1", "[::1]", "localhost"].contains(&name)
}

/// A URL without user, password and query.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit('@').next().unwrap_or_default();
            let slash = if path.is_empty() { "" } else { "/" };
            format!("{scheme}://{host}{slash}{path}")
        }
        None => url.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_signed_where_somebody_could_change_them() {
        for url in [
            "https://s3.example.com",
            "http://127.0.0.1:9000",
            "http://[::1]:9/x",
            "http://localhost",
        ] {
            assert!(is_untouchable(url), "{url}");
        }
        for url in [
            "http://minio:9000",
            "http://127.0.0.1.example.com",
            "http://127.0.0.1@evil/",
        ] {
            assert!(!is_untouchable(url), "{url}");
        }
    }

    #[test]
    fn an_endpoint_is_told_without_what_might_be_secret() {
        for (url, shown) in [
            ("http://user:pass@host:9000/x?token=1", "http://host:9000/x"),
            ("https://s3.example.com", "https://s3.example.com"),
            ("host:9000", "host:9000"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }
}
