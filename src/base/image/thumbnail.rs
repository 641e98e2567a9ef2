//! A small picture of an image, for pages.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder as _, Rgba};

use super::{ImageFormat, guarded, not_an_image, reader};

/// Quality of the JPEG: nobody looks for detail in a thumbnail.
const QUALITY: u8 = 70;

/// A JPEG of the image that fits into a square of `side` pixels, turned as its camera says; `decode_bytes` is what decoding may allocate.
///
/// # Errors
///
/// A sentence without the file's name.
pub(crate) fn thumbnail(bytes: &[u8], side: u32, decode_bytes: u64) -> Result<Vec<u8>, String> {
    let format = ImageFormat::of_bytes(bytes).ok_or_else(|| not_an_image(bytes))?;
    let small = guarded(|| {
        let mut decoder = reader(bytes, format, decode_bytes).into_decoder()?;
        let turned = decoder.orientation();
        let mut image = DynamicImage::from_decoder(decoder)?.thumbnail(side, side);
        if let Ok(turned) = turned {
            image.apply_orientation(turned);
        }
        // What is seen through is white, as the page behind it mostly is.
        let on_white = |pixel: &Rgba<u8>| {
            let [r, g, b, a] = pixel.0.map(u32::from);
            [r, g, b].map(|part| ((part * a + 255 * (255 - a)) / 255) as u8)
        };
        let image = image.to_rgba8();
        let pixels: Vec<u8> = image.pixels().flat_map(on_white).collect();
        let (width, height) = image.dimensions();
        let mut out = Cursor::new(Vec::new());
        JpegEncoder::new_with_quality(&mut out, QUALITY).encode(
            &pixels,
            width,
            height,
            image::ExtendedColorType::Rgb8,
        )?;
        Ok(out.into_inner())
    });
    small.map_err(|error| format!("does not decode: {error}"))
}

#[cfg(test)]
mod tests {
    use image::RgbaImage;

    use super::*;

    fn png(image: &RgbaImage) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn a_thumbnail_fits_its_square_keeps_its_shape_and_is_white_where_the_image_is_seen_through() {
        let wide = png(&RgbaImage::from_pixel(400, 100, Rgba([10, 10, 10, 0])));
        let small = image::load_from_memory(&thumbnail(&wide, 64, 1 << 24).unwrap()).unwrap();
        assert_eq!((small.width(), small.height()), (64, 16));
        assert!(
            small
                .to_rgb8()
                .pixels()
                .all(|p| p.0.iter().all(|&part| part > 250))
        );
    }

    #[test]
    fn what_is_no_image_or_too_large_has_none() {
        let large = png(&RgbaImage::new(600, 600));
        assert!(thumbnail(&large, 64, 1000).is_err());
        assert!(thumbnail(b"no image at all", 64, 1 << 20).is_err());
        assert!(thumbnail(&large[..200], 64, 1 << 24).is_err());
    }
}
