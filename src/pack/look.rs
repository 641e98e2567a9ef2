//! Looks at samples before they are packed: whether the layout has a place for them, and what their images say of themselves.

use crate::base::buffer::Buffer;
use crate::base::error::{Error, Kind, Result};
use crate::base::image::{HEAD_BYTES, ImageFormat, ImageInfo, Validate, probe, probe_ends};
use crate::format::Layout;
use crate::model::record::Remark;
use crate::model::sample::{Field, Sample};
use crate::pack::lookahead::{Content, Fetched, Large};
use crate::plan::budget::DECODE_LIMIT_BYTES;

/// How a JPEG begins.
const JPEG_START: &[u8] = &[0xFF, 0xD8];

/// How a JPEG ends.
const JPEG_END: &[u8] = &[0xFF, 0xD9];

/// Looks at a sample that was read: at the sizes of its files, at failed reads, and at the image as closely as `level` says.
///
/// # Errors
///
/// What is wrong with the sample; it can be left out then.
pub(super) fn look(
    layout: &dyn Layout,
    fetched: &mut Fetched<'_>,
    level: Validate,
) -> Result<Option<ImageInfo>> {
    check_size(layout, &fetched.sample)?;
    let image = probe_image(fetched, level)?;
    check_fit(layout, fetched, image)?;
    Ok(image)
}

/// What the image says of itself, if every field of the sample could be read.
fn probe_image(fetched: &mut Fetched<'_>, level: Validate) -> Result<Option<ImageInfo>> {
    for content in &mut fetched.contents {
        if content.is_err() {
            // Taken out, so that the error itself is judged.
            return match std::mem::replace(content, Ok(Content::Held(Buffer::default()))) {
                Err(error) => Err(error),
                Ok(_) => Ok(None),
            };
        }
    }
    let Some(field) = fetched.sample.image() else {
        return Ok(None);
    };
    let looked = match fetched.contents.first_mut() {
        Some(Ok(Content::Held(bytes))) => probe(bytes, level, DECODE_LIMIT_BYTES),
        Some(Ok(Content::Large(large))) => look_at_large(large, level)?,
        _ => return Ok(None),
    };
    looked.map_err(|what| Error::new(Kind::Sample, format!("{}: {what}", field.path)))
}

/// Looks at an image that is too large to hold with the others. What is seen of it does not depend on how much was read ahead.
fn look_at_large(
    large: &mut Large<'_>,
    level: Validate,
) -> Result<Result<Option<ImageInfo>, String>> {
    let size = large.size();
    match level {
        Validate::None => return Ok(Ok(None)),
        Validate::Decode if size <= DECODE_LIMIT_BYTES => {
            return Ok(probe(large.gather()?, level, DECODE_LIMIT_BYTES));
        }
        Validate::Decode => {
            let what = format!("{size} bytes are too many to decode: use `--validate header`");
            return Ok(Err(what));
        }
        Validate::Header => {}
    }
    let (head, tail) = large.ends()?;
    let head = &head[..head.len().min(HEAD_BYTES)];
    let looked = match probe_ends(head, &tail, size) {
        // Much may follow the end of an image, a film for example.
        Err(_) if head.starts_with(JPEG_START) => {
            // In the head there may be a thumbnail with an end of its own.
            let ended = probe(head, Validate::Header, 0).is_ok();
            let head = head.to_vec();
            match ended || has_jpeg_end(large, HEAD_BYTES)? {
                true => probe_ends(&head, JPEG_END, size),
                false => probe_ends(&head, &tail, size),
            }
        }
        looked => looked,
    };
    large.recycle(tail);
    // Dimensions that lie in the unseen middle are unknown, which is no fault.
    Ok(looked.map(|image| (image.width > 0).then_some(image)))
}

/// Whether a JPEG's end marker is anywhere after its first so many bytes, or across their end; such bytes cannot occur inside of the image
/// data.
fn has_jpeg_end(large: &mut Large<'_>, head: usize) -> Result<bool> {
    let is_end = |bytes: &[u8]| bytes.windows(2).any(|pair| pair == JPEG_END);
    let across = |last: u8, bytes: &[u8]| {
        bytes
            .first()
            .is_some_and(|&first| [last, first] == JPEG_END)
    };
    let mut at = head - 1;
    let mut seen = 0;
    let mut last = 0;
    // What is read ahead already is packed later all the same.
    for number in 0.. {
        let Some(piece) = large.peek(number)? else {
            break;
        };
        if across(last, piece) || is_end(piece.get(at..).unwrap_or_default()) {
            return Ok(true);
        }
        last = piece.last().copied().unwrap_or_default();
        seen += piece.len() as u64;
        at = 0;
    }
    let size = large.size();
    while seen < size {
        let piece = large.range(seen, (size - seen).min(HEAD_BYTES as u64))?;
        if across(last, &piece) || is_end(&piece) {
            return Ok(true);
        }
        last = piece.last().copied().unwrap_or_default();
        seen += piece.len() as u64;
        large.recycle(piece);
    }
    Ok(false)
}

/// Whether the layout has a place for files of these sizes. One that has not was left in the plan to be skipped.
fn check_size(layout: &dyn Layout, sample: &Sample) -> Result<()> {
    let limits = layout.limits();
    for (at, field) in sample.fields.iter().enumerate() {
        if let Some(what) = limits.refuse(field.size, at == 0) {
            return Err(Error::new(Kind::Sample, format!("{}: {what}", field.path)));
        }
    }
    let all = sample.fields.iter().map(|field| field.size);
    match (limits.refuse_together(all.sum()), sample.image()) {
        (Some(what), Some(image)) => {
            Err(Error::new(Kind::Sample, format!("{}: {what}", image.path)))
        }
        _ => Ok(()),
    }
}

/// An image that is another format than its name says is packed as it is, and told.
pub(crate) fn odd(sample: &Sample, image: Option<ImageInfo>) -> Option<Remark> {
    let field = sample.image()?;
    let actual = image?.format;
    let named = ImageFormat::of_extension(&field.name)?;
    (actual != named).then(|| Remark {
        key: sample.key.clone(),
        path: sample.path(),
        reason: format!("is {}, named as {}", actual.name(), named.name()),
    })
}

/// Whether the layout has a place for what the sample turned out to be.
fn check_fit(layout: &dyn Layout, fetched: &Fetched<'_>, image: Option<ImageInfo>) -> Result<()> {
    let refusal = |field: &Field, what: String| {
        Err(Error::new(Kind::Sample, format!("{}: {what}", field.path)))
    };
    if let Some(field) = fetched.sample.image()
        && let Err(what) = layout.check_image(image)
    {
        return refusal(field, what);
    }
    for (field, content) in fetched.sample.fields.iter().zip(&fetched.contents).skip(1) {
        if let Ok(Content::Held(bytes)) = content
            && let Err(what) = layout.check_sidecar(&field.name, bytes)
        {
            return refusal(field, what);
        }
    }
    Ok(())
}
