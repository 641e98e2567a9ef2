//! Small servers of the tests' own, on loopback and free ports, gone when dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Accepts connections and hands each to a thread of its own.
pub(crate) struct Listener {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Listener {
    pub(crate) fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let (serve, ends) = (Arc::new(serve), Arc::clone(&over));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || stream.map(|stream| serve(stream)));
            }
        });
        Self { address, over }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // It looks at that only when somebody comes.
        drop(TcpStream::connect(self.address));
    }
}

/// The lines of a request up to the empty one; none when the other side closed. Names of headers in lower case.
pub(crate) fn head(stream: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" if lines.is_empty() => {}
            "" => return Some(lines),
            line => lines.push(match line.split_once(':') {
                Some((name, value)) if !lines.is_empty() => {
                    format!("{}:{value}", name.to_lowercase())
                }
                _ => line.to_owned(),
            }),
        }
    }
}

/// The value of a header of such lines.
pub(crate) fn header<'a>(head: &'a [String], name: &str) -> Option<&'a str> {
    let named = |line: &'a String| line.strip_prefix(name)?.strip_prefix(':');
    head.iter().skip(1).find_map(named).map(str::trim)
}

/// A server that answers each request as told and remembers them.
pub(crate) struct Http {
    listener: Listener,
    requests: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Http {
    /// `answer` gets the request line and how many came before, and gives status and body.
    pub(crate) fn start(
        answer: impl Fn(&str, usize) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log: Arc<Mutex<Vec<Vec<String>>>> = Arc::clone(&requests);
        let listener = Listener::start(move |stream| {
            let mut reader = BufReader::new(&stream);
            let Some(head) = head(&mut reader) else {
                return;
            };
            let length = header(&head, "content-length").map_or(0, |n| n.parse().unwrap());
            let _ = reader.read_exact(&mut vec![0; length]);
            let line = head[0].clone();
            let before = {
                let mut log = log.lock().unwrap();
                log.push(head);
                log.len() - 1
            };
            let (status, body) = answer(&line, before);
            let _ = write!(
                &stream,
                "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\
                 x-aws-ec2-metadata-token-ttl-seconds: 600\r\n\r\n{body}",
                body.len()
            );
        });
        Self { listener, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.listener.port())
    }

    /// The heads of the requests that came.
    pub(crate) fn requests(&self) -> Vec<Vec<String>> {
        self.requests.lock().unwrap().clone()
    }
}

/// An authority of the tests' own and what it signs.
pub(crate) struct Authority {
    key: rcgen::KeyPair,
    params: rcgen::CertificateParams,
    /// Its certificate, as a file has it.
    pub(crate) pem: String,
}

/// A certificate and its key.
#[derive(Clone)]
pub(crate) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { key, params, pem }
    }

    /// A server's certificate for a name or an address.
    pub(crate) fn signs(&self, name: &str) -> Identity {
        self.signs_with(name, |_| ())
    }

    /// The same, changed before it is signed.
    pub(crate) fn signs_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut rcgen::CertificateParams),
    ) -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let issuer = rcgen::Issuer::from_params(&self.params, &self.key);
        let signed = params.signed_by(&key, &issuer).unwrap();
        Identity {
            chain: vec![signed.der().clone()],
            key: key.serialize_der(),
        }
    }

    /// Its own certificate used as a server's, as the usual line of openssl makes it.
    pub(crate) fn itself(name: &str) -> (Identity, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let signed = params.self_signed(&key).unwrap();
        let identity = Identity {
            chain: vec![signed.der().clone()],
            key: key.serialize_der(),
        };
        (identity, signed.pem())
    }
}

/// A port that speaks TLS and hands on what it carries to another port.
pub(crate) struct Tls {
    pub(crate) port: u16,
    /// Its end is the port's.
    _runtime: tokio::runtime::Runtime,
}

impl Tls {
    pub(crate) fn start(identity: &Identity, to: u16) -> Self {
        let key = PrivateKeyDer::try_from(identity.key.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(identity.chain.clone(), key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut inside = acceptor.accept(stream).await?;
                    let mut behind = tokio::net::TcpStream::connect(("127.0.0.1", to)).await?;
                    tokio::io::copy_bidirectional(&mut inside, &mut behind).await
                });
            }
        });
        Self {
            port,
            _runtime: runtime,
        }
    }
}

/// A proxy: knows where each server really is, and remembers what it was asked for.
pub(crate) struct Proxy {
    listener: Listener,
    log: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Proxy {
    /// `places` has the port of each `HOST:PORT`; others are refused. With `password`, only whoever has that header is served.
    pub(crate) fn start(places: &[(String, u16)], password: Option<&'static str>) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (places, heads) = (places.to_vec(), Arc::clone(&log));
        let listener = Listener::start(move |stream| {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let Some(head) = head(&mut reader) else {
                return;
            };
            heads.lock().unwrap().push(head.clone());
            let allowed = password.is_none_or(|p| header(&head, "proxy-authorization") == Some(p));
            let mut words = head[0].split(' ');
            let (method, target) = (words.next().unwrap(), words.next().unwrap());
            let target = target.trim_start_matches("http://");
            let target = target.split('/').next().unwrap();
            let place = places.iter().find(|(name, _)| name == target);
            let behind = match (allowed, place) {
                (true, Some((_, port))) => TcpStream::connect(("127.0.0.1", *port)).unwrap(),
                (allowed, _) => {
                    let status = if allowed { 502 } else { 407 };
                    let _ = write!(&stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                    return;
                }
            };
            if method == "CONNECT" {
                write!(&stream, "HTTP/1.1 200 x\r\n\r\n").unwrap();
            } else {
                write!(&behind, "{}\r\n\r\n", head.join("\r\n")).unwrap();
            }
            let mut back = behind.try_clone().unwrap();
            let answers = std::thread::spawn(move || {
                let _ = std::io::copy(&mut back, &mut &stream);
                let _ = stream.shutdown(std::net::Shutdown::Both);
            });
            let _ = std::io::copy(&mut reader, &mut &behind);
            let _ = behind.shutdown(std::net::Shutdown::Both);
            let _ = answers.join();
        });
        Self { listener, log }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.listener.port())
    }

    /// The first lines of what it was asked for: one a connection.
    pub(crate) fn asked(&self) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().map(|head| head[0].clone()).collect()
    }
}
