//! CRC-32 of what passes: a writer that counts and checksums, and a scanner that does so while reading back.
//!
//! Every byte is hashed once. A field's checksum is combined into the shard's, which costs some 30 ns instead of a second pass.

use std::io::{self, BufRead, BufReader, Read, Write};

use crc32fast::Hasher;
use sha2::{Digest as _, Sha256};

use crate::base::text::hex;

/// A CRC-32 as eight lower-case hexadecimal digits.
pub(crate) fn crc_text(crc32: u32) -> String {
    format!("{crc32:08x}")
}

/// The number of eight hexadecimal digits.
pub(crate) fn crc_from_text(text: &str) -> Option<u32> {
    (text.len() == 8)
        .then(|| u32::from_str_radix(text, 16).ok())
        .flatten()
}

/// The CRC-32 of a content without the last so many of its bytes, all of which are zeros.
pub(crate) fn crc_without_zeros(crc32: u32, zeros: u64) -> u32 {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    // Each bit of zero that was appended is taken back: what a step with the polynomial left has its highest bit.
    let undone = (0..zeros * 8).fold(!crc32, |state, _| match state >> 31 {
        0 => state << 1,
        _ => (state ^ POLYNOMIAL) << 1 | 1,
    });
    !undone
}

/// Counts and checksums everything written through it.
pub(crate) struct Digest<W: Write> {
    inner: W,
    crc: Hasher,
    sha256: Option<Sha256>,
    bytes: u64,
}

/// What went through a [`Digest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Bytes written.
    pub bytes: u64,
    /// CRC-32 of all of them.
    pub crc32: u32,
    /// SHA-256 in hexadecimal, when asked for.
    pub sha256: Option<String>,
}

impl<W: Write> Digest<W> {
    /// Wraps `inner`; SHA-256 costs about 0.5 s a gigabyte and is kept only when asked for.
    pub(crate) fn new(inner: W, sha256: bool) -> Self {
        Self {
            inner,
            crc: Hasher::new(),
            sha256: sha256.then(Sha256::new),
            bytes: 0,
        }
    }

    /// Writes bytes whose CRC-32 is already known.
    pub(crate) fn write_summed(&mut self, data: &[u8], crc32: u32) -> io::Result<()> {
        self.crc
            .combine(&Hasher::new_with_initial_len(crc32, data.len() as u64));
        self.pass(data)
    }

    /// Hands back what it wrapped and what went through.
    pub(crate) fn finish(self) -> (W, Sum) {
        let sum = Sum {
            bytes: self.bytes,
            crc32: self.crc.finalize(),
            sha256: self.sha256.map(|sha| hex(&sha.finalize())),
        };
        (self.inner, sum)
    }

    fn pass(&mut self, data: &[u8]) -> io::Result<()> {
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(data);
        }
        self.bytes += data.len() as u64;
        self.inner.write_all(data)
    }
}

impl<W: Write> Write for Digest<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_all(data)?;
        Ok(data.len())
    }

    fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        self.crc.update(data);
        self.pass(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Reads a stream once, checksumming parts and whole.
pub(crate) struct Scanner<'a> {
    inner: Box<dyn BufRead + Send + 'a>,
    /// Bytes of the reader's piece that were handed out.
    handed: usize,
    /// What lies in two pieces and is wanted in one.
    joined: Vec<u8>,
    position: u64,
    crc: Hasher,
}

/// Bytes a scanner looks at at once: large enough for few calls, small enough to stay in a core's cache.
pub(crate) const SCAN_BYTES: usize = 256 * 1024;

impl<'a> Scanner<'a> {
    /// Starts at the beginning of `inner`.
    pub(crate) fn new(inner: impl Read + Send + 'a) -> Self {
        Self::over(BufReader::with_capacity(SCAN_BYTES, inner))
    }

    /// The same with what has its bytes in memory: they are looked at where they are.
    pub(crate) fn over(inner: impl BufRead + Send + 'a) -> Self {
        Self {
            inner: Box::new(inner),
            handed: 0,
            joined: Vec::new(),
            position: 0,
            crc: Hasher::new(),
        }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// CRC-32 of everything read so far.
    pub(crate) fn crc32(&self) -> u32 {
        self.crc.clone().finalize()
    }

    /// The next `length` bytes in one piece, fewer only at the end; `length` is at most [`SCAN_BYTES`].
    pub(crate) fn take(&mut self, length: usize) -> io::Result<&[u8]> {
        let length = length.min(SCAN_BYTES);
        let piece = match self.fill()? >= length {
            true => {
                self.handed = length;
                &self.inner.fill_buf()?[..length]
            }
            false => {
                self.joined.clear();
                while self.joined.len() < length {
                    let n = self.fill()?.min(length - self.joined.len());
                    if n == 0 {
                        break;
                    }
                    self.joined.extend_from_slice(&self.inner.fill_buf()?[..n]);
                    self.handed = n;
                }
                &self.joined
            }
        };
        self.position += piece.len() as u64;
        self.crc.update(piece);
        Ok(piece)
    }

    /// Passes the next `length` bytes to `each` piece by piece; returns how many there were and their CRC-32.
    pub(crate) fn pass(
        &mut self,
        length: u64,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<(u64, u32)> {
        let mut crc = Hasher::new();
        let mut left = length;
        while left > 0 {
            let n = self
                .fill()?
                .min(SCAN_BYTES)
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            if n == 0 {
                break;
            }
            let piece = &self.inner.fill_buf()?[..n];
            crc.update(piece);
            each(piece);
            self.handed = n;
            left -= n as u64;
        }
        self.position += length - left;
        self.crc.combine(&crc);
        Ok((length - left, crc.finalize()))
    }

    /// Reads to the end; gives the length and CRC-32 of all that was read.
    pub(crate) fn drain(&mut self) -> io::Result<(u64, u32)> {
        self.pass(u64::MAX, |_| ())?;
        Ok((self.position(), self.crc32()))
    }

    /// Some of the next bytes, copied; none only at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min(self.fill()?).min(SCAN_BYTES);
        buffer[..n].copy_from_slice(self.take(n)?);
        Ok(n)
    }

    /// Lets go of what was handed out, and says how many bytes come next in one piece: none at the end.
    fn fill(&mut self) -> io::Result<usize> {
        self.inner.consume(std::mem::take(&mut self.handed));
        loop {
            match self.inner.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(piece) => return Ok(piece.len()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_the_one_of_zlib() {
        let mut digest = Digest::new(Vec::new(), true);
        digest.write_all(b"123456789").unwrap();
        let (_, sum) = digest.finish();
        assert_eq!(crc_text(sum.crc32), "cbf43926");
        assert_eq!(crc_from_text("cbf43926"), Some(sum.crc32));
        assert_eq!(
            sum.sha256.as_deref(),
            Some("15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225")
        );
    }

    proptest! {
        #[test]
        fn zeros_at_the_end_are_taken_back(content in proptest::collection::vec(any::<u8>(), 0..300), zeros in 0u64..3000) {
            let mut longer = content.clone();
            longer.resize(content.len() + zeros as usize, 0);
            let shorter = crc_without_zeros(crc32fast::hash(&longer), zeros);
            prop_assert_eq!(shorter, crc32fast::hash(&content));
        }
    }

    /// A reader that gives few bytes at a time.
    struct Short<'a>(&'a [u8], usize);

    impl Read for Short<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = buffer.len().min(self.0.len()).min(self.1);
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    proptest! {
        #[test]
        fn parts_combine_to_the_whole(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2000), 0..20), short in 1usize..700) {
            let whole = parts.concat();
            let mut digest = Digest::new(Vec::new(), false);
            for (i, part) in parts.iter().enumerate() {
                if i % 2 == 0 {
                    digest.write_all(part).unwrap();
                } else {
                    digest.write_summed(part, crc32fast::hash(part)).unwrap();
                }
            }
            let (written, sum) = digest.finish();
            prop_assert_eq!(&written, &whole);
            prop_assert_eq!(sum.crc32, crc32fast::hash(&whole));
            prop_assert_eq!(sum.bytes, whole.len() as u64);

            let mut scanner = Scanner::new(Short(&whole, short));
            for (i, part) in parts.iter().enumerate() {
                if i % 2 == 0 {
                    prop_assert_eq!(scanner.take(part.len()).unwrap(), &part[..]);
                } else {
                    let mut seen = Vec::new();
                    let (n, crc) = scanner.pass(part.len() as u64, |piece| seen.extend_from_slice(piece)).unwrap();
                    prop_assert_eq!(n, part.len() as u64);
                    prop_assert_eq!(crc, crc32fast::hash(part));
                    prop_assert_eq!(&seen, part);
                }
            }
            prop_assert_eq!(scanner.crc32(), sum.crc32);
            prop_assert_eq!(scanner.take(10).unwrap().len(), 0);
        }
    }
}
