//! Which server is talked to, through which proxy, by whose certificate, and how long it is waited for.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::s3::{at, upload};
use crate::servers::{Authority, Http, Identity, Listener, Proxy, Tls};
use crate::support::{Dataset, run};
use shardpack_fixtures::s3_server::{ACCESS_KEY, Fault, Kind, SECRET_KEY, Server};

/// A bucket, and an authority with a file for its certificate.
struct World {
    server: Server,
    data: Dataset,
    authority: Authority,
}

/// A name that only a proxy of ours knows.
const HIDDEN: &str = "s3.internal.invalid";

impl World {
    fn new() -> Self {
        let data = Dataset::new().class("cat", 3);
        let server = Server::start();
        upload(&server, &data.source(), "images");
        Self {
            server,
            data,
            authority: Authority::new(),
        }
    }

    /// A conversion from a server to a new directory.
    fn command(&self, endpoint: &str, flags: &[&str]) -> Command {
        let mut command = at(&self.server, &["convert", "s3://bucket/images"]);
        command.arg(self.data.fresh()).args(flags);
        command.env("AWS_ENDPOINT_URL_S3", endpoint);
        command
    }

    /// The server behind TLS.
    fn tls(&self, identity: &Identity) -> Tls {
        let port = self.server.endpoint().rsplit(':').next().unwrap().parse();
        Tls::start(identity, port.unwrap())
    }

    fn port(&self) -> u16 {
        self.server
            .endpoint()
            .rsplit(':')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.data.place(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn bundle(&self) -> PathBuf {
        self.file("authority.pem", &self.authority.pem)
    }
}

#[test]
fn a_server_that_only_a_proxy_can_reach_is_reached_through_it() {
    let world = World::new();
    let tls = world.tls(&world.authority.signs(HIDDEN));
    let proxy = Proxy::start(&[(format!("{HIDDEN}:443"), tls.port)], None);
    let hidden = format!("https://{HIDDEN}");
    for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        let before = proxy.asked().len();
        let mut command = world.command(&hidden, &[]);
        command.env("AWS_CA_BUNDLE", world.bundle());
        run(command.env(variable, proxy.url())).exits(0);
        let asked = &proxy.asked()[before..];
        let connect = format!("CONNECT {HIDDEN}:443 HTTP/1.1");
        assert!(
            !asked.is_empty() && asked.iter().all(|line| *line == connect),
            "{asked:?}"
        );
    }
    let before = proxy.asked().len();
    for (variable, value) in [
        ("NO_PROXY", "internal.invalid"),
        ("no_proxy", ".invalid"),
        ("NO_PROXY", "*"),
    ] {
        let mut command = world.command(&hidden, &[]);
        command.env("HTTPS_PROXY", proxy.url()).env(variable, value);
        run(&mut command).exits(75).says(&["cannot be reached"]);
    }
    // That for other servers.
    run(world.command(&hidden, &[]).env("HTTP_PROXY", proxy.url())).exits(75);
    assert_eq!(proxy.asked().len(), before);
}

#[test]
fn a_server_without_tls_is_asked_through_the_proxy_too_even_on_this_machine() {
    let world = World::new();
    let here = world.server.endpoint();
    let place = (here.trim_start_matches("http://").to_owned(), world.port());
    let proxy = Proxy::start(
        &[
            place,
            (format!("{HIDDEN}:80"), world.port()),
            (HIDDEN.to_owned(), world.port()),
        ],
        None,
    );
    for endpoint in [format!("http://{HIDDEN}"), here.clone()] {
        let before = proxy.asked().len();
        run(world.command(&endpoint, &[]).env("HTTP_PROXY", proxy.url())).exits(0);
        let asked = &proxy.asked()[before..];
        assert!(
            !asked.is_empty()
                && asked
                    .iter()
                    .all(|line| line.starts_with(&format!("GET {endpoint}/bucket"))),
            "{asked:?}"
        );
    }
    let before = proxy.asked().len();
    for direct in [
        "127.0.0.1".to_owned(),
        "localhost,127.0.0.0/8".to_owned(),
        format!("127.0.0.1:{}", world.port()),
    ] {
        let mut command = world.command(&here, &[]);
        run(command
            .env("HTTP_PROXY", proxy.url())
            .env("NO_PROXY", direct))
        .exits(0);
    }
    assert_eq!(proxy.asked().len(), before);
}

#[test]
fn the_password_of_a_proxy_is_used_and_never_shown() {
    let world = World::new();
    let tls = world.tls(&world.authority.signs(HIDDEN));
    // `user:p@canary`, as a header has it.
    let header = "Basic dXNlcjpwQGNhbmFyeQ==";
    let places = [
        (format!("{HIDDEN}:443"), tls.port),
        (HIDDEN.to_owned(), world.port()),
    ];
    let proxy = Proxy::start(&places, Some(header));
    let url = |user: &str| proxy.url().replace("http://", &format!("http://{user}@"));
    for (scheme, variable) in [("https", "HTTPS_PROXY"), ("http", "HTTP_PROXY")] {
        let hidden = format!("{scheme}://{HIDDEN}");
        for (proxy, code) in [
            (url("user:p%40canary"), 0),
            (url("user:wrongcanary"), 1),
            (proxy.url(), 1),
        ] {
            let mut command = world.command(&hidden, &["-v"]);
            command
                .env(variable, proxy)
                .env("AWS_CA_BUNDLE", world.bundle());
            let run = run(command.env("RUST_LOG", "trace"));
            run.exits(code);
            if code > 0 {
                run.says(&["asks for a user and a password", variable]);
            }
            for secret in ["canary", "dXNlc"] {
                assert!(
                    !run.err.contains(secret) && !run.out.contains(secret),
                    "{}",
                    run.err
                );
            }
        }
    }
    for url in [
        "socks5h://user:canary@127.0.0.1:1",
        "ftp://user:canary@127.0.0.1",
    ] {
        let mut command = world.command(&format!("https://{HIDDEN}"), &[]);
        let run = run(command.env("ALL_PROXY", url));
        run.exits(2).says(&["ALL_PROXY", "http://HOST:PORT"]);
        assert!(!run.err.contains("canary"));
    }
    // Of no concern to a server that is asked directly.
    let mut command = world.command(&world.server.endpoint(), &[]);
    run(command
        .env("ALL_PROXY", "socks5://127.0.0.1:1")
        .env("NO_PROXY", "127.0.0.1"))
    .exits(0);
}

#[test]
fn a_proxy_that_does_not_do_its_work_is_named() {
    let world = World::new();
    let refusing = Proxy::start(&[], None);
    let closed = Server::start().endpoint();
    for proxy in [refusing.url(), closed] {
        let mut command = world.command("https://s3.internal.invalid", &[]);
        run(command.env("HTTPS_PROXY", &proxy)).exits(75).says(&[
            "cannot be reached",
            &format!("the proxy {proxy} of HTTPS_PROXY"),
        ]);
    }
    assert!(!refusing.asked().is_empty());
}

#[test]
fn who_gives_out_credentials_is_asked_directly_but_for_a_token_service() {
    let world = World::new();
    let given = format!(
        "{{\"AccessKeyId\":\"{ACCESS_KEY}\",\"SecretAccessKey\":\"{SECRET_KEY}\",\"Token\":\"t\",\"Expiration\":\"2099-01-01T00:00:00Z\"}}"
    );
    let agent = Http::start(move |_, _| (200, given.clone()));
    let refused = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>";
    let tokens = Http::start(move |_, _| (403, refused.to_owned()));
    let service = "sts.internal.invalid";
    let tls = Tls::start(
        &world.authority.signs(service),
        tokens.url().rsplit(':').next().unwrap().parse().unwrap(),
    );
    let here = world.server.endpoint();
    let places = [
        (here.trim_start_matches("http://").to_owned(), world.port()),
        (format!("{service}:443"), tls.port),
    ];
    let proxy = Proxy::start(&places, None);
    let keyless = || {
        let mut command = world.command(&here, &[]);
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SECRET_ACCESS_KEY")
            .env("ALL_PROXY", proxy.url())
            .env("AWS_CA_BUNDLE", world.bundle());
        command
    };
    run(keyless().env("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url())).exits(0);
    assert_eq!(agent.requests().len(), 1);
    let asked = proxy.asked();
    assert!(
        !asked.is_empty() && asked.iter().all(|line| line.contains(&here)),
        "{asked:?}"
    );

    let mut pod = keyless();
    pod.env(
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        world.file("token", "a-token"),
    )
    .env("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    .env("AWS_ENDPOINT_URL_STS", format!("https://{service}"));
    run(&mut pod).exits(1).says(&["AccessDenied"]);
    assert_eq!(
        proxy.asked().last().unwrap(),
        &format!("CONNECT {service}:443 HTTP/1.1")
    );
}

#[test]
fn an_authority_of_ones_own_is_trusted_when_it_is_named() {
    let world = World::new();
    let tls = world.tls(&world.authority.signs("127.0.0.1"));
    let endpoint = format!("https://127.0.0.1:{}", tls.port);
    let bundle = world.bundle();
    run(&mut world.command(&endpoint, &[]))
        .exits(1)
        .says(&["an authority that is not known here", "AWS_CA_BUNDLE"]);
    run(world.command(&endpoint, &[]).env("AWS_CA_BUNDLE", &bundle)).exits(0);
    run(world.command(&endpoint, &[]).env("SSL_CERT_FILE", &bundle)).exits(0);
    let config = world.file(
        "config",
        &format!("[profile own]\nca_bundle = {}\n", bundle.display()),
    );
    let with = |name: &str| {
        let mut command = world.command(&endpoint, &[]);
        command
            .env("AWS_CONFIG_FILE", &config)
            .env("AWS_PROFILE", name);
        command
    };
    run(&mut with("own")).exits(0);
    // The environment comes before the profile, and takes its place.
    let other = world.file("other.pem", &Authority::new().pem);
    run(with("own").env("AWS_CA_BUNDLE", &other))
        .exits(1)
        .says(&["an authority that is not known here"]);
    // What else is in the file does no harm.
    let odd = format!(
        "# comment\n{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{}",
        Authority::new().pem,
        world.authority.pem
    );
    run(world
        .command(&endpoint, &[])
        .env("AWS_CA_BUNDLE", world.file("odd.pem", &odd)))
    .exits(0);
    for path in [
        world.data.place("nothing"),
        world.file("empty.pem", "none here\n"),
    ] {
        run(world.command(&endpoint, &[]).env("AWS_CA_BUNDLE", &path))
            .exits(2)
            .says(&["AWS_CA_BUNDLE", path.to_str().unwrap()]);
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_said() {
    let world = World::new();
    let bundle = world.bundle();
    let old = world.authority.signs_with("127.0.0.1", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let (itself, pem) = Authority::itself("127.0.0.1");
    let itself_bundle = world.file("itself.pem", &pem);
    for (identity, bundle, words) in [
        (
            world.authority.signs("other.example"),
            &bundle,
            "is for another name",
        ),
        (old, &bundle, "has ended or not begun"),
        (itself, &itself_bundle, "an authority's own"),
    ] {
        let tls = world.tls(&identity);
        let mut command = world.command(&format!("https://127.0.0.1:{}", tls.port), &[]);
        let run = run(command.env("AWS_CA_BUNDLE", bundle));
        run.exits(1).says(&[words]);
        // No list of authorities helps against these.
        assert!(
            !run.err.contains("SSL_CERT_FILE") && !run.err.contains("AWS_CA_BUNDLE"),
            "{}",
            run.err
        );
    }
}

#[test]
fn an_endpoint_that_cannot_be_meant_is_a_usage_error_with_what_was() {
    let world = World::new();
    let plain = world.server.endpoint();
    let tls = world.tls(&world.authority.signs("127.0.0.1"));
    // As servers written in Go say it.
    let polite = Listener::start(|mut stream| {
        let mut bytes = [0; 4096];
        let _ = stream.read(&mut bytes);
        let _ = match bytes[0] {
            0x16 => stream.write_all(&[0x15, 3, 1, 0, 2, 2, 40]),
            _ => stream.write_all(
                b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            ),
        };
    });
    for (given, meant) in [
        (
            plain.replace("http:", "https:"),
            format!("--endpoint-url {plain}"),
        ),
        (
            format!("http://127.0.0.1:{}", tls.port),
            format!("--endpoint-url https://127.0.0.1:{}", tls.port),
        ),
        (
            format!("http://127.0.0.1:{}", polite.port()),
            format!("--endpoint-url https://127.0.0.1:{}", polite.port()),
        ),
        (
            "minio:9000".to_owned(),
            "--endpoint-url https://minio:9000".to_owned(),
        ),
        (
            "minio".to_owned(),
            "--endpoint-url https://minio".to_owned(),
        ),
        ("htp://minio".to_owned(), "http:// or https://".to_owned()),
        ("http://".to_owned(), "no host".to_owned()),
    ] {
        run(&mut world.command(&given, &[]))
            .exits(2)
            .says(&[&meant]);
        let flag = world.command("http://127.0.0.1:1", &["--endpoint-url", &given]);
        run(&mut { flag }).exits(2).says(&[&meant]);
    }
    let config = world.file("config", "[default]\nendpoint_url = minio:9000\n");
    let mut command = world.command("", &[]);
    command.env_remove("AWS_ENDPOINT_URL_S3");
    run(command.env("AWS_CONFIG_FILE", config))
        .exits(2)
        .says(&["--endpoint-url https://minio:9000"]);
}

#[test]
fn configured_servers_can_be_left_out_of_account() {
    let world = World::new();
    let proxy = Proxy::start(&[], None);
    let mut command = world.command(&world.server.endpoint(), &[]);
    command
        .env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
        .env("HTTPS_PROXY", proxy.url());
    run(&mut command).exits(75);
    assert_eq!(world.server.requests().len(), 0);
    let aws = "CONNECT bucket.s3.us-east-1.amazonaws.com:443 HTTP/1.1";
    assert!(
        proxy.asked().iter().all(|line| line == aws),
        "{:?}",
        proxy.asked()
    );
    let mut flag = world.command(
        "http://127.0.0.1:1",
        &["--endpoint-url", &world.server.endpoint()],
    );
    run(flag.env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")).exits(0);
}

#[test]
fn a_server_that_accepts_and_never_answers_is_tried_twice() {
    let world = World::new();
    let came = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&came);
    let silent = Listener::start(move |mut stream| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let endpoint = format!("http://127.0.0.1:{}", silent.port());
    run(&mut world.command(&endpoint, &["--request-timeout", "1"]))
        .exits(75)
        .says(&["did not answer in time"]);
    assert_eq!(came.load(Ordering::SeqCst), 2);
}

#[test]
fn patience_ends_by_time_and_not_by_attempts() {
    let world = World::new();
    let fault = Fault::new(Kind::AskAgain).on("GetObject");
    world.server.fault(fault.key("images/cat/0001").times(40));
    let here = world.server.endpoint();
    run(&mut world.command(&here, &[]))
        .exits(0)
        .says(&["40 requests made again"]);
    world
        .server
        .fault(Fault::new(Kind::Internal).on("GetObject"));
    run(&mut world.command(&here, &["--retry-for", "2"]))
        .exits(75)
        .says(&["is in trouble", "run again"]);
    run(&mut world.command(&here, &["--retry-for", "0"])).exits(75);
}
