//! What the user says about S3: which server, as whom, how objects are written, and how patient to be.

use std::time::Duration;

/// What the user says about S3.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// Server to use instead of AWS.
    pub endpoint_url: Option<String>,
    /// Region of the buckets.
    pub region: Option<String>,
    /// Profile of the shared configuration files.
    pub profile: Option<String>,
    /// Whether requests are sent without credentials.
    pub no_sign_request: bool,
    /// Whether whoever asks pays.
    pub request_payer: bool,
    /// Storage class of shards.
    pub storage_class: Option<String>,
    /// Server-side encryption.
    pub sse: Option<String>,
    /// Key of the server-side encryption.
    pub sse_kms_key_id: Option<String>,
    /// Tags of every object written, as a URL query.
    pub tagging: Option<String>,
    /// Bucket in the path instead of the host name; chosen by the endpoint when nothing is said.
    pub path_style: Option<bool>,
    /// The user knows that nobody else writes: do without conditional writes.
    pub no_conditional_put: bool,
    /// Longest time without any progress of a request.
    pub request_timeout: Duration,
    /// How long a request that may succeed later is made again; before the server ever answered no longer than twice
    /// `request_timeout`.
    pub retry_for: Duration,
}

impl Default for S3Options {
    fn default() -> Self {
        Self {
            endpoint_url: None,
            region: None,
            profile: None,
            no_sign_request: false,
            request_payer: false,
            storage_class: None,
            sse: None,
            sse_kms_key_id: None,
            tagging: None,
            path_style: None,
            no_conditional_put: false,
            request_timeout: Duration::from_secs(30),
            retry_for: Duration::from_secs(180),
        }
    }
}
