//! Listing: each directory on its own, many at once, and one that is wide in several ranges, so that nothing is a long chain of pages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::types::EncodingType;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::base::error::{Error, Kind, Result};
use crate::base::text::show;
use crate::model::listing::{Dir, Listing, Problem, ProblemKind, is_hidden};
use crate::model::sample::{SourcePath, Version};
use crate::store::s3::connection::Connection;
use crate::store::s3::location::Location;
use crate::store::s3::spread::{Answer, Spread, Start};
use crate::store::s3::trouble::RequestError;

/// Lists at once, of directories and of ranges of one.
const LISTERS: usize = 64;
/// Ranges of one directory that are listed at once.
const RANGES: usize = 32;
/// The permission that listing needs.
pub(super) const ACTION: &str = "s3:ListBucket";

/// An object as a listing shows it.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) tag: String,
    /// Time since it was written, by the server's clock; zero where the server does not say.
    pub(super) age: Duration,
}

/// One page: keys, and the directories below.
pub(super) struct Page {
    pub(super) keys: Vec<Key>,
    pub(super) below: Vec<String>,
    next: Option<String>,
}

/// What lies directly in one directory.
struct Listed {
    dir: Dir,
    below: Vec<String>,
    hidden: u64,
    problems: Vec<Problem>,
}

/// Lists everything below the location.
pub(super) async fn tree(connection: &Arc<Connection>, location: &Location) -> Result<Listing> {
    let places = Arc::new(Semaphore::new(LISTERS));
    let mut tasks = JoinSet::new();
    let enter = |tasks: &mut JoinSet<_>, path: String| {
        let (connection, location) = (Arc::clone(connection), location.clone());
        let places = Arc::clone(&places);
        tasks.spawn(async move {
            let _place = Arc::clone(&places).acquire_owned().await;
            directory(&connection, &location, path, &places).await
        });
    };
    let mut listing = Listing::default();
    enter(&mut tasks, String::new());
    while let Some(listed) = tasks.join_next().await {
        let listed = listed.map_err(|error| Error::failed(format!("{location}: {error}")))??;
        listing.hidden += listed.hidden;
        listing.problems.extend(listed.problems);
        for path in listed.below {
            enter(&mut tasks, path);
        }
        listing.dirs.push(listed.dir);
    }
    listing.dirs.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

/// Lists one directory; `path` is empty or without a slash at its end.
async fn directory(
    connection: &Arc<Connection>,
    location: &Location,
    path: String,
    places: &Arc<Semaphore>,
) -> Result<Listed> {
    let slash = if path.is_empty() { "" } else { "/" };
    let prefix = location.key(&format!("{path}{slash}"));
    let empty = || Listed {
        dir: Dir::new(path.as_bytes()),
        below: Vec::new(),
        hidden: 0,
        problems: Vec::new(),
    };
    let take = |listed: &mut Listed, page| listed.take(page, location, &path, &prefix);
    let wanted = Wanted {
        connection,
        location,
        prefix: &prefix,
        delimiter: Some("/"),
        places,
    };
    let mut listed = wanted.all(empty, take).await?;
    listed.dir.shrink();
    Ok(listed)
}

impl Listed {
    /// Adds a page of what lies in the directory `path`.
    fn take(&mut self, page: Page, location: &Location, path: &str, prefix: &str) -> Result<()> {
        let slash = if path.is_empty() { "" } else { "/" };
        for Key {
            name, size, tag, ..
        } in page.keys
        {
            let name = name.strip_prefix(prefix).unwrap_or_default();
            // The object that some tools make for a directory.
            if name.is_empty() {
                continue;
            }
            if is_hidden(name.as_bytes()) {
                self.hidden += 1;
            } else if !self.dir.push(name.as_bytes(), size, &Version::ETag(tag)) {
                return Err(Error::failed(format!(
                    "{location}: more than 4 GiB of names in {}: spread the objects over several prefixes",
                    show(prefix.as_bytes())
                )));
            }
        }
        for below in page.below {
            let name = below.strip_prefix(prefix).unwrap_or_default();
            let name = name.strip_suffix('/').unwrap_or(name);
            if name.is_empty() {
                let path = SourcePath::new(format!("{path}{slash}/"));
                let what = " is a key with an empty directory name";
                self.problems
                    .push(Problem::new(ProblemKind::Special, path, what));
            } else if is_hidden(name.as_bytes()) {
                self.hidden += 1;
            } else {
                self.below.push(format!("{path}{slash}{name}"));
            }
        }
        Ok(())
    }
}

/// All keys with a prefix, sorted.
pub(super) async fn flat(
    connection: &Arc<Connection>,
    location: &Location,
    prefix: &str,
) -> Result<Vec<Key>> {
    let wanted = Wanted {
        connection,
        location,
        prefix,
        delimiter: None,
        places: &Arc::new(Semaphore::new(LISTERS)),
    };
    let take = |keys: &mut Vec<Key>, mut page: Page| {
        keys.append(&mut page.keys);
        Ok(())
    };
    let mut keys = wanted.all(Vec::new, take).await?;
    keys.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(keys)
}

/// A prefix to be listed.
struct Wanted<'a> {
    connection: &'a Arc<Connection>,
    location: &'a Location,
    prefix: &'a str,
    delimiter: Option<&'static str>,
    /// Lists at once, of all that is listed.
    places: &'a Arc<Semaphore>,
}

impl Wanted<'_> {
    /// Lists all of it into what `empty` gives, page by page in any order; anew and as one list where the server's order does not allow more.
    async fn all<T>(
        &self,
        empty: impl Fn() -> T,
        take: impl Fn(&mut T, Page) -> Result<()>,
    ) -> Result<T> {
        let mut all = empty();
        match self
            .pages(Spread::new(), |page| take(&mut all, page))
            .await?
        {
            Told::All => Ok(all),
            Told::Part => {
                let mut all = empty();
                self.pages(Spread::whole(), |page| take(&mut all, page))
                    .await?;
                Ok(all)
            }
        }
    }

    async fn pages(
        &self,
        mut spread: Spread,
        mut take: impl FnMut(Page) -> Result<()>,
    ) -> Result<Told> {
        let mut tasks = JoinSet::new();
        // Of each range but the first.
        let mut held = HashMap::new();
        loop {
            while let Some((number, start)) = spread.go_on() {
                self.ask(&mut tasks, number, start);
            }
            while tasks.len() < RANGES
                && let Ok(place) = Arc::clone(self.places).try_acquire_owned()
                && let Some((number, start)) = spread.split()
            {
                held.insert(number, place);
                self.ask(&mut tasks, number, start);
            }
            let Some(done) = tasks.join_next().await else {
                return Ok(Told::All);
            };
            let (number, page) =
                done.map_err(|error| Error::failed(format!("{}: {error}", self.location)))?;
            let mut page = match page {
                // A server that cannot begin anywhere says so in its own way; an outage would be none of that.
                Err(error) if spread.is_new(number) && error.kind() != Kind::Transient => {
                    return Ok(Told::Part);
                }
                page => page?,
            };
            let names = page.names(self.prefix);
            let answer = spread.answered(number, &names, page.next.as_deref());
            if spread.is_done(number) {
                held.remove(&number);
            }
            match answer {
                Answer::Take(None) => {}
                Answer::Take(Some(until)) => page.cut(self.prefix, &until),
                Answer::Anew => return Ok(Told::Part),
            }
            take(page)?;
        }
    }

    /// Asks for one page of a range.
    fn ask(&self, tasks: &mut JoinSet<(usize, Result<Page>)>, number: usize, start: Start) {
        let (connection, location) = (Arc::clone(self.connection), self.location.clone());
        let (prefix, delimiter) = (self.prefix.to_owned(), self.delimiter);
        tasks.spawn(async move {
            let start = match start {
                Start::After(name) => Start::After(format!("{prefix}{name}")),
                start => start,
            };
            let page = page(&connection, &location, &prefix, delimiter, start, None);
            (number, page.await)
        });
    }
}

/// Whether all pages were told, or they have to be told anew.
enum Told {
    All,
    Part,
}

impl Page {
    /// All names in their order, without the prefix.
    fn names<'p>(&'p self, prefix: &str) -> Vec<&'p str> {
        let rest = |name: &'p str| name.strip_prefix(prefix).unwrap_or(name);
        let keys = self.keys.iter().map(|key| rest(&key.name));
        let mut names: Vec<&str> = keys.collect();
        if !self.below.is_empty() {
            let are_sorted = names.is_sorted();
            names.extend(self.below.iter().map(|below| rest(below)));
            // Keys and directories come each in their order.
            if are_sorted && self.below.is_sorted() {
                names.sort_unstable();
            }
        }
        names
    }

    /// Leaves out what comes after a name.
    fn cut(&mut self, prefix: &str, until: &str) {
        let stays = |name: &str| name.strip_prefix(prefix).unwrap_or(name) <= until;
        self.keys.retain(|key| stays(&key.name));
        self.below.retain(|below| stays(below));
    }
}

/// One page of a listing; a name to begin after is a whole key.
pub(super) async fn page(
    connection: &Connection,
    location: &Location,
    prefix: &str,
    delimiter: Option<&str>,
    start: Start,
    most: Option<i32>,
) -> Result<Page> {
    let (after, next) = match start {
        Start::First => (None, None),
        Start::After(name) => (Some(name), None),
        Start::GoOn(mark) => (None, Some(mark)),
    };
    let call = connection.call(ACTION, location.object(prefix));
    let answer = connection.attempt(&call, || async {
        let request = connection
            .client
            .list_objects_v2()
            .bucket(&location.bucket)
            .prefix(prefix)
            .set_delimiter(delimiter.map(str::to_owned))
            .set_start_after(after.clone())
            .set_continuation_token(next.clone())
            .set_max_keys(most)
            .encoding_type(EncodingType::Url)
            .set_request_payer(connection.payer());
        request.send().await.map_err(RequestError::from)
    });
    let answer = answer
        .await
        .map_err(|trouble| connection.explain(&call, &trouble))?;
    connection.counters.listed(answer.contents().len() as u64);
    // A server that does not know the encoding leaves the names as they are.
    let encoded = answer.encoding_type().is_some();
    let name = |text: &str| match encoded {
        true => decode(text),
        false => text.to_owned(),
    };
    let keys = answer.contents().iter().map(|object| {
        let tag = object.e_tag().unwrap_or_default().trim_matches('"');
        let size = u64::try_from(object.size().unwrap_or(0)).unwrap_or(0);
        let age = object
            .last_modified()
            .map(|written| connection.clock.since(written));
        Key {
            name: name(object.key().unwrap_or_default()),
            size,
            tag: tag.to_owned(),
            age: age.unwrap_or_default(),
        }
    });
    let below = answer.common_prefixes().iter().filter_map(|p| p.prefix());
    let more = answer.is_truncated() == Some(true);
    let token = answer.next_continuation_token();
    if more && token.is_none() {
        return Err(Error::failed(format!(
            "{}: the server says there is more but not how to go on: it does not speak ListObjectsV2",
            call.object
        )));
    }
    Ok(Page {
        keys: keys.collect(),
        below: below.map(name).collect(),
        next: token.filter(|_| more).map(str::to_owned),
    })
}

/// Undoes the URL encoding of a key; `+` is a space, as in forms.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text
            .get(at + 1..at + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (b'+', _) => {
                out.push(b' ');
                at += 1;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_names_are_decoded() {
        for (text, name) in [
            ("a/b.jpg", "a/b.jpg"),
            ("a%20b+c%2Bd", "a b c+d"),
            ("%C3%A4%0A", "ä\n"),
            ("100%", "100%"),
            ("%zz", "%zz"),
            ("%é1", "%é1"),
        ] {
            assert_eq!(decode(text), name);
        }
    }
}
