//! Where a bucket's objects are: the client library's rules about hosts, paths and regions, asked once a bucket.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use aws_sdk_s3::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use http::Uri;
use http::header::HeaderValue;

use super::dial::Dialer;
use super::route::Route;
use super::sign::Scope;
use crate::store::s3::location::encode_key;
use crate::store::s3::trouble::{Cause, RequestError};

/// The signature that is known here.
const SIGV4: &str = "sigv4";

/// What decides where a bucket is besides its name.
pub(in crate::store::s3) struct Rules {
    pub(in crate::store::s3) region: String,
    /// The server's URL, if it is not AWS's own.
    pub(in crate::store::s3) endpoint: Option<String>,
    pub(in crate::store::s3) path_style: bool,
    pub(in crate::store::s3) fips: bool,
    pub(in crate::store::s3) dual_stack: bool,
}

/// Where a bucket is.
pub(super) struct Place {
    pub(super) route: Arc<Route>,
    pub(super) host: HeaderValue,
    pub(super) scope: Scope,
    /// The URL of the bucket, without a slash at its end.
    url: String,
    /// Bytes of it before the path.
    origin: usize,
}

impl Place {
    /// The URL of an object.
    pub(super) fn url(&self, key: &str) -> String {
        let mut url = String::with_capacity(self.url.len() + 1 + key.len() + 16);
        url.push_str(&self.url);
        url.push('/');
        encode_key(key, &mut url);
        url
    }

    /// What of such a URL its server is told.
    pub(super) fn below<'a>(&self, url: &'a str) -> &'a str {
        &url[self.origin..]
    }
}

/// The buckets that were asked for so far.
pub(super) struct Places {
    rules: Rules,
    dialer: Arc<Dialer>,
    known: RwLock<HashMap<String, Arc<Place>>>,
}

impl Places {
    pub(super) fn new(rules: Rules, dialer: Dialer) -> Self {
        Self {
            rules,
            dialer: Arc::new(dialer),
            known: RwLock::default(),
        }
    }

    /// Where a bucket is.
    ///
    /// # Errors
    ///
    /// A name for which there is no such place, or none that can be signed for.
    pub(super) async fn of(&self, bucket: &str) -> Result<Arc<Place>, RequestError> {
        let known = |places: &HashMap<String, Arc<Place>>| places.get(bucket).map(Arc::clone);
        let found = known(&self.known.read().unwrap_or_else(PoisonError::into_inner));
        if let Some(found) = found {
            return Ok(found);
        }
        let refused = |what: String| RequestError::new(Cause::Other, what);
        let (url, scope) = self.resolve(bucket).await.map_err(refused)?;
        let mut places = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known(&places) {
            return Ok(found);
        }
        // Buckets of one server share its connections.
        let routes = places.values().map(|place| &place.route);
        let place = place(&url, scope, &self.dialer, routes).map_err(refused)?;
        let place = Arc::new(place);
        places.insert(bucket.to_owned(), Arc::clone(&place));
        Ok(place)
    }

    /// The URL of a bucket, and what its requests are signed for.
    async fn resolve(&self, bucket: &str) -> Result<(String, Scope), String> {
        let rules = &self.rules;
        let params = Params::builder()
            .bucket(bucket)
            .region(&rules.region)
            .set_endpoint(rules.endpoint.clone())
            .force_path_style(rules.path_style)
            .use_fips(rules.fips)
            .use_dual_stack(rules.dual_stack)
            // A session would have to be opened, and again every five minutes.
            .disable_s3_express_session_auth(true)
            .build()
            .map_err(|error| error.to_string())?;
        let resolver = DefaultResolver::new();
        let endpoint = resolver.resolve_endpoint(&params).await;
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let scheme = endpoint.auth_schemes().iter().find(|s| s.name() == SIGV4);
        let scheme = scheme.ok_or_else(|| {
            format!("bucket `{bucket}` wants signatures for several regions at once, which cannot be made here: name it by its region")
        })?;
        let said = |key: &str| scheme.get(key)?.as_string().map(str::to_owned);
        let scope = Scope {
            region: said("signingRegion").unwrap_or_else(|| rules.region.clone()),
            service: said("signingName").unwrap_or_else(|| "s3".to_owned()),
        };
        Ok((endpoint.url().to_owned(), scope))
    }
}

/// The place at a URL, with one of the routes that there are or a new one.
fn place<'a>(
    url: &str,
    scope: Scope,
    dialer: &Arc<Dialer>,
    mut routes: impl Iterator<Item = &'a Arc<Route>>,
) -> Result<Place, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
    let https = uri.scheme_str() == Some("https");
    let host = uri.host().ok_or("the server's URL names no host")?;
    let usual = if https { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(usual);
    let authority = match port == usual {
        true => host.to_owned(),
        false => format!("{host}:{port}"),
    };
    let origin = format!("{}://{authority}", if https { "https" } else { "http" });
    let route = match routes.find(|route| route.leads_to(https, host, port)) {
        Some(route) => Arc::clone(route),
        None => Arc::new(Route::new(dialer, https, host, port)),
    };
    Ok(Place {
        route,
        host: HeaderValue::try_from(authority).map_err(|error| error.to_string())?,
        scope,
        url: format!("{origin}{}", uri.path().trim_end_matches('/')),
        origin: origin.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::s3::tls::Trust;

    fn rules() -> Rules {
        Rules {
            region: "eu-west-1".to_owned(),
            endpoint: None,
            path_style: false,
            fips: false,
            dual_stack: false,
        }
    }

    fn places(rules: Rules) -> Places {
        Places::new(rules, Dialer::new(Trust::of_system(), None))
    }

    /// Where an object of a bucket is, and what of it the server is told.
    fn url(rules: Rules, bucket: &str, key: &str) -> Result<(String, String, Scope), String> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let place = { runtime }
            .build()
            .unwrap()
            .block_on(places(rules).of(bucket));
        let place = place.map_err(|trouble| trouble.message)?;
        let url = place.url(key);
        let below = place.below(&url).to_owned();
        let host = place.host.to_str().unwrap().to_owned();
        assert!(url.contains(&format!("://{host}/")), "{url} {host}");
        let scope = Scope {
            region: place.scope.region.clone(),
            service: place.scope.service.clone(),
        };
        Ok((url, below, scope))
    }

    #[test]
    fn a_bucket_is_where_every_client_of_aws_looks_for_it() {
        for (change, bucket, expected, below) in [
            (
                Box::new(|_: &mut Rules| {}) as Box<dyn Fn(&mut Rules)>,
                "bucket",
                "https://bucket.s3.eu-west-1.amazonaws.com/a/b.jpg",
                "/a/b.jpg",
            ),
            (
                Box::new(|_: &mut Rules| {}),
                "with.dots_",
                "https://s3.eu-west-1.amazonaws.com/with.dots_/a/b.jpg",
                "/with.dots_/a/b.jpg",
            ),
            (
                Box::new(|rules: &mut Rules| (rules.dual_stack, rules.fips) = (true, true)),
                "bucket",
                "https://bucket.s3-fips.dualstack.eu-west-1.amazonaws.com/a/b.jpg",
                "/a/b.jpg",
            ),
            (
                Box::new(|rules: &mut Rules| rules.path_style = true),
                "bucket",
                "https://s3.eu-west-1.amazonaws.com/bucket/a/b.jpg",
                "/bucket/a/b.jpg",
            ),
            (
                Box::new(|rules: &mut Rules| {
                    rules.path_style = true;
                    rules.endpoint = Some("http://user:secret@[::1]:9000/base/".to_owned());
                }),
                "bucket",
                "http://[::1]:9000/base/bucket/a/b.jpg",
                "/base/bucket/a/b.jpg",
            ),
            (
                Box::new(|rules: &mut Rules| {
                    rules.endpoint = Some("https://s3.example:443".to_owned())
                }),
                "bucket",
                "https://bucket.s3.example/a/b.jpg",
                "/a/b.jpg",
            ),
            (
                Box::new(|_: &mut Rules| {}),
                "arn:aws:s3:eu-west-1:123456789012:accesspoint:images",
                "https://images-123456789012.s3-accesspoint.eu-west-1.amazonaws.com/a/b.jpg",
                "/a/b.jpg",
            ),
        ] {
            let mut rules = rules();
            change(&mut rules);
            let (url, told, scope) = url(rules, bucket, "a/b.jpg").unwrap();
            assert_eq!((url.as_str(), told.as_str()), (expected, below));
            assert_eq!(
                (scope.region.as_str(), scope.service.as_str()),
                ("eu-west-1", "s3")
            );
        }
        let (_, _, scope) = url(rules(), "images--euw1-az1--x-s3", "k").unwrap();
        assert_eq!(scope.service, "s3express");
        assert!(url(rules(), "arn:aws:s3::123456789012:accesspoint:a.mrap", "k").is_err());
    }

    #[test]
    fn a_key_stays_what_it_is_in_a_url() {
        let key = "a b/../ü+%25?#&=~'(\"\u{7}";
        let (url, ..) = url(rules(), "bucket", key).unwrap();
        let expected = "a%20b/../%C3%BC%2B%2525%3F%23%26%3D~%27%28%22%07";
        assert!(url.ends_with(&format!(".com/{expected}")), "{url}");
        assert!(url.parse::<Uri>().is_ok());
    }

    #[test]
    fn buckets_of_one_server_share_its_connections() {
        let mut rules = rules();
        rules.path_style = true;
        let places = places(rules);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let [one, two] =
            ["one", "two"].map(|bucket| runtime.block_on(places.of(bucket)).ok().unwrap());
        assert!(Arc::ptr_eq(&one.route, &two.route));
    }
}
