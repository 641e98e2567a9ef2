//! Choosing by the width and height of images: from the index of a dataset where it has them, and else from the headers of the images.

use std::collections::VecDeque;

use crate::base::error::Result;
use crate::base::image::{HEAD_BYTES, sides_of};
use crate::model::sample::Field;
use crate::source::choose::Choice;
use crate::source::samples::Scan;

/// Bytes of an image that are looked at first; most headers end in them.
const FIRST_BYTES: u64 = 32 << 10;
/// Images that are looked at at once.
const AT_ONCE: usize = 256;

/// Leaves the samples whose image is of the wanted size. Gives how many of them nobody knows the size of: those stay, and are judged when they are
/// packed.
pub(super) fn choose(scan: &mut Scan, choice: &Choice<'_>) -> Result<u64> {
    let (least, most) = (choice.selection.min_side, choice.selection.max_side);
    let is_in = |(width, height): (u32, u32)| {
        least.is_none_or(|least| width.min(height) >= least)
            && most.is_none_or(|most| width.max(height) <= most)
    };
    let mut unknown = 0;
    let mut is_chosen = Vec::with_capacity(scan.entries.len());
    let mut looks = VecDeque::new();
    let depth = choice.source.reads().clamp(1, AT_ONCE);
    let mut next = 0;
    while is_chosen.len() < scan.entries.len() {
        choice.stop.check()?;
        while next < scan.entries.len() && looks.len() < depth {
            let entry = &scan.entries[next];
            looks.push_back(match scan.listed_sides(entry) {
                Some(sides) => Look::Known(sides),
                None => Look::begin(choice, scan.sample(entry).image().cloned()),
            });
            next += 1;
        }
        let Some(look) = looks.pop_front() else { break };
        let sides = look.end(choice)?;
        unknown += u64::from(sides.is_none());
        is_chosen.push(sides.is_none_or(is_in));
    }
    let mut chosen = is_chosen.into_iter();
    scan.entries.retain(|_| chosen.next() == Some(true));
    Ok(unknown)
}

/// An image whose size is asked for.
enum Look {
    Known((u32, u32)),
    Begun(
        Field,
        crate::base::reactor::Pending<crate::base::buffer::Buffer>,
    ),
    Unknown,
}

impl Look {
    fn begin(choice: &Choice<'_>, image: Option<Field>) -> Self {
        match image {
            Some(image) if image.size > 0 => {
                let read = choice.source.part(&image, 0, image.size.min(FIRST_BYTES));
                Look::Begun(image, read)
            }
            _ => Look::Unknown,
        }
    }

    /// Width and height, if the first bytes of the image say them.
    fn end(self, choice: &Choice<'_>) -> Result<Option<(u32, u32)>> {
        let (image, read) = match self {
            Look::Known(sides) => return Ok(Some(sides)),
            Look::Unknown => return Ok(None),
            Look::Begun(image, read) => (image, read),
        };
        let head = read.wait()?;
        let mut sides = sides_of(&head);
        choice.source.recycle(head);
        if sides.is_none() && image.size > FIRST_BYTES {
            let length = image.size.min(HEAD_BYTES as u64);
            let head = choice.source.part(&image, 0, length).wait()?;
            sides = sides_of(&head);
            choice.source.recycle(head);
        }
        Ok(sides)
    }
}
