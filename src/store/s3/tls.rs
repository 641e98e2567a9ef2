//! How connections are made: through which proxy, and whom they trust.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::config::SharedHttpClient;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::load_native_certs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::base::error::{Error, Result, reason};
use crate::store::s3::credentials::environment;
use crate::store::s3::proxy::Proxy;

/// Connections idle for longer are closed by S3's side; using one then is an error.
const IDLE: Duration = Duration::from_secs(8);
/// Longest time that the question whether a port speaks TLS may take.
const ASK: Duration = Duration::from_secs(3);
/// The marks around a certificate in a file.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Whom to trust.
#[derive(Clone)]
pub(super) struct Trust {
    /// For the client library.
    context: TlsContext,
    /// Authorities; the system's, where nobody named others.
    named: Option<Vec<CertificateDer<'static>>>,
}

/// What makes connections for the client library.
pub(super) fn http_client(proxy: Option<&Proxy>, trust: &Trust) -> SharedHttpClient {
    let proxy = proxy.map(|proxy| proxy.config.clone());
    let trust = trust.context.clone();
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(trust.clone())
            .pool_idle_timeout(IDLE);
        connector.set_proxy_config(proxy.clone());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(|known| known.sleep_impl()));
        connector.build()
    })
}

impl Trust {
    /// The authorities to trust: the system's, unless AWS_CA_BUNDLE or the profile names a file with others.
    pub(super) fn load(profile: Option<&str>) -> Result<Self> {
        let (what, path) = match (environment("AWS_CA_BUNDLE"), profile) {
            (Some(path), _) => ("AWS_CA_BUNDLE", path),
            (None, Some(path)) => ("ca_bundle", path.to_owned()),
            (None, None) => return Self::new(TrustStore::default(), None),
        };
        let refused = |why: &str| {
            let what = format!("{what} {path}: {why}: name a file of certificates in PEM form");
            Error::usage(what)
        };
        let text = std::fs::read_to_string(&path).map_err(|error| refused(&reason(&error)))?;
        let (pems, named): (Vec<_>, Vec<_>) = authorities(&text).into_iter().unzip();
        if named.is_empty() {
            return Err(refused("there is no certificate in it that can be used"));
        }
        let trusted = TrustStore::empty();
        let store = pems
            .into_iter()
            .fold(trusted, TrustStore::with_pem_certificate);
        Self::new(store, Some(named))
    }

    fn new(store: TrustStore, named: Option<Vec<CertificateDer<'static>>>) -> Result<Self> {
        let context = TlsContext::builder().with_trust_store(store).build();
        let context = context.map_err(|error| Error::failed(format!("certificates: {error}")))?;
        Ok(Self { context, named })
    }

    /// How requests that are made here speak TLS.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(match &self.named {
            Some(named) => named.clone(),
            None => load_native_certs().certs,
        });
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::failed(format!("TLS: {error}")))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    #[cfg(test)]
    pub(super) fn of_system() -> Self {
        Self::new(TrustStore::default(), None).unwrap()
    }
}

/// The certificates of a file, as they are written and as they are; those that cannot be used are left out, since the library takes none of
/// them for an error.
fn authorities(text: &str) -> Vec<(String, CertificateDer<'static>)> {
    let parts = text.split(BEGIN).skip(1);
    let usable = |part: &str| {
        let (body, _) = part.split_once(END)?;
        let pem = format!("{BEGIN}{body}{END}\n");
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        RootCertStore::empty().add(certificate.clone()).ok()?;
        Some((pem, certificate))
    };
    parts.filter_map(usable).collect()
}

/// Whether a port answers the first words of TLS in kind, be it with an alert.
pub(super) async fn speaks_tls(host: &str, port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect((host, port)).await.ok()?;
        stream.write_all(&hello()).await.ok()?;
        let mut kind = [0];
        stream.read_exact(&mut kind).await.ok()?;
        // An alert or a handshake; text begins with a letter.
        Some(matches!(kind[0], 0x15 | 0x16))
    };
    let answer = tokio::time::timeout(ASK, ask).await;
    answer.ok().flatten().unwrap_or(false)
}

/// The shortest ClientHello of TLS 1.2: a version, no secret worth the name, one cipher, no compression.
fn hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xc0, 0x2f, 1, 0]);
    let length = body.len() as u8;
    let mut hello = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    hello.extend(body);
    hello
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_that_can_be_used_is_none() {
        for text in [
            "",
            "no certificate",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\n",
        ] {
            assert!(authorities(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn lengths_in_the_first_words_of_tls_are_right() {
        let hello = hello();
        assert_eq!(usize::from(hello[4]), hello.len() - 5);
        assert_eq!(usize::from(hello[8]), hello.len() - 9);
    }
}
