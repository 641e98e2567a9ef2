//! What is on the wire, with a server that says what it is told to.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sdk_s3::primitives::{DateTime, DateTimeFormat};

use super::*;
use crate::base::buffer::Buffer;
use crate::store::s3::tls::Trust;

const SECRET: &str = "secret-canary";
const TOKEN: &str = "token-canary";

/// Answers each request with the next text; one that ends with this hangs up after it.
const HANGS_UP: &str = "\0";

/// A server with a text for each request, and what it was asked: the number of the connection, and the head.
struct Scripted {
    endpoint: String,
    asked: Arc<Mutex<Vec<(usize, String)>>>,
}

impl Scripted {
    fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let heads = Arc::clone(&asked);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (answers, heads) = (Arc::clone(&answers), Arc::clone(&heads));
                thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while let Some(head) = head(&mut reader) {
                        heads.lock().unwrap().push((number, head));
                        let Some(answer) = answers.lock().unwrap().next() else {
                            return;
                        };
                        say(&mut stream, answer.trim_end_matches(HANGS_UP));
                        if answer.ends_with(HANGS_UP) {
                            return;
                        }
                    }
                });
            }
        });
        Self { endpoint, asked }
    }

    fn asked(&self) -> Vec<(usize, String)> {
        self.asked.lock().unwrap().clone()
    }

    /// A getter of its objects.
    fn getter(&self, signed: bool) -> Getter {
        let rules = Rules {
            region: "eu-west-1".to_owned(),
            endpoint: Some(self.endpoint.clone()),
            path_style: true,
            fips: false,
            dual_stack: false,
        };
        let credentials = Credentials::new("AKID", SECRET, Some(TOKEN.to_owned()), None, "test");
        let keeper = signed.then(|| CredentialsCache::new(credentials, "none"));
        let dialer = Dialer::new(Trust::of_system(), None);
        Getter::new(rules, dialer, keeper, &Arc::default(), true)
    }
}

fn head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head.to_lowercase())
}

/// Says a text in several pieces: none of them ends where a head or a body does.
fn say(stream: &mut TcpStream, text: &str) {
    let (first, rest) = text.split_at(text.len() / 3);
    for piece in [first, rest] {
        _ = stream.write_all(piece.as_bytes());
        thread::sleep(Duration::from_millis(5));
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.enable_all().build().unwrap().block_on(work)
}

/// Gets an object and its content.
async fn read(getter: &Getter, range: Option<(u64, u64)>) -> Result<Vec<u8>, RequestError> {
    let wanted = Wanted {
        bucket: "bucket",
        key: "a b.jpg",
        tag: Some("tag"),
        range,
    };
    let reply = getter.get(&wanted).await?;
    let mut buffer = Buffer::default();
    let room = buffer.room(usize::try_from(reply.length().unwrap()).unwrap());
    let crc32 = reply.fill(room).await?;
    assert_eq!(crc32, crc32fast::hash(&buffer));
    Ok(buffer.to_vec())
}

fn object(content: &str, headers: &str) -> String {
    let length = content.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{headers}\r\n{content}")
}

#[test]
fn a_request_says_what_is_wanted_and_who_asks() {
    let server = Scripted::start(vec![object("one", ""), object("two", ""), object("3", "")]);
    run(async {
        let getter = server.getter(true);
        assert_eq!(read(&getter, None).await.unwrap(), b"one");
        assert_eq!(read(&getter, Some((5, 7))).await.unwrap(), b"two");
        assert_eq!(read(&server.getter(false), None).await.unwrap(), b"3");
    });
    let asked = server.asked();
    let has = |at: usize, word: &str| asked[at].1.contains(word);
    for at in 0..3 {
        assert!(has(at, "get /bucket/a%20b.jpg http/1.1\r\n"), "{asked:?}");
        assert!(has(at, "if-match: \"tag\"\r\n") && has(at, "x-amz-request-payer: requester\r\n"));
        assert!(has(at, &format!("host: {}\r\n", &server.endpoint[7..])));
        assert!(!has(at, SECRET));
    }
    assert!(has(0, "x-amz-checksum-mode: enabled") && !has(0, "range:"));
    assert!(has(1, "range: bytes=5-7\r\n") && !has(1, "x-amz-checksum-mode"));
    assert!(has(0, "/eu-west-1/s3/aws4_request,") && has(0, TOKEN));
    assert!(
        has(0, "if-match;") && has(0, "x-amz-security-token,"),
        "all of it is signed"
    );
    assert!(!has(2, "authorization") && !has(2, "x-amz-date") && !has(2, TOKEN));
}

#[test]
fn connections_are_used_again_unless_the_server_closes_them() {
    let large = "x".repeat(100_000);
    let closing = format!("{}{HANGS_UP}", object("c", "Connection: close\r\n"));
    let ending = format!("{}{HANGS_UP}", object("e", ""));
    let server = Scripted::start(vec![
        object(&large, ""),
        format!("HTTP/1.1 103 Early Hints\r\n\r\n{}", object("b", "")),
        closing,
        ending,
        object("f", ""),
        object("", ""),
    ]);
    run(async {
        let getter = server.getter(true);
        for expected in [large.as_str(), "b", "c", "e"] {
            assert_eq!(read(&getter, None).await.unwrap(), expected.as_bytes());
        }
        // It has ended by now, and nobody is told.
        tokio::time::sleep(Duration::from_millis(100)).await;
        for expected in ["f", ""] {
            assert_eq!(read(&getter, None).await.unwrap(), expected.as_bytes());
        }
    });
    let connections: Vec<usize> = server.asked().iter().map(|(number, _)| *number).collect();
    assert_eq!(connections, [0, 0, 0, 1, 2, 2]);
}

#[test]
fn a_connection_that_ends_under_a_request_is_replaced_once() {
    // Read, and hung up without a word: as when a server's patience ends at that moment.
    let server = Scripted::start(vec![
        object("a", ""),
        HANGS_UP.to_owned(),
        object("b", ""),
        HANGS_UP.to_owned(),
        HANGS_UP.to_owned(),
    ]);
    run(async {
        let getter = server.getter(true);
        for expected in [b"a", b"b"] {
            assert_eq!(read(&getter, None).await.unwrap(), expected);
        }
        let trouble = read(&getter, None).await.unwrap_err();
        assert_eq!(trouble.cause, Cause::Connection, "{trouble:?}");
    });
    assert_eq!(server.asked().len(), 5);
}

#[test]
fn what_breaks_off_or_differs_is_told_and_its_connection_is_not_used_again() {
    let short = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}{HANGS_UP}",
        "x".repeat(400)
    );
    let server = Scripted::start(vec![
        short,
        object("123456789", "x-amz-checksum-crc32: AAAAAA==\r\n"),
        object("123456789", "x-amz-checksum-crc32: y/Q5Jg==\r\n"),
    ]);
    run(async {
        let getter = server.getter(true);
        let trouble = read(&getter, None).await.unwrap_err();
        assert_eq!(trouble.cause, Cause::Connection);
        assert!(
            trouble.message.contains("broke off after 400 bytes"),
            "{trouble:?}"
        );
        let trouble = read(&getter, None).await.unwrap_err();
        assert_eq!(trouble.cause, Cause::Corrupt);
        assert!(trouble.message.contains("crc32 is cbf43926"), "{trouble:?}");
        assert_eq!(read(&getter, None).await.unwrap(), b"123456789");
    });
    let connections: Vec<usize> = server.asked().iter().map(|(number, _)| *number).collect();
    assert_eq!(connections, [0, 1, 2]);
}

#[test]
fn a_refusal_is_read_in_whatever_form_it_comes() {
    let words = "<Error><Code>SlowDown</Code><Message>less</Message></Error>";
    let chunks = format!(
        "HTTP/1.1 503 Slow Down\r\nTransfer-Encoding: chunked\r\nRetry-After: 2\r\n\r\n{:x}\r\n{words}\r\n0\r\n\r\n",
        words.len()
    );
    let endless = format!("HTTP/1.1 500 No\r\n\r\nno{HANGS_UP}");
    let moved = "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: eu-west-3\r\nContent-Length: 0\r\n\r\n";
    let server = Scripted::start(vec![chunks, moved.to_owned(), endless, object("a", "")]);
    run(async {
        let getter = server.getter(true);
        let trouble = read(&getter, None).await.unwrap_err();
        assert_eq!((trouble.status, trouble.code.as_str()), (503, "SlowDown"));
        assert!(trouble.is_throttle() && trouble.wait == Some(Duration::from_secs(2)));
        let trouble = read(&getter, None).await.unwrap_err();
        assert_eq!(
            (trouble.status, trouble.region.as_deref()),
            (301, Some("eu-west-3"))
        );
        let trouble = read(&getter, None).await.unwrap_err();
        assert_eq!((trouble.status, trouble.code.as_str()), (500, ""));
        assert_eq!(read(&getter, None).await.unwrap(), b"a");
    });
    let connections: Vec<usize> = server.asked().iter().map(|(number, _)| *number).collect();
    assert_eq!(connections, [0, 0, 0, 1]);
}

#[test]
fn requests_are_dated_by_the_server_once_it_has_said_that_this_clock_is_wrong() {
    let ahead = SystemTime::now() + Duration::from_secs(5 * 3600);
    let date = DateTime::from(ahead).fmt(DateTimeFormat::HttpDate).unwrap();
    let date = format!("Date: {date}\r\n");
    let words = "<Error><Code>RequestTimeTooSkewed</Code></Error>";
    let skewed = object(words, &date).replacen("200 OK", "403 Forbidden", 1);
    let server = Scripted::start(vec![
        object("a", &date),
        skewed,
        object("b", &date),
        object("c", &date),
    ]);
    run(async {
        let getter = server.getter(true);
        assert_eq!(read(&getter, None).await.unwrap(), b"a");
        let trouble = read(&getter, None).await.unwrap_err();
        assert!(trouble.may_pass(1), "{trouble:?}");
        for expected in [b"b", b"c"] {
            assert_eq!(read(&getter, None).await.unwrap(), expected);
        }
    });
    let hours: Vec<String> = server
        .asked()
        .iter()
        .map(|(_, head)| {
            let (_, date) = head.split_once("x-amz-date: ").unwrap();
            date[..11].to_owned()
        })
        .collect();
    let hour = |time: SystemTime| {
        let date = DateTime::from(time).fmt(DateTimeFormat::DateTime).unwrap();
        date.replace('-', "").to_lowercase()[..11].to_owned()
    };
    // A test that runs at the end of an hour may see the next one.
    let is = |at: usize, time: SystemTime| {
        let later = time - Duration::from_secs(20);
        hours[at] == hour(time) || hours[at] == hour(later)
    };
    assert!(
        is(0, SystemTime::now()) && is(1, SystemTime::now()),
        "{hours:?}"
    );
    assert!(is(2, ahead) && is(3, ahead), "{hours:?} {}", hour(ahead));
}
