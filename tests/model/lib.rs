//! The modules of the seam, as they are, over locks and threads that `shuttle` schedules. What they import besides is here as small as it
//! can be: a file of more than 40 bytes is large, and read in pieces of so many.

#![allow(dead_code)]

#[path = "../../src/store/s3/link.rs"]
mod link;
#[path = "../../src/store/s3/pace.rs"]
mod pace;

mod base;
mod pack;
pub mod schedules;

mod model {
    pub mod sample {
        /// A file: its number, and its length in bytes.
        #[derive(Clone, Debug)]
        pub struct Field {
            pub number: usize,
            pub size: u64,
            /// None: all of them lie in files.
            pub content: Option<()>,
        }

        #[derive(Clone, Debug)]
        pub struct Sample {
            pub fields: Vec<Field>,
        }

        impl Sample {
            pub fn image(&self) -> Option<&Field> {
                self.fields.first()
            }

            pub fn heap_bytes(&self) -> u64 {
                0
            }
        }
    }

    pub mod counters {
        #[derive(Default)]
        pub struct Counters;

        impl Counters {
            pub fn reads_allowed(&self, _: usize) {}
        }
    }
}

mod store {
    use crate::base::buffer::Buffer;
    use crate::base::reactor::Pending;
    use crate::model::sample::Field;

    /// What a lookahead asks of a source.
    pub trait Source {
        fn start(&self, field: &Field) -> Pending<Buffer>;
        fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer>;
        fn started_bytes(&self, field: &Field) -> u64;
        fn recycle(&self, buffer: Buffer);

        fn start_all(&self, fields: &[&Field]) -> Vec<Pending<Buffer>> {
            fields.iter().map(|field| self.start(field)).collect()
        }

        /// Two and two, where any are read together.
        fn adjoins(&self, field: &Field, next: &Field) -> bool {
            field.number / 2 == next.number / 2
        }

        fn share_bytes(&self, field: &Field) -> u64 {
            field.size.min(self.together_bytes())
        }

        fn together_bytes(&self) -> u64 {
            0
        }
    }
}

/// A pace, which only the S3 store sees.
#[derive(Clone)]
pub struct Pace(base::sync::Arc<pace::Pace>);

impl Pace {
    pub fn new(most: usize) -> Self {
        Self(pace::Pace::new(most))
    }

    pub fn limit(&self) -> usize {
        self.0.limit()
    }

    /// A read's place, which is given back when it is dropped.
    pub async fn place(&self) -> impl Sized + use<> {
        self.0.place().await
    }

    pub fn push_back(&self) {
        self.0.push_back(None);
    }

    pub fn tick(&self) {
        self.0.tick();
    }
}

/// The bytes on their way to or from a server, which only the S3 store sees.
#[derive(Clone)]
pub struct Link(base::sync::Arc<link::Link>);

/// A request's part of it.
pub struct Share(link::Share);

impl Link {
    pub fn new(first: u64) -> Self {
        Self(link::Link::new(first, base::sync::Duration::from_secs(8)))
    }

    pub async fn share(&self, bytes: u64) -> Share {
        Share(self.0.share(bytes).await)
    }
}

impl Share {
    pub fn done(&self) {
        self.0.done();
    }

    pub fn timed_out(&self) {
        self.0.timed_out();
    }
}
