//! What no client of S3 can beat by much: signed requests on connections that are used again, and nothing else.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use aws_sdk_s3::config::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use shardpack_fixtures::s3_server::{ACCESS_KEY, BUCKET, SECRET_KEY};

/// What to get: a key, and the range of it if it is not all.
pub(crate) struct Wanted {
    pub(crate) key: String,
    pub(crate) range: Option<(u64, u64)>,
}

/// Gets all of these, so many at once, each worker on a connection of its own, and checksums them if asked to.
pub(crate) async fn get(
    endpoint: &str,
    wanted: Vec<Wanted>,
    at_once: usize,
    checksum: bool,
) -> io::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let wanted = Arc::new(wanted);
    let authority = endpoint.split_once("://").map_or("", |parts| parts.1);
    let config = match endpoint.starts_with("https://") {
        true => Some(tls(std::env::var("AWS_CA_BUNDLE"))?),
        false => None,
    };
    let mut workers = JoinSet::new();
    for _ in 0..at_once {
        let (next, wanted, config) = (Arc::clone(&next), Arc::clone(&wanted), config.clone());
        let authority = authority.to_owned();
        workers.spawn(async move {
            let mut sender = connect(&authority, config).await?;
            let mut all = Vec::new();
            while let Some(wanted) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let request = request(&authority, sender.scheme(), wanted)?;
                let answer = sender
                    .0
                    .send_request(request)
                    .await
                    .map_err(io::Error::other)?;
                if !answer.status().is_success() {
                    return Err(io::Error::other(answer.status().to_string()));
                }
                let mut body = answer.into_body();
                let mut hasher = crc32fast::Hasher::new();
                all.clear();
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(io::Error::other)?;
                    let Ok(data) = frame.into_data() else { break };
                    if checksum {
                        hasher.update(&data);
                    }
                    all.extend_from_slice(&data);
                }
                std::hint::black_box((hasher.finalize(), &all));
            }
            Ok(())
        });
    }
    while let Some(done) = workers.join_next().await {
        done.map_err(io::Error::other)??;
    }
    Ok(())
}

/// A connection, and whether it is under TLS.
struct Sender(SendRequest<Empty<Bytes>>, bool);

impl Sender {
    fn scheme(&self) -> &'static str {
        if self.1 { "https" } else { "http" }
    }
}

async fn connect(authority: &str, config: Option<Arc<rustls::ClientConfig>>) -> io::Result<Sender> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    let Some(config) = config else {
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection);
        return Ok(Sender(sender, false));
    };
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |parts| parts.0);
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = tokio_rustls::TlsConnector::from(config)
        .connect(name, stream)
        .await?;
    let (sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(Sender(sender, true))
}

fn tls(authority: Result<String, std::env::VarError>) -> io::Result<Arc<rustls::ClientConfig>> {
    let path = authority.map_err(io::Error::other)?;
    let certificate = CertificateDer::from_pem_file(Path::new(&path)).map_err(io::Error::other)?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(Arc::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    ))
}

/// A signed request.
fn request(authority: &str, scheme: &str, wanted: &Wanted) -> io::Result<Request<Empty<Bytes>>> {
    let path = format!("/{BUCKET}/{}", wanted.key);
    let mut request = Request::get(&path).header("host", authority);
    if let Some((first, last)) = wanted.range {
        request = request.header("range", format!("bytes={first}-{last}"));
    }
    let mut request = request.body(Empty::new()).map_err(io::Error::other)?;
    let identity = Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "bench").into();
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    let params = SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("s3")
        .time(SystemTime::now())
        .settings(settings)
        .build()
        .map_err(io::Error::other)?
        .into();
    let headers = request.headers().iter();
    let headers = headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let url = format!("{scheme}://{authority}{path}");
    let signable = SignableRequest::new("GET", url, headers, SignableBody::UnsignedPayload);
    let signed = sign(signable.map_err(io::Error::other)?, &params).map_err(io::Error::other)?;
    signed.into_parts().0.apply_to_request_http1x(&mut request);
    Ok(request)
}
