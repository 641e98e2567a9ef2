//! Thrift's compact protocol as far as Parquet needs it to be bounded: the whole numbers of a structure by their fields.
//!
//! Source: Apache Thrift `doc/specs/thrift-compact-protocol.md`. The Parquet library believes these numbers; what it takes for them is
//! reckoned before it is asked.

/// Structures within structures at most.
const MOST_DEPTH: usize = 16;

/// Where a number stands: the field of the outermost structure, and the field of the one in it, 0 if it is none.
pub(super) type Place = (i16, i16);

/// Bytes that are read from the front.
pub(super) struct Compact<'a> {
    bytes: &'a [u8],
    /// How many are read.
    pub(super) at: usize,
}

impl<'a> Compact<'a> {
    /// Reads these bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads a structure to its end, and tells of each whole number in it and in those directly in it; `None` if it is none.
    pub(super) fn structure(&mut self, seen: &mut dyn FnMut(Place, i64)) -> Option<()> {
        self.fields((0, 0), 0, seen)
    }

    fn fields(
        &mut self,
        outer: Place,
        depth: usize,
        seen: &mut dyn FnMut(Place, i64),
    ) -> Option<()> {
        if depth > MOST_DEPTH {
            return None;
        }
        let mut id = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            id = match i16::from(head >> 4) {
                0 => i16::try_from(self.signed()?).ok()?,
                step => id.checked_add(step)?,
            };
            let place = match depth {
                0 => (id, 0),
                _ => (outer.0, id),
            };
            match head & 15 {
                // The kind is the value.
                1 | 2 => {}
                kind => self.value(kind, place, depth, seen)?,
            }
        }
    }

    /// Reads a value of this kind, as it is in a list, too.
    fn value(
        &mut self,
        kind: u8,
        place: Place,
        depth: usize,
        seen: &mut dyn FnMut(Place, i64),
    ) -> Option<()> {
        match kind {
            1..=3 => _ = self.byte()?,
            4..=6 => {
                let value = self.signed()?;
                if depth < 2 {
                    seen(place, value);
                }
            }
            7 => self.skip(8)?,
            8 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.skip(length)?;
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    count => u64::from(count),
                };
                for _ in 0..count {
                    match head & 15 {
                        // Parquet has no lists of lists.
                        9..=11 => return None,
                        kind => self.value(kind, place, depth, seen)?,
                    }
                }
            }
            12 => self.fields(place, depth + 1, seen)?,
            // Parquet has no maps.
            _ => return None,
        }
        Some(())
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        self.at = self.at.checked_add(length)?;
        (self.at <= self.bytes.len()).then_some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number whose sign is its last bit.
    fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_found_by_their_fields() {
        // {1: 0, 2: 150, 5: {1: 7, 2: -1}}, and a byte that follows.
        let bytes = [0x15, 0, 0x15, 0xAC, 2, 0x3C, 0x15, 14, 0x15, 1, 0, 0, 99];
        let (mut found, mut reader) = (Vec::new(), Compact::new(&bytes));
        reader
            .structure(&mut |place, value| found.push((place, value)))
            .unwrap();
        let expected = [((1, 0), 0), ((2, 0), 150), ((5, 1), 7), ((5, 2), -1)];
        assert_eq!((found, reader.at), (expected.to_vec(), bytes.len() - 1));
    }

    #[test]
    fn what_nests_without_end_is_none() {
        let deep = [0x1C; 100_000];
        assert_eq!(Compact::new(&deep).structure(&mut |_, _| ()), None);
        let lists = [&[0x19][..], &[0x19; 100_000]].concat();
        assert_eq!(Compact::new(&lists).structure(&mut |_, _| ()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            Compact::new(&bytes).structure(&mut |_, _| ());
        }
    }
}
