//! How fast images are decoded, without reading them.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::images::Images;
use super::load::Allowance;
use crate::base::error::Result;
use crate::base::image::{Validate, probe};
use crate::base::signal::Stop;
use crate::base::sync::thread_time;

/// Images that are read to be decoded, at most.
const IMAGES: usize = 64;
/// What decoding one image may allocate.
const DECODE_BYTES: u64 = 512 << 20;

/// How fast one core decodes.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Decoding {
    /// Whose decoders these are.
    pub(crate) decoder: &'static str,
    pub(crate) images_per_second_per_core: f64,
    pub(crate) megapixels_per_second_per_core: f64,
    /// Images that were decoded.
    pub(crate) images: u64,
    /// Images that could not be.
    pub(crate) failed: u64,
}

/// Decodes some images for so much time at most, each of them once at least if that suffices.
pub(crate) fn decode(
    images: &Images,
    time: Duration,
    allowance: &Allowance,
    stop: &Stop,
) -> Result<Decoding> {
    let contents = images.contents(IMAGES, allowance)?;
    let (began, spent) = (Instant::now(), thread_time());
    let (mut decoded, mut failed, mut pixels) = (0, 0, 0);
    for content in contents.iter().cycle().take(contents.len() * IMAGES) {
        stop.check()?;
        if began.elapsed() >= time || decoded + failed >= contents.len() as u64 && failed > decoded
        {
            break;
        }
        match probe(content, Validate::Decode, DECODE_BYTES) {
            Ok(info) => {
                decoded += 1;
                pixels += info.map_or(0, |info| u64::from(info.width) * u64::from(info.height));
            }
            Err(_) => failed += 1,
        }
    }
    let seconds = (thread_time() - spent).as_secs_f64().max(1e-9);
    Ok(Decoding {
        decoder: "the decoders of the Rust crate `image`",
        images_per_second_per_core: decoded as f64 / seconds,
        megapixels_per_second_per_core: pixels as f64 / seconds / 1e6,
        images: decoded,
        failed,
    })
}
