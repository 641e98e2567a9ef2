//! Names that no other process gives, on whatever machine and in whatever container: 128 bits from the system.
//!
//! What else could tell two processes apart need not: containers on one volume have equal process ids, and machines that were
//! started from one image have an equal start.

use std::io::{self, ErrorKind};

/// Names tried before giving up: two that are taken by chance never happen, so the system's bits are not random.
const TRIES: usize = 16;

/// Makes something under a name that nothing has: `make` gets 32 hexadecimal digits to build its name from, and others each
/// time it says [`ErrorKind::AlreadyExists`]. Any other error is the caller's.
pub(crate) fn make<T>(make: impl FnMut(&str) -> io::Result<T>) -> io::Result<T> {
    make_of(random, make)
}

fn make_of<T>(
    mut digits: impl FnMut() -> io::Result<String>,
    mut make: impl FnMut(&str) -> io::Result<T>,
) -> io::Result<T> {
    let mut tried = 1;
    loop {
        match make(&digits()?) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tried < TRIES => tried += 1,
            made => return made,
        }
    }
}

fn random() -> io::Result<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(error.to_string()),
    })?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn a_name_that_is_taken_is_left_alone_and_another_is_tried() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("one"), "theirs").unwrap();
        let mut names = ["one", "one", "two"].map(str::to_owned).into_iter();
        let make = |name: &str| File::create_new(dir.path().join(name));
        make_of(|| Ok(names.next().unwrap()), make).unwrap();
        assert_eq!(fs::read(dir.path().join("one")).unwrap(), b"theirs");
        assert_eq!(fs::read(dir.path().join("two")).unwrap(), b"");
    }

    #[test]
    fn bits_that_never_change_and_other_errors_end() {
        let (mut made, mut asked) = (0, 0);
        let taken = make_of(
            || Ok(String::from("one")),
            |_| {
                made += 1;
                Err::<(), _>(ErrorKind::AlreadyExists.into())
            },
        );
        assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(made, TRIES);
        let refused = make(|_| {
            asked += 1;
            Err::<(), _>(ErrorKind::StorageFull.into())
        });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(asked, 1);
    }

    #[test]
    fn names_are_32_digits_and_never_the_same() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let name = random().unwrap();
            assert!(name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit()));
            assert!(seen.insert(name));
        }
    }
}
