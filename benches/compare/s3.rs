//! S3: a server in a process of its own, and loops that do no more than the requests.

use std::future::Future;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation,
};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use shardpack_fixtures::s3_server::{ACCESS_KEY, BUCKET, Fault, Kind, Options, SECRET_KEY, Server};

use crate::bare::{self, Wanted};
use crate::measure::cpu_of;
use crate::plane::certificate;

/// Ranges that shardpack reads shards in, and how many at once.
const RANGE_BYTES: u64 = 8 << 20;
const RANGES: usize = 8;
/// Part size of shardpack for shards of this size.
const PART_BYTES: usize = 8 << 20;
/// Parts in flight that shardpack allows with this much memory.
pub(crate) const PARTS: usize = 32;

/// What a server is to do.
#[derive(Default)]
pub(crate) struct Serving {
    /// Milliseconds before every answer, and more of them before that to a part.
    pub(crate) latency_ms: u64,
    pub(crate) part_ms: u64,
    /// Pictures that it holds.
    pub(crate) pictures: usize,
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
    /// Whether it keeps what is uploaded in parts, which costs it more than all else.
    pub(crate) keeps: bool,
}

impl Serving {
    fn words(&self) -> [String; 5] {
        let [tls, keeps] = [self.tls, self.keeps].map(u64::from);
        let numbers = [
            self.latency_ms,
            self.part_ms,
            self.pictures as u64,
            tls,
            keeps,
        ];
        numbers.map(|number| number.to_string())
    }

    /// The same from a command line.
    pub(crate) fn read(words: &[&str]) -> io::Result<Self> {
        let numbers: Result<Vec<u64>, _> = words.iter().map(|word| word.parse()).collect();
        let numbers = numbers.map_err(io::Error::other)?;
        let [latency_ms, part_ms, pictures, tls, keeps] = numbers[..] else {
            return Err(io::Error::other("five numbers are expected"));
        };
        Ok(Self {
            latency_ms,
            part_ms,
            pictures: pictures as usize,
            tls: tls > 0,
            keeps: keeps > 0,
        })
    }
}

/// A server in another process, gone when dropped.
pub(crate) struct Elsewhere {
    child: Child,
    pub(crate) endpoint: String,
    /// Bytes of its pictures.
    pub(crate) bytes: u64,
    /// The file with its certificate.
    certificate: Option<PathBuf>,
}

impl Elsewhere {
    pub(crate) fn start(serving: &Serving) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("s3-serve")
            .args(serving.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().expect("stdout is piped");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let (endpoint, bytes) = line.trim().split_once(' ').unwrap_or_default();
        let port = endpoint.rsplit(':').next().unwrap_or_default();
        let port = port.parse().map_err(io::Error::other)?;
        Ok(Self {
            child,
            endpoint: endpoint.to_owned(),
            bytes: bytes.parse().map_err(io::Error::other)?,
            certificate: serving.tls.then(|| certificate(port)),
        })
    }

    /// Processor time of the server so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_of(self.child.id())
    }

    /// Points a program at it.
    pub(crate) fn aim(&self, command: &mut Command) {
        command
            .env("AWS_ENDPOINT_URL_S3", &self.endpoint)
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        if let Some(certificate) = &self.certificate {
            // The second is what programs written in Go look at.
            command.env("AWS_CA_BUNDLE", certificate);
            command.env("SSL_CERT_FILE", certificate);
        }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        if let Some(certificate) = &self.certificate {
            _ = std::fs::remove_file(certificate);
        }
    }
}

/// Serves until stdin ends.
pub(crate) fn serve(serving: &Serving) -> io::Result<()> {
    let options = Options {
        latency: Duration::from_millis(serving.latency_ms),
        keeps_uploads: serving.keeps,
        ..Options::default()
    };
    let server = Server::listen(options, 2, false);
    if serving.part_ms > 0 {
        let slow = Fault::new(Kind::Delay(Duration::from_millis(serving.part_ms)));
        server.fault(slow.on("UploadPart"));
    }
    let contents: Vec<Bytes> = (0..500).map(picture).collect();
    let mut bytes = 0;
    for i in 0..serving.pictures {
        let content = contents[i % contents.len()].clone();
        bytes += content.len();
        server.put(&key(i), content);
    }
    let tls = match serving.tls {
        true => Some(tls(&server.endpoint())?),
        false => None,
    };
    match &tls {
        Some((port, _runtime)) => println!("https://127.0.0.1:{port} {bytes}"),
        None => println!("{} {bytes}", server.endpoint()),
    }
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

fn key(i: usize) -> String {
    format!("images/n{:08}/{i:06}.JPEG", i % 100)
}

/// A port that speaks TLS and hands on what it carries, with its certificate in a file.
fn tls(endpoint: &str) -> io::Result<(u16, tokio::runtime::Runtime)> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
    let made = made.map_err(io::Error::other)?;
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let key = key.map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(io::Error::other)?;
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let port = listener.local_addr()?.port();
    std::fs::write(certificate(port), made.cert.pem())?;
    let behind = endpoint.trim_start_matches("http://").to_owned();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                _ = stream.set_nodelay(true);
                let mut inside = acceptor.accept(stream).await?;
                let mut behind = tokio::net::TcpStream::connect(behind).await?;
                _ = behind.set_nodelay(true);
                tokio::io::copy_bidirectional(&mut inside, &mut behind).await
            });
        }
    });
    Ok((port, runtime))
}

/// A JPEG of a size that ImageNet's have: log-normal, 110 KB on average.
fn picture(seed: usize) -> Bytes {
    let mut state = seed as u64 * 2 + 1;
    let mut random = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    };
    let normal = (0..12)
        .map(|_| random() as f64 / (1u64 << 53) as f64)
        .sum::<f64>()
        - 6.0;
    let size = (92_000.0 * (normal * 0.6).exp()) as usize;
    let mut plain = Vec::new();
    let image = image::RgbImage::from_pixel(32, 24, image::Rgb([seed as u8, 90, 90]));
    image::codecs::jpeg::JpegEncoder::new_with_quality(&mut plain, 80)
        .encode_image(&image)
        .expect("a picture can be encoded in memory");
    let mut picture = plain[..2].to_vec();
    while picture.len() < size {
        let part = (size - picture.len()).min(60_000);
        picture.extend_from_slice(&[0xFF, 0xFE]);
        picture.extend_from_slice(&(part as u16 + 2).to_be_bytes());
        picture.extend((0..part).map(|_| random() as u8));
    }
    picture.extend_from_slice(&plain[2..]);
    picture.into()
}

fn client(endpoint: &str) -> Client {
    let mut http =
        aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring));
    if let Ok(path) = std::env::var("AWS_CA_BUNDLE") {
        let pem = std::fs::read(path).unwrap_or_default();
        let trusted = TrustStore::empty().with_pem_certificate(pem);
        let context = TlsContext::builder().with_trust_store(trusted).build();
        http = http.tls_context(context.expect("the bench's own certificate can be used"));
    }
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(
            ACCESS_KEY, SECRET_KEY, None, None, "bench",
        ))
        .http_client(http.build_https())
        .endpoint_url(endpoint)
        .force_path_style(true)
        .retry_config(RetryConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .build();
    Client::from_conf(config)
}

fn wait(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// Gets so many pictures, so many at once, and does nothing with them.
pub(crate) fn get(endpoint: &str, pictures: usize, at_once: usize) -> io::Result<()> {
    wait(async {
        let client = client(endpoint);
        let places = Arc::new(Semaphore::new(at_once));
        let mut tasks = JoinSet::new();
        for i in 0..pictures {
            let key = key(i);
            let (client, places) = (client.clone(), Arc::clone(&places));
            tasks.spawn(async move {
                let _place = places.acquire_owned().await;
                let answer = client.get_object().bucket(BUCKET).key(key).send().await;
                let mut body = answer.map_err(io::Error::other)?.body;
                let mut all = Vec::with_capacity(256 << 10);
                while let Some(piece) = body.try_next().await.map_err(io::Error::other)? {
                    all.extend_from_slice(&piece);
                }
                Ok::<_, io::Error>(all.len())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(io::Error::other)??;
        }
        Ok(())
    })
}

/// Gets so many pictures with signed requests alone.
pub(crate) fn bare(endpoint: &str, pictures: usize, at_once: usize) -> io::Result<()> {
    let wanted = (0..pictures).map(|i| Wanted {
        key: key(i),
        range: None,
    });
    wait(bare::get(endpoint, wanted.collect(), at_once, false))
}

/// Gets and checksums all objects below a prefix in ranges, as many at once as shardpack does.
pub(crate) fn ranges(endpoint: &str, prefix: &str) -> io::Result<()> {
    wait(async {
        let list = client(endpoint)
            .list_objects_v2()
            .bucket(BUCKET)
            .prefix(prefix);
        let list = list.send().await.map_err(io::Error::other)?;
        let mut wanted = Vec::new();
        for object in list.contents() {
            let bytes = object.size().unwrap_or(0) as u64;
            let key = object.key().unwrap_or_default();
            for first in (0..bytes).step_by(RANGE_BYTES as usize) {
                let last = (first + RANGE_BYTES).min(bytes) - 1;
                wanted.push(Wanted {
                    key: key.to_owned(),
                    range: Some((first, last)),
                });
            }
        }
        bare::get(endpoint, wanted, RANGES, true).await
    })
}

/// Uploads so many objects of so many bytes in parts, the same part again and again.
pub(crate) fn put(endpoint: &str, objects: usize, bytes: u64) -> io::Result<()> {
    wait(async {
        let client = client(endpoint);
        let places = Arc::new(Semaphore::new(PARTS));
        let part: Bytes = (0..PART_BYTES).map(|i| (i % 251) as u8).collect();
        let mut uploads = JoinSet::new();
        for object in 0..objects {
            let (client, places, part) = (client.clone(), Arc::clone(&places), part.clone());
            uploads.spawn(upload(client, places, part, format!("out/{object}"), bytes));
        }
        while let Some(done) = uploads.join_next().await {
            done.map_err(io::Error::other)??;
        }
        Ok(())
    })
}

async fn upload(
    client: Client,
    places: Arc<Semaphore>,
    part: Bytes,
    key: String,
    bytes: u64,
) -> io::Result<()> {
    let request = client.create_multipart_upload().bucket(BUCKET).key(&key);
    let begun = request.send().await.map_err(io::Error::other)?;
    let id = begun.upload_id().unwrap_or_default().to_owned();
    let mut parts = JoinSet::new();
    for number in 1..=bytes.div_ceil(PART_BYTES as u64) {
        let left = bytes - (number - 1) * PART_BYTES as u64;
        let body = part.slice(..left.min(PART_BYTES as u64) as usize);
        let place = Arc::clone(&places).acquire_owned().await;
        let (client, key, id) = (client.clone(), key.clone(), id.clone());
        parts.spawn(async move {
            let _place = place;
            let request = client.upload_part().bucket(BUCKET).key(key).upload_id(id);
            let request = request
                .part_number(number as i32)
                .body(ByteStream::from(body));
            let request = request.customize().disable_payload_signing();
            let done = request.send().await.map_err(io::Error::other)?;
            let tag = done.e_tag().map(str::to_owned);
            let part = CompletedPart::builder().part_number(number as i32);
            Ok::<_, io::Error>(part.set_e_tag(tag).build())
        });
    }
    let mut done = Vec::new();
    while let Some(part) = parts.join_next().await {
        done.push(part.map_err(io::Error::other)??);
    }
    done.sort_by_key(CompletedPart::part_number);
    let parts = CompletedMultipartUpload::builder()
        .set_parts(Some(done))
        .build();
    let request = client.complete_multipart_upload().bucket(BUCKET).key(&key);
    let request = request.upload_id(id).multipart_upload(parts);
    request.send().await.map_err(io::Error::other)?;
    Ok(())
}
