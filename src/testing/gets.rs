//! What getting objects costs when nothing is done with them: a contender of `make bench`.
//!
//! `AWS_ENDPOINT_URL` and the rest of the environment say where `s3://bucket/images` is; `GETS_AT_ONCE` how many are asked for at once.

use std::collections::VecDeque;
use std::env;

use crate::model::listing::Dir;
use crate::model::sample::Field;
use crate::store::{self, Access};

#[test]
#[ignore = "needs a server: BENCH_UNITS=… make bench"]
fn what_getting_objects_costs() {
    let at_once = env::var("GETS_AT_ONCE").map_or(128, |text| text.parse().unwrap());
    let access = Access {
        reads: Some(at_once),
        open_files: at_once,
        memory: 1 << 30,
        ..Access::default()
    };
    let source = store::source("s3://bucket/images", &access).unwrap();
    let listing = source.list().unwrap();
    let field = |dir: &Dir, i: usize| Field {
        name: "jpg".to_owned(),
        path: dir.path_of(i),
        size: dir.file(i).size,
        version: dir.file(i).version(),
        content: None,
    };
    let fields: Vec<Field> = (listing.dirs.iter())
        .flat_map(|dir| (0..dir.len()).map(move |i| field(dir, i)))
        .collect();
    let mut started = VecDeque::new();
    let (mut bytes, mut next) = (0, fields.iter());
    loop {
        while started.len() < at_once * 2
            && let Some(field) = next.next()
        {
            started.push_back(source.start(field));
        }
        let Some(pending) = started.pop_front() else {
            break;
        };
        let buffer = pending.wait().unwrap();
        bytes += buffer.len();
        source.recycle(buffer);
    }
    println!("{} objects, {bytes} bytes", fields.len());
}
