//! Starts reads early and hands samples over in plan order, holding a bounded amount of memory.
//!
//! Bytes are bounded here, requests in the [`crate::base::reactor`]. What counts is what a started read takes in all, not only its content: of
//! files of a few bytes, names and tasks are nearly everything. The window runs across shard boundaries: the reads of a packer's next shard
//! begin while it ends its last. A file that is too large to hold is read in pieces, started ahead and let go of one by one in the same
//! window.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::iter::Peekable;
use std::rc::Rc;

use crate::base::buffer::{Buffer, Pieces, allocated, room_for};
use crate::base::error::{Error, Result};
use crate::base::image::TAIL_BYTES;
use crate::base::reactor::Pending;
use crate::base::units::STREAM_ABOVE_BYTES;
use crate::model::sample::{Field, Sample};
use crate::pack::together::{Gathered, Waiting, share};
use crate::store::Source;

/// A large file is read in pieces of so many bytes, the last of them shorter: as much as a request's latency is worth, and as an image's
/// head needs.
const PIECE_BYTES: u64 = STREAM_ABOVE_BYTES;

/// Reads of several samples that a window has room for: as many are in flight at once.
const RUNS: u64 = 16;

/// The content of one source file.
pub(crate) enum Content<'a> {
    /// All of it.
    Held(Buffer),
    /// One that is too large to hold, to be read piece by piece.
    Large(Large<'a>),
}

/// A sample with the contents of its fields, in the order of its fields.
pub(crate) struct Fetched<'a> {
    /// The sample.
    pub sample: Sample,
    /// Content or failure of each field.
    pub contents: Vec<Result<Content<'a>>>,
}

/// The samples of some shards in the order they are packed in, or why they cannot be told.
type Samples<'a> = Box<dyn Iterator<Item = Result<(usize, Sample)>> + 'a>;

/// The samples that one packer will pack, their reads started early.
pub(crate) struct Lookahead<'a>(Rc<RefCell<ReadQueue<'a>>>);

struct ReadQueue<'a> {
    source: &'a dyn Source,
    todo: Peekable<Samples<'a>>,
    started: VecDeque<Started>,
    /// Samples that come after those and are to be read together.
    gathered: Gathered,
    /// The large files of started samples and of those handed over, by number, which is their order.
    files: BTreeMap<u64, File>,
    /// Those of them that have pieces whose reads are not started.
    begun: VecDeque<u64>,
    next_file: u64,
    /// Whether the end of a large image is read too.
    tails: bool,
    /// Memory of everything started or handed over that is not let go of yet.
    held: u64,
    /// Its part of the sample handed over last, besides large files.
    in_hand: u64,
    window_bytes: u64,
}

/// A sample whose reads are started.
struct Started {
    shard: usize,
    sample: Sample,
    reads: Vec<Reading>,
    bytes: u64,
}

enum Reading {
    Whole(Pending<Buffer>),
    /// Number of a large file.
    Large(u64),
}

/// A large file whose sample is started.
struct File {
    field: Field,
    tail: Option<Piece>,
    pieces: VecDeque<Piece>,
    /// Where the next piece begins.
    next: u64,
}

impl File {
    fn next_length(&self) -> u64 {
        (self.field.size - self.next).min(PIECE_BYTES)
    }
}

/// A part whose read is started, with the memory that it is counted with.
struct Piece {
    read: Pending<Buffer>,
    bytes: u64,
}

fn is_large(field: &Field) -> bool {
    field.size > STREAM_ABOVE_BYTES
}

/// Memory of a started read of so many bytes.
fn read_bytes(source: &dyn Source, field: &Field, length: u64) -> u64 {
    // What is more than an address space fails when it is read.
    let room = usize::try_from(length).map_or(usize::MAX / 2, room_for);
    allocated(room) + source.started_bytes(field)
}

/// Memory of a started sample but for its large files: its names, its place in the queue, its reads and their contents.
fn sample_bytes(source: &dyn Source, sample: &Sample) -> u64 {
    let small = sample.fields.iter().filter(|field| !is_large(field));
    let reads: u64 = small
        .map(|field| read_bytes(source, field, field.size))
        .sum();
    // The queue doubles when it is full.
    2 * size_of::<Started>() as u64
        + sample.heap_bytes()
        + allocated(sample.fields.len() * size_of::<Reading>())
        + reads
}

/// Memory of the first piece of a large image, which is started with its sample; other files of a sample need not be looked at.
fn first_piece_bytes(source: &dyn Source, sample: &Sample) -> u64 {
    let image = sample.image().filter(|field| is_large(field));
    image.map_or(0, |field| read_bytes(source, field, PIECE_BYTES))
}

impl<'a> Lookahead<'a> {
    /// Reads what `todo` names, holding at most `window_bytes`, or as much as one sample or one piece of a large file takes if that is more.
    pub(crate) fn new(
        source: &'a dyn Source,
        todo: impl Iterator<Item = Result<(usize, Sample)>> + 'a,
        window_bytes: u64,
    ) -> Self {
        let todo: Samples<'a> = Box::new(todo);
        Self(Rc::new(RefCell::new(ReadQueue {
            source,
            todo: todo.peekable(),
            started: VecDeque::new(),
            gathered: Gathered::new(source.together_bytes().min(window_bytes / RUNS)),
            files: BTreeMap::new(),
            begun: VecDeque::new(),
            next_file: 0,
            tails: false,
            held: 0,
            in_hand: 0,
            window_bytes,
        })))
    }

    /// The same with the ends of large images, for [`Large::ends`].
    #[must_use]
    pub(crate) fn with_tails(self, tails: bool) -> Self {
        self.0.borrow_mut().tails = tails;
        self
    }

    /// The shard of the next sample.
    pub(crate) fn next_shard(&mut self) -> Option<Result<usize>> {
        let mut ahead = self.0.borrow_mut();
        ahead.top_up_for_next();
        match ahead.started.front() {
            Some(started) => Some(Ok(started.shard)),
            None => ahead.todo.next().map(|next| next.map(|(shard, _)| shard)),
        }
    }

    /// The next sample, when its reads are done; an error only when the list of samples itself cannot be read.
    pub(crate) fn fetch(&mut self) -> Option<Result<Fetched<'a>>> {
        let started = {
            let mut ahead = self.0.borrow_mut();
            ahead.held -= std::mem::take(&mut ahead.in_hand);
            ahead.top_up_for_next();
            let Some(started) = ahead.started.pop_front() else {
                return match ahead.todo.next()? {
                    Err(error) => Some(Err(error)),
                    // Cannot be: topping up with nothing started lets one sample in.
                    Ok(_) => None,
                };
            };
            ahead.in_hand = started.bytes;
            started
        };
        let content = |read| match read {
            Reading::Whole(pending) => pending.wait().map(Content::Held),
            Reading::Large(number) => Ok(Content::Large(Large::new(&self.0, number))),
        };
        Some(Ok(Fetched {
            sample: started.sample,
            contents: started.reads.into_iter().map(content).collect(),
        }))
    }

    /// Takes the contents of a packed sample back for later reads.
    pub(crate) fn recycle(&mut self, contents: Vec<Result<Content<'a>>>) {
        for content in contents {
            if let Ok(Content::Held(buffer)) = content {
                self.0.borrow().source.recycle(buffer);
            }
        }
    }
}

impl ReadQueue<'_> {
    fn fits(&self, bytes: u64) -> bool {
        self.held + bytes <= self.window_bytes
    }

    /// Starts reads for whoever wants the next sample: with nothing started one is let in, however large.
    fn top_up_for_next(&mut self) {
        if self.started.is_empty() {
            self.start_gathered();
        }
        let must = self.started.is_empty();
        self.top_up(must);
        if self.started.is_empty() {
            self.start_gathered();
        }
    }

    /// Starts reads in plan order while they fit: the rest of files that were begun, then samples; with `must` one sample in any case.
    /// Samples that one read had better give are gathered first; the last of them wait until there is room for more, or somebody wants them.
    fn top_up(&mut self, mut must: bool) {
        loop {
            if !self.go_on_with_files() && !must {
                return;
            }
            let Some(Ok((_, sample))) = self.todo.peek() else {
                return;
            };
            let share = match sample.fields.iter().any(is_large) {
                true => 0,
                false => share(self.source, sample),
            };
            let bytes = sample_bytes(self.source, sample) + share;
            let first_piece = first_piece_bytes(self.source, sample);
            if !self.fits(bytes + first_piece) && !must {
                return;
            }
            must = false;
            let Some(Ok((shard, sample))) = self.todo.next() else {
                return;
            };
            self.held += bytes;
            self.gathered.push(Waiting {
                shard,
                sample,
                bytes,
                share,
            });
            let goes_on = match self.todo.peek() {
                Some(Ok((_, next))) => self.gathered.joins(self.source, next),
                _ => false,
            };
            if !goes_on {
                self.start_gathered();
            }
        }
    }

    /// Starts the reads of what was gathered.
    fn start_gathered(&mut self) {
        let shares: u64 = self
            .gathered
            .samples
            .iter()
            .map(|waiting| waiting.share)
            .sum();
        let (samples, together) = self.gathered.take();
        self.held -= shares - together;
        let whole: Vec<&Field> = match together {
            0 => Vec::new(),
            _ => samples
                .iter()
                .flat_map(|waiting| &waiting.sample.fields)
                .collect(),
        };
        let mut whole = self.source.start_all(&whole).into_iter();
        for waiting in samples {
            let Waiting {
                shard,
                sample,
                bytes,
                ..
            } = waiting;
            let mut reads = Vec::with_capacity(sample.fields.len());
            for (i, field) in sample.fields.iter().enumerate() {
                reads.push(match (whole.next(), is_large(field)) {
                    (Some(read), _) => Reading::Whole(read),
                    (None, false) => Reading::Whole(self.source.start(field)),
                    (None, true) => Reading::Large(self.begin(field, i == 0)),
                });
            }
            self.started.push_back(Started {
                shard,
                sample,
                reads,
                bytes,
            });
        }
    }

    /// Starts pieces of files that were begun while they fit; false if some do not.
    fn go_on_with_files(&mut self) -> bool {
        while let Some(&number) = self.begun.front() {
            match self.files.get(&number) {
                Some(file) if file.next < file.field.size => {
                    let bytes = read_bytes(self.source, &file.field, file.next_length());
                    if !self.fits(bytes) {
                        return false;
                    }
                    self.start_piece(number);
                }
                _ => _ = self.begun.pop_front(),
            }
        }
        true
    }

    /// Begins a large file, an image with its first piece, and its end if that is wanted, since its last piece may be far away.
    fn begin(&mut self, field: &Field, is_image: bool) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        let tail = (is_image && self.tails).then(|| {
            let length = TAIL_BYTES as u64;
            self.part(field, field.size - length, length)
        });
        let file = File {
            field: field.clone(),
            tail,
            pieces: VecDeque::new(),
            next: 0,
        };
        self.files.insert(number, file);
        self.begun.push_back(number);
        if is_image {
            self.start_piece(number);
        }
        number
    }

    /// Starts the next piece of a file, if there is one.
    fn start_piece(&mut self, number: u64) {
        let Some(file) = self.files.get(&number) else {
            return;
        };
        let (offset, length) = (file.next, file.next_length());
        if length == 0 {
            return;
        }
        let piece = self.part(&file.field.clone(), offset, length);
        if let Some(file) = self.files.get_mut(&number) {
            file.next += length;
            file.pieces.push_back(piece);
        }
    }

    fn part(&mut self, field: &Field, offset: u64, length: u64) -> Piece {
        let bytes = read_bytes(self.source, field, length);
        self.held += bytes;
        Piece {
            read: self.source.part(field, offset, length),
            bytes,
        }
    }

    /// The next piece of a file if its read is started.
    fn started_piece(&mut self, number: u64) -> Option<Piece> {
        self.files.get_mut(&number)?.pieces.pop_front()
    }

    /// Lets go of what a file holds that was not handed over.
    fn forget(&mut self, number: u64) {
        if let Some(file) = self.files.remove(&number) {
            self.held -= file
                .pieces
                .iter()
                .chain(&file.tail)
                .map(|piece| piece.bytes)
                .sum::<u64>();
        }
    }
}

/// A file that is too large to hold. Its reads go on ahead of whoever takes its pieces, within the window.
pub(crate) struct Large<'a> {
    ahead: Rc<RefCell<ReadQueue<'a>>>,
    number: u64,
    size: u64,
    /// Pieces that were looked at and not taken, with the memory they are counted with.
    seen: VecDeque<(Buffer, u64)>,
    /// The piece taken last.
    current: Option<(Buffer, u64)>,
    /// Bytes of it that were read by [`Read`].
    at: usize,
}

impl<'a> Large<'a> {
    fn new(ahead: &Rc<RefCell<ReadQueue<'a>>>, number: u64) -> Self {
        let size = ahead
            .borrow()
            .files
            .get(&number)
            .map(|file| file.field.size);
        Self {
            size: size.unwrap_or(0),
            ahead: Rc::clone(ahead),
            number,
            seen: VecDeque::new(),
            current: None,
            at: 0,
        }
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The first piece and the last [`TAIL_BYTES`] bytes, both still to be taken.
    ///
    /// # Errors
    ///
    /// As reading the file.
    pub(crate) fn ends(&mut self) -> Result<(&[u8], Buffer)> {
        let file = |ahead: &mut ReadQueue<'a>| ahead.files.get_mut(&self.number)?.tail.take();
        let tail = file(&mut self.ahead.borrow_mut());
        let tail = match tail {
            Some(tail) => {
                let read = tail.read.wait();
                self.ahead.borrow_mut().held -= tail.bytes;
                read?
            }
            None => Buffer::default(),
        };
        match self.peek(0)? {
            Some(head) => Ok((head, tail)),
            None => Err(Error::failed(
                "a large file was looked at after it was taken",
            )),
        }
    }

    /// The piece of this number from here, still to be taken; `None` if its read is not started, because it does not fit.
    ///
    /// # Errors
    ///
    /// As reading the file.
    pub(crate) fn peek(&mut self, piece: usize) -> Result<Option<&[u8]>> {
        while self.seen.len() <= piece {
            let started = self.ahead.borrow_mut().started_piece(self.number);
            let Some(Piece { read, bytes }) = started else {
                return Ok(None);
            };
            let buffer = self.wait(read, bytes)?;
            self.seen.push_back((buffer, bytes));
        }
        Ok(self.seen.get(piece).map(|(buffer, _)| &**buffer))
    }

    /// Reads `length` bytes at `offset`, whatever was taken.
    ///
    /// # Errors
    ///
    /// As reading the file.
    pub(crate) fn range(&self, offset: u64, length: u64) -> Result<Buffer> {
        let read = {
            let ahead = self.ahead.borrow();
            let file = ahead.files.get(&self.number);
            file.map(|file| ahead.source.part(&file.field, offset, length))
        };
        read.map_or_else(|| Ok(Buffer::default()), Pending::wait)
    }

    /// Takes the memory of a part back.
    pub(crate) fn recycle(&self, part: Buffer) {
        self.ahead.borrow().source.recycle(part);
    }

    /// Takes all of it into one piece, which whoever asks for it has memory for besides the window, and shows that.
    ///
    /// # Errors
    ///
    /// As reading the file.
    pub(crate) fn gather(&mut self) -> Result<&[u8]> {
        let mut whole = Buffer::default();
        let mut at = 0;
        let length = usize::try_from(self.size).unwrap_or(usize::MAX);
        let room = whole.room(length);
        while let Some(piece) = self.next_piece()? {
            room[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        whole.sum();
        self.seen.push_back((whole, 0));
        Ok(self.seen.back().map_or(&[], |(whole, _)| whole))
    }

    /// Waits for the next piece that was not looked at, with the memory that it is counted with; `None` at the end of the file.
    fn read_on(&mut self) -> Result<Option<(Buffer, u64)>> {
        let piece = {
            let mut ahead = self.ahead.borrow_mut();
            let file = ahead.files.get(&self.number);
            // Whoever waits gets the next piece, even if others hold all of the window.
            if file.is_some_and(|file| file.pieces.is_empty()) {
                ahead.start_piece(self.number);
            }
            ahead.top_up(false);
            ahead.started_piece(self.number)
        };
        let Some(Piece { read, bytes }) = piece else {
            return Ok(None);
        };
        self.wait(read, bytes).map(|buffer| Some((buffer, bytes)))
    }

    /// Waits for a piece; one that cannot be read is not counted any more.
    fn wait(&self, read: Pending<Buffer>, bytes: u64) -> Result<Buffer> {
        let read = read.wait();
        if read.is_err() {
            self.ahead.borrow_mut().held -= bytes;
        }
        read
    }

    /// Lets go of the piece taken last, so that the memory is there for others.
    fn let_go(&mut self) {
        if let Some((buffer, bytes)) = self.current.take() {
            let mut ahead = self.ahead.borrow_mut();
            ahead.held -= bytes;
            // What was gathered is of no use to others.
            if bytes > 0 {
                ahead.source.recycle(buffer);
            }
        }
    }
}

impl Pieces for Large<'_> {
    fn next_piece(&mut self) -> Result<Option<&Buffer>> {
        self.let_go();
        self.at = 0;
        self.current = match self.seen.pop_front() {
            Some(seen) => Some(seen),
            None => self.read_on()?,
        };
        Ok(self.current.as_ref().map(|(buffer, _)| buffer))
    }
}

impl Read for Large<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((piece, _)) = &self.current
                && self.at < piece.len()
            {
                let n = out.len().min(piece.len() - self.at);
                out[..n].copy_from_slice(&piece[self.at..self.at + n]);
                self.at += n;
                return Ok(n);
            }
            if self.next_piece().map_err(io::Error::other)?.is_none() {
                return Ok(0);
            }
        }
    }
}

impl Drop for Large<'_> {
    fn drop(&mut self) {
        self.let_go();
        let mut ahead = self.ahead.borrow_mut();
        ahead.held -= self.seen.drain(..).map(|(_, bytes)| bytes).sum::<u64>();
        ahead.forget(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::reactor::promise;
    use crate::model::listing::Listing;
    use crate::model::sample::{FilePath, Version};
    use std::fmt;
    use std::sync::Mutex;

    const MIB: u64 = 1 << 20;
    /// What a started read takes in the fake source besides its content.
    const STARTED: u64 = 300;

    /// What was asked of a source.
    #[derive(Default)]
    struct Asked {
        reads: usize,
        /// Bytes that it gives in one read.
        together: u64,
        /// How many reads were started at once, each time.
        at_once: Vec<usize>,
        parts: Vec<(String, u64, u64)>,
        /// Bytes of contents that were not given back.
        out: u64,
        most_out: u64,
    }

    /// A source whose reads end at once, of any files: the content of each is [`bytes`].
    #[derive(Default)]
    struct Fake(Mutex<Asked>);

    impl Fake {
        fn asked(&self) -> std::sync::MutexGuard<'_, Asked> {
            self.0.lock().unwrap()
        }
    }

    /// The bytes of every file from `offset`.
    fn bytes(offset: u64, length: u64) -> Vec<u8> {
        let pattern: Vec<u8> = (0..251).collect();
        let from = (offset % 251) as usize;
        let mut bytes = pattern.repeat((length / 251) as usize + 3);
        bytes.drain(..from);
        bytes.truncate(length as usize);
        bytes
    }

    impl fmt::Display for Fake {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("fake")
        }
    }

    impl Source for Fake {
        fn list(&self) -> Result<Listing> {
            Ok(Listing::default())
        }

        fn start(&self, field: &Field) -> Pending<Buffer> {
            self.part(field, 0, field.size)
        }

        fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer> {
            let mut asked = self.asked();
            asked.reads += 1;
            asked.parts.push((field.path.to_string(), offset, length));
            asked.out += length;
            asked.most_out = asked.most_out.max(asked.out);
            let (promise, pending) = promise();
            let mut buffer = Buffer::default();
            buffer
                .room(length as usize)
                .copy_from_slice(&bytes(offset, length));
            buffer.sum();
            assert!(promise.send(Ok(buffer)).is_ok());
            pending
        }

        fn started_bytes(&self, _: &Field) -> u64 {
            STARTED
        }

        fn start_all(&self, fields: &[&Field]) -> Vec<Pending<Buffer>> {
            if !fields.is_empty() {
                self.asked().at_once.push(fields.len());
            }
            fields.iter().map(|field| self.start(field)).collect()
        }

        /// Files of the same ten samples do.
        fn adjoins(&self, field: &Field, next: &Field) -> bool {
            let ten = |field: &Field| {
                let path = field.path.to_string();
                path[2..].split('.').next().unwrap().parse::<u64>().unwrap() / 10
            };
            ten(field) == ten(next)
        }

        fn share_bytes(&self, field: &Field) -> u64 {
            match self.together_bytes() {
                0 => 0,
                _ => field.size + 100,
            }
        }

        fn together_bytes(&self) -> u64 {
            self.asked().together
        }

        fn recycle(&self, buffer: Buffer) {
            self.asked().out -= buffer.len() as u64;
        }

        fn lend(&self, _: usize) {}

        fn reads(&self) -> usize {
            1
        }

        fn overhead_bytes(&self) -> u64 {
            0
        }

        fn window_bytes(&self) -> u64 {
            0
        }
    }

    fn field(name: &str, path: String, size: u64) -> Field {
        Field {
            name: name.to_owned(),
            path: FilePath::below(b"", path.as_bytes()),
            size,
            version: Version::Mtime(0),
            content: None,
        }
    }

    /// So many samples, each with files of these sizes.
    fn samples(count: usize, sizes: &[u64]) -> Vec<Result<(usize, Sample)>> {
        let sample = |number: usize| {
            let names = ["jpg", "a", "b"];
            let fields = names.iter().zip(sizes);
            let fields =
                fields.map(|(name, &size)| field(name, format!("c/{number}.{name}"), size));
            Sample {
                key: format!("c/{number}"),
                label: Some(0),
                fields: fields.collect(),
            }
        };
        (0..count).map(|number| Ok((0, sample(number)))).collect()
    }

    fn ahead(source: &Fake, samples: Vec<Result<(usize, Sample)>>, window: u64) -> Lookahead<'_> {
        Lookahead::new(source, samples.into_iter(), window).with_tails(true)
    }

    fn held(ahead: &Lookahead<'_>) -> u64 {
        ahead.0.borrow().held
    }

    /// All of a large file, taken piece by piece.
    fn all(large: &mut Large<'_>) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = large.next_piece().unwrap() {
            assert_eq!(piece.crc32, crc32fast::hash(piece));
            all.extend_from_slice(piece);
        }
        all
    }

    #[test]
    fn of_tiny_files_names_and_tasks_count_too() {
        let source = Fake::default();
        let mut ahead = ahead(&source, samples(100_000, &[69]), MIB);
        let first = ahead.fetch().unwrap().unwrap();
        let started = source.asked().reads as u64;
        let least = STARTED + first.sample.heap_bytes() + size_of::<Started>() as u64 + 69;
        assert!(started * least <= MIB, "{started} reads are started");
        assert!(
            started * least * 3 > MIB,
            "only {started} reads are started"
        );
        assert!(held(&ahead) <= MIB);
        ahead.recycle(first.contents);
        let mut left = 99_999;
        while let Some(fetched) = ahead.fetch() {
            ahead.recycle(fetched.unwrap().contents);
            assert!(held(&ahead) <= MIB);
            left -= 1;
        }
        assert_eq!((left, held(&ahead), source.asked().out), (0, 0, 0));
    }

    #[test]
    fn files_that_lie_side_by_side_are_read_together_within_the_window() {
        let source = Fake::default();
        source.asked().together = MIB;
        let mut ahead = ahead(&source, samples(95, &[2000, 30]), MIB);
        let mut keys = Vec::new();
        while let Some(fetched) = ahead.fetch() {
            let fetched = fetched.unwrap();
            for (content, field) in fetched.contents.iter().zip(&fetched.sample.fields) {
                let Ok(Content::Held(buffer)) = content else {
                    panic!("not held")
                };
                assert_eq!(**buffer, bytes(0, field.size));
            }
            keys.push(fetched.sample.key);
            ahead.recycle(fetched.contents);
            assert!(held(&ahead) <= MIB);
        }
        assert_eq!((keys.len(), held(&ahead), source.asked().out), (95, 0, 0));
        let at_once = source.asked().at_once.clone();
        assert_eq!(at_once, [[20; 9].as_slice(), &[10]].concat());
    }

    #[test]
    fn a_small_window_reads_less_together_and_a_sample_that_fills_it_alone() {
        let source = Fake::default();
        source.asked().together = MIB;
        let mut ahead = ahead(&source, samples(40, &[10_000]), 400_000);
        while let Some(fetched) = ahead.fetch() {
            ahead.recycle(fetched.unwrap().contents);
            assert!(held(&ahead) <= 400_000);
        }
        let at_once = source.asked().at_once.clone();
        assert_eq!(at_once, [2; 20]);
        source.asked().at_once.clear();
        let mut ahead = self::ahead(&source, samples(5, &[10_000]), 1);
        while let Some(fetched) = ahead.fetch() {
            ahead.recycle(fetched.unwrap().contents);
        }
        assert_eq!((held(&ahead), source.asked().reads), (0, 45));
        assert!(source.asked().at_once.is_empty());
    }

    #[test]
    fn large_files_are_read_ahead_like_all_others() {
        let source = Fake::default();
        let size = 9 * MIB + 5;
        let mut ahead = ahead(&source, samples(12, &[size, 10]), 64 * MIB);
        for number in 0..12 {
            let mut fetched = ahead.fetch().unwrap().unwrap();
            if number == 0 {
                // As many files as fit: three pieces, an end and a small file each.
                assert!((6 * 5 - 1..=7 * 5).contains(&source.asked().reads));
            }
            let Ok(Content::Large(large)) = &mut fetched.contents[0] else {
                panic!("held")
            };
            let (head, tail) = large.ends().unwrap();
            assert_eq!(head, bytes(0, PIECE_BYTES));
            assert_eq!(&*tail, bytes(size - TAIL_BYTES as u64, TAIL_BYTES as u64));
            source.recycle(tail);
            assert_eq!(all(large), bytes(0, size), "looking took nothing away");
            ahead.recycle(fetched.contents);
        }
        assert!(ahead.fetch().is_none());
        let asked = source.asked();
        assert_eq!(
            (asked.reads, asked.out),
            (12 * 5, 0),
            "nothing is read twice"
        );
        assert!(asked.most_out <= 64 * MIB);
    }

    #[test]
    fn a_file_larger_than_the_window_passes_through_it_and_the_next_begins_before_its_end() {
        let source = Fake::default();
        let size = 50 * MIB;
        let window = 13 * MIB;
        let mut ahead = ahead(&source, samples(2, &[size]), window);
        let mut fetched = ahead.fetch().unwrap().unwrap();
        assert_eq!(source.asked().reads, 4, "three pieces and the end");
        let Ok(Content::Large(large)) = &mut fetched.contents[0] else {
            panic!("held")
        };
        assert_eq!(all(large), bytes(0, size));
        let second = |asked: &Asked| asked.parts.iter().any(|(path, ..)| path == "c/1.jpg");
        assert!(second(&source.asked()));
        assert!(source.asked().most_out <= window);
        drop(fetched);
        let mut fetched = ahead.fetch().unwrap().unwrap();
        // Given up in the middle, it holds nothing any more.
        if let Ok(Content::Large(large)) = &mut fetched.contents[0] {
            large.next_piece().unwrap();
        }
        drop(fetched);
        assert!(ahead.fetch().is_none());
        assert_eq!(held(&ahead), 0);
    }

    #[test]
    fn large_files_of_one_sample_may_be_taken_in_any_order_through_any_window() {
        for window in [0, 5 * MIB, 100 * MIB] {
            let source = Fake::default();
            let sizes = [9 * MIB, 10, 13 * MIB];
            let mut ahead = ahead(&source, samples(2, &sizes), window);
            while let Some(fetched) = ahead.fetch() {
                let mut contents = fetched.unwrap().contents;
                for i in [2, 0] {
                    let Ok(Content::Large(large)) = &mut contents[i] else {
                        panic!("held")
                    };
                    assert_eq!(all(large), bytes(0, sizes[i]));
                }
                ahead.recycle(contents);
            }
            assert_eq!(held(&ahead), 0);
        }
    }

    #[test]
    fn what_is_gathered_is_the_file() {
        let source = Fake::default();
        let mut ahead = ahead(&source, samples(1, &[21 * MIB]), 8 * MIB);
        let mut fetched = ahead.fetch().unwrap().unwrap();
        let Ok(Content::Large(large)) = &mut fetched.contents[0] else {
            panic!("held")
        };
        assert_eq!(large.gather().unwrap(), bytes(0, 21 * MIB));
        assert_eq!(all(large), bytes(0, 21 * MIB));
    }
}
