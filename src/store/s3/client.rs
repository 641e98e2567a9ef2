//! The client: which server it talks to, as whom, and how connections to it are made.

use std::sync::Arc;
use std::time::Duration;

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{
    Builder, IdentityCache, Region, RequestChecksumCalculation, ResponseChecksumValidation,
    SharedHttpClient, StalledStreamProtectionConfig,
};
use aws_types::service_config::ServiceConfigKey;

use crate::base::error::{Error, Result};
use crate::store::S3Options;
use crate::store::s3::credentials::{CredentialsCache, Profiles};
use crate::store::s3::get::{Dialer, Getter, Rules};
use crate::store::s3::message::without_secrets;
use crate::store::s3::proxy::Proxy;
use crate::store::s3::tls::{Trust, http_client};
use crate::store::s3::watch::{Clock, Watched};

const CONNECT: Duration = Duration::from_secs(10);
/// What every other client assumes too; a bucket elsewhere says where it is.
const REGION: &str = "us-east-1";

/// A client and what is known of its server.
pub(super) struct Server {
    pub(super) client: Client,
    /// What objects are read with.
    pub(super) getter: Getter,
    /// Whose requests are signed; none when they are not.
    pub(super) keeper: Option<CredentialsCache>,
    /// Its URL without secrets, if it is not AWS's.
    pub(super) endpoint: Option<String>,
    /// The proxy on the way to it, for messages.
    pub(super) proxy: Option<String>,
    /// Nobody in between can touch what is sent to it.
    pub(super) untouchable: bool,
    /// Its clock.
    pub(super) clock: Arc<Clock>,
}

impl Server {
    /// Reads what the environment and the configuration files say; nothing is asked of the server yet.
    pub(super) async fn open(options: &S3Options) -> Result<Self> {
        let profiles = Profiles::load(options.profile.as_deref()).await?;
        let trust = Trust::load(profiles.get("ca_bundle"))?;
        let to_credentials = Proxy::to_credentials();
        let http = http_client(to_credentials.as_ref(), &trust);
        let shared = shared(options, http.clone()).await;
        let endpoint = endpoint(options, &shared);
        if let Some(endpoint) = &endpoint {
            check(endpoint)?;
        }
        let region = shared.region().map_or(REGION, Region::as_ref).to_owned();
        let aws = format!("https://s3.{region}.amazonaws.com");
        let proxy = Proxy::to_server(endpoint.as_deref().unwrap_or(&aws))?;
        let mut config = config(options, &shared, endpoint.is_some());
        config.set_endpoint_url(endpoint.clone());
        // One pool of connections where both are made alike.
        let http = match proxy.is_some() || to_credentials.is_some() {
            true => http_client(proxy.as_ref(), &trust),
            false => http,
        };
        let clock = Arc::default();
        config = config.http_client(Watched::over(http, &clock));
        let keeper = keeper(options, &shared);
        if let Some(keeper) = &keeper {
            // The keeper keeps them; a cache in front of it would not know when it has better ones.
            config = config
                .credentials_provider(keeper.clone())
                .identity_cache(IdentityCache::no_cache());
        }
        let rules = Rules {
            region,
            endpoint: endpoint.clone(),
            path_style: options.path_style.unwrap_or(endpoint.is_some()),
            fips: shared.use_fips().unwrap_or(false),
            dual_stack: shared.use_dual_stack().unwrap_or(false),
        };
        let (matcher, proxy) = proxy.map(|proxy| (proxy.matcher, proxy.shown)).unzip();
        let dialer = Dialer::new(trust, matcher);
        let pays = options.request_payer;
        Ok(Self {
            getter: Getter::new(rules, dialer, keeper.clone(), &clock, pays),
            client: Client::from_conf(config.build()),
            keeper,
            untouchable: match (&endpoint, &proxy) {
                // Without TLS, the proxy sees what is sent.
                (Some(url), Some(_)) => url.starts_with("https://"),
                (Some(url), None) => is_untouchable(url),
                (None, _) => true,
            },
            proxy,
            endpoint: endpoint.as_deref().map(without_secrets),
            clock,
        })
    }
}

/// What every client library of AWS takes from the environment and the configuration files.
async fn shared(options: &S3Options, http: SharedHttpClient) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    if let Some(profile) = &options.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &options.region {
        loader = loader.region(Region::new(region.clone()));
    }
    // Those of a profile that was asked for by name are taken from it alone: see `keeper`.
    if options.no_sign_request || options.profile.is_some() {
        loader = loader.no_credentials();
    }
    loader.load().await
}

/// The same for S3; `named` if the server is not AWS's own. What the library would do by itself about failed and slow requests and about
/// checksums is off: it is done here.
fn config(options: &S3Options, shared: &SdkConfig, named: bool) -> Builder {
    let mut config = Builder::from(shared)
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT).build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .force_path_style(options.path_style.unwrap_or(named));
    if shared.region().is_none() {
        config = config.region(Region::from_static(REGION));
    }
    config
}

/// The server's URL, unless it is AWS's own: the flag before the environment, and that before the profile.
fn endpoint(options: &S3Options, shared: &SdkConfig) -> Option<String> {
    let configured = || {
        let key = ServiceConfigKey::builder()
            .service_id("S3")
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build()
            .ok()?;
        shared
            .service_config()?
            .load_config(key)
            .or_else(|| shared.endpoint_url().map(str::to_owned))
            .filter(|url| !url.is_empty())
    };
    options.endpoint_url.clone().or_else(configured)
}

/// A URL that cannot be meant is refused with the flag that was: requests to it would fail as if the server were away.
fn check(url: &str) -> Result<()> {
    let shown = without_secrets(url);
    let remedy = match url.split_once("://") {
        Some(("http" | "https", rest)) if !rest.starts_with(['/', '?']) && !rest.is_empty() => {
            if url.parse::<http::Uri>().is_ok() {
                return Ok(());
            }
            "is no URL: give `--endpoint-url https://HOST:PORT`".to_owned()
        }
        Some(("http" | "https", _)) => {
            "names no host: give `--endpoint-url https://HOST:PORT`".to_owned()
        }
        Some(_) => "must begin with http:// or https://".to_owned(),
        None => format!(
            "has no scheme: give `--endpoint-url https://{shown}`, or http:// for a server without TLS"
        ),
    };
    Err(Error::usage(format!("the server's URL `{shown}` {remedy}")))
}

/// Who signs. A profile that was asked for by name is the only one asked: keys in the environment, or the machine's role, may
/// be of another account.
fn keeper(options: &S3Options, shared: &SdkConfig) -> Option<CredentialsCache> {
    if options.no_sign_request {
        return None;
    }
    let Some(profile) = &options.profile else {
        let none = "none in the environment, in a profile, or from the machine's role";
        let source = shared.credentials_provider()?;
        return Some(CredentialsCache::new(source, none));
    };
    let region = shared.region().cloned();
    let mut settings = ProviderConfig::without_region()
        .with_behavior_version(Some(BehaviorVersion::latest()))
        .with_region(region.or_else(|| Some(Region::from_static(REGION))))
        .with_use_fips(shared.use_fips())
        .with_use_dual_stack(shared.use_dual_stack());
    if let Some(http) = shared.http_client() {
        settings = settings.with_http_client(http);
    }
    if let Some(retry) = shared.retry_config() {
        settings = settings.with_retry_config(retry.clone());
    }
    let provider = ProfileFileCredentialsProvider::builder()
        .configure(&settings)
        .profile_name(profile)
        .build();
    Some(CredentialsCache::new(
        provider,
        format!("profile `{profile}` has none"),
    ))
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
}
