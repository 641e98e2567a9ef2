//! Multipart uploads that were begun below a prefix and neither completed nor given up.

use std::time::Duration;

use crate::base::error::{Error, Result};
use crate::store::Leftover;
use crate::store::s3::connection::Connection;
use crate::store::s3::location::Location;
use crate::store::s3::trouble::RequestError;

/// Multipart uploads below the prefix that nobody has completed.
pub(super) async fn unfinished_uploads(
    connection: &Connection,
    location: &Location,
) -> Result<Vec<Leftover>> {
    let call = connection.call("s3:ListBucketMultipartUploads", location.to_string());
    let mut found = Vec::new();
    let (mut key, mut id) = (None, None);
    loop {
        let answer = connection.attempt(&call, || async {
            let request = connection
                .client
                .list_multipart_uploads()
                .bucket(&location.bucket)
                .prefix(&location.prefix)
                .set_key_marker(key.clone())
                .set_upload_id_marker(id.clone())
                .set_request_payer(connection.payer());
            request.send().await.map_err(RequestError::from)
        });
        let page = match answer.await {
            Err(trouble) if trouble.is_unknown_request() => {
                return Err(Error::failed(format!(
                    "{}: this server does not list multipart uploads: see its documentation for how it removes stale ones",
                    location
                )));
            }
            answer => answer.map_err(|trouble| connection.explain(&call, &trouble))?,
        };
        for upload in page.uploads() {
            let (Some(key), Some(id)) = (upload.key(), upload.upload_id()) else {
                continue;
            };
            let Some(name) = key.strip_prefix(&location.prefix) else {
                continue;
            };
            let age = upload
                .initiated()
                .map_or(Duration::ZERO, |begun| connection.clock.since(begun));
            found.push(Leftover {
                name: name.to_owned(),
                what: "unfinished multipart upload",
                bytes: None,
                age,
                id: id.to_owned(),
                ours: false,
            });
        }
        let more = page.is_truncated() == Some(true);
        (key, id) = (
            page.next_key_marker().map(str::to_owned),
            page.next_upload_id_marker().map(str::to_owned),
        );
        if !more || key.is_none() {
            return Ok(found);
        }
    }
}
