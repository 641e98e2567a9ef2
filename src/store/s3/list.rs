//! Listing: each directory on its own, many at once, so that a tree of classes is no chain of pages.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::types::EncodingType;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::base::error::{Error, Result};
use crate::base::text::show;
use crate::model::listing::{Dir, Listing, Problem, ProblemKind, is_hidden};
use crate::model::sample::{SourcePath, Version};
use crate::store::s3::connection::Connection;
use crate::store::s3::location::Location;
use crate::store::s3::trouble::RequestError;

/// Directories listed at once.
const LISTERS: usize = 64;
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
            let _place = places.acquire_owned().await;
            directory(&connection, &location, path).await
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
async fn directory(connection: &Connection, location: &Location, path: String) -> Result<Listed> {
    let slash = if path.is_empty() { "" } else { "/" };
    let prefix = location.key(&format!("{path}{slash}"));
    let mut listed = Listed {
        dir: Dir::new(path.as_bytes()),
        below: Vec::new(),
        hidden: 0,
        problems: Vec::new(),
    };
    let mut next = None;
    loop {
        let page = page(connection, location, &prefix, Some("/"), next, None).await?;
        for Key {
            name, size, tag, ..
        } in page.keys
        {
            let name = name.strip_prefix(&prefix).unwrap_or_default();
            // The object that some tools make for a directory.
            if name.is_empty() {
                continue;
            }
            if is_hidden(name.as_bytes()) {
                listed.hidden += 1;
            } else if !listed.dir.push(name.as_bytes(), size, &Version::ETag(tag)) {
                return Err(Error::failed(format!(
                    "{location}: more than 4 GiB of names in {}: spread the objects over several prefixes",
                    show(prefix.as_bytes())
                )));
            }
        }
        for below in page.below {
            let name = below.strip_prefix(&prefix).unwrap_or_default();
            let name = name.strip_suffix('/').unwrap_or(name);
            if name.is_empty() {
                let path = SourcePath::new(format!("{path}{slash}/"));
                let what = " is a key with an empty directory name";
                listed
                    .problems
                    .push(Problem::new(ProblemKind::Special, path, what));
            } else if is_hidden(name.as_bytes()) {
                listed.hidden += 1;
            } else {
                listed.below.push(format!("{path}{slash}{name}"));
            }
        }
        next = page.next;
        if next.is_none() {
            listed.dir.shrink();
            return Ok(listed);
        }
    }
}

/// All keys with a prefix, in the order of the server.
pub(super) async fn flat(
    connection: &Connection,
    location: &Location,
    prefix: &str,
) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    let mut next = None;
    loop {
        let mut page = page(connection, location, prefix, None, next, None).await?;
        keys.append(&mut page.keys);
        next = page.next;
        if next.is_none() {
            return Ok(keys);
        }
    }
}

/// One page of a listing.
pub(super) async fn page(
    connection: &Connection,
    location: &Location,
    prefix: &str,
    delimiter: Option<&str>,
    next: Option<String>,
    most: Option<i32>,
) -> Result<Page> {
    let call = connection.call(ACTION, location.object(prefix));
    let answer = connection.attempt(&call, || async {
        let request = connection
            .client
            .list_objects_v2()
            .bucket(&location.bucket)
            .prefix(prefix)
            .set_delimiter(delimiter.map(str::to_owned))
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
