//! Small servers of the tests' own, on loopback and free ports, gone when dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

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
