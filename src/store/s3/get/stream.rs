//! A connection: bytes to a server and from it, under TLS or not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection to a server, or to a proxy.
pub(super) enum Stream {
    Plain(TcpStream),
    /// Boxed: its state is a kilobyte, and a proxy may be asked under TLS itself.
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    /// Whether it can be used again, as far as this side knows: the other has neither closed it nor said anything.
    pub(super) fn is_open(&self) -> bool {
        let mut byte = [0];
        let mut byte = ReadBuf::new(&mut byte);
        let tcp = self.tcp();
        match tcp.poll_peek(&mut Context::from_waker(Waker::noop()), &mut byte) {
            Poll::Pending => true,
            // TLS has words of its own.
            Poll::Ready(Ok(bytes)) => bytes > 0 && matches!(self, Self::Tls(_)),
            Poll::Ready(Err(_)) => false,
        }
    }

    fn tcp(&self) -> &TcpStream {
        let mut stream = self;
        loop {
            match stream {
                Self::Plain(tcp) => return tcp,
                Self::Tls(tls) => stream = tls.get_ref().0,
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
