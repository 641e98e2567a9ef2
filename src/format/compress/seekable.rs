//! Writes a shard as independent zstd frames, with a seek table at its end.

use std::io::{self, Write};

use crate::base::checksum::Digest;
use crate::format::compress::frames::{Frame, Frames};

/// A seekable frame ends here even inside a sample, so that memory stays bounded.
pub(super) const MAX_FRAME_BYTES: usize = 4 << 20;

/// Writes independent frames.
pub(super) struct Seekable<W: Write> {
    out: Digest<W>,
    /// What the frame to come holds so far.
    frame: Vec<u8>,
    compressor: zstd::bulk::Compressor<'static>,
    frames: Frames,
}

impl<W: Write> Seekable<W> {
    /// Frames of this level, each with a checksum.
    pub(super) fn new(out: Digest<W>, level: i32) -> io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        compressor.include_checksum(true)?;
        Ok(Self {
            out,
            frame: Vec::new(),
            compressor,
            frames: Frames::default(),
        })
    }

    /// Bytes that the frame to come holds so far.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.frame.len()
    }

    pub(super) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let n = data.len().min(MAX_FRAME_BYTES - self.frame.len());
            self.frame.extend_from_slice(&data[..n]);
            data = &data[n..];
            if self.frame.len() == MAX_FRAME_BYTES {
                self.end_frame()?;
            }
        }
        Ok(())
    }

    /// Ends the frame, if it holds anything.
    pub(super) fn end_frame(&mut self) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let packed = self.compressor.compress(&self.frame)?;
        self.out.write_all(&packed)?;
        // Both are a few MiB at most.
        self.frames.0.push(Frame {
            packed: packed.len() as u32,
            unpacked: self.frame.len() as u32,
        });
        self.frame.clear();
        Ok(())
    }

    /// Ends the last frame and writes the seek table.
    pub(super) fn finish(mut self) -> io::Result<(Digest<W>, Frames)> {
        self.end_frame()?;
        self.out.write_all(&self.frames.table())?;
        Ok((self.out, self.frames))
    }
}
