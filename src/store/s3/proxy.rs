//! Which proxy a connection goes through, by the variables of the environment that every program knows.
//!
//! A proxy's URL may hold a password: it is used, and never shown.

use aws_smithy_http_client::proxy::ProxyConfig;
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use crate::base::error::{Error, Result};
use crate::store::s3::credentials::environment;
use crate::store::s3::message::without_secrets;

/// Where container agents tell whom to ask for credentials.
const CONTAINER: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

/// A proxy, and which servers are asked directly all the same.
pub(super) struct Proxy {
    /// For the client library.
    pub(super) config: ProxyConfig,
    /// The same for requests that are made here.
    pub(super) matcher: Matcher,
    /// Its URL without secrets, and the variable that names it.
    pub(super) shown: String,
}

impl Proxy {
    /// The proxy on the way to the server at `url`, if there is one.
    pub(super) fn to_server(url: &str) -> Result<Option<Self>> {
        let Ok(server) = url.parse::<Uri>() else {
            return Ok(None);
        };
        let scheme = server.scheme_str().unwrap_or("https").to_owned();
        let Some((variable, proxy)) = named(&scheme, environment) else {
            return Ok(None);
        };
        let direct = direct(environment, server.port_u16());
        let tried = Matcher::builder()
            .all("http://any")
            .no(direct.as_str())
            .build();
        if tried.intercept(&server).is_none() {
            return Ok(None);
        }
        Self::new(variable, &proxy, &scheme, &direct).map(Some)
    }

    /// The proxy on the way to those who give out credentials: token services, over TLS. The metadata service of a machine
    /// and the agent of a container are on this machine's own link, or on itself: no proxy can ask them in its place.
    pub(super) fn to_credentials() -> Option<Self> {
        let (variable, proxy) = named("https", environment)?;
        let mut direct = direct(environment, None);
        let agent = environment(CONTAINER).and_then(|url| url.parse::<Uri>().ok());
        if let Some(host) = agent.as_ref().and_then(Uri::host) {
            direct = format!("{direct},{}", host.trim_matches(['[', ']']));
        }
        Self::new(variable, &proxy, "https", &direct).ok()
    }

    fn new(variable: &str, proxy: &str, scheme: &str, direct: &str) -> Result<Self> {
        // As everywhere: what is no URL is the name of a host.
        let url = match proxy.contains("://") {
            true => proxy.to_owned(),
            false => format!("http://{proxy}"),
        };
        let shown = format!("{} of {variable}", without_secrets(&url));
        let matcher = Matcher::builder().no(direct);
        let (config, matcher) = match scheme {
            "http" => (ProxyConfig::http(url.as_str()), matcher.http(url)),
            _ => (ProxyConfig::https(url.as_str()), matcher.https(url)),
        };
        // What the library says of it would show the URL.
        let config = config.map_err(|_| {
            Error::usage(format!(
                "the proxy {shown} cannot be used: give http://HOST:PORT, or name the server in NO_PROXY"
            ))
        })?;
        Ok(Self {
            config: config.no_proxy(direct),
            matcher: matcher.build(),
            shown,
        })
    }
}

/// The proxy for servers of a scheme, and the variable that names it. Names in lower case come first, as for curl and Python.
fn named(
    scheme: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, String)> {
    // Where a server runs programs for its visitors, they choose what HTTP_PROXY says: by a header called Proxy.
    let visitors = variable("REQUEST_METHOD").is_some();
    let names: &[&'static str] = match (scheme, visitors) {
        ("http", true) => &["http_proxy", "all_proxy", "ALL_PROXY"],
        ("http", false) => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
        _ => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let mut found = names.iter().map(|name| (*name, variable(name)));
    found.find_map(|(name, value)| Some((name, value?)))
}

/// NO_PROXY in the one form that the library knows: `*.example.com` is `.example.com`, and a name with a port counts for a
/// server on that port only.
fn direct(variable: impl Fn(&str) -> Option<String>, port: Option<u16>) -> String {
    let list = variable("no_proxy").or_else(|| variable("NO_PROXY"));
    let list = list.unwrap_or_default();
    let entry = |entry: &str| -> Option<String> {
        let entry = match entry.strip_prefix("*.") {
            Some(domain) => format!(".{domain}"),
            None => entry.to_owned(),
        };
        match entry.rsplit_once(':') {
            // More than one colon is an address of IPv6, bare or in brackets.
            Some((host, digits)) if !host.contains(':') || host.ends_with(']') => {
                let same = digits.parse().ok() == port && port.is_some();
                same.then(|| host.trim_matches(['[', ']']).to_owned())
            }
            _ => Some(entry.trim_matches(['[', ']']).to_owned()),
        }
    };
    let entries = list.split([',', ' ', '\t']).filter(|text| !text.is_empty());
    entries.filter_map(entry).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn the_proxy_of_a_scheme_comes_before_that_of_all_and_lower_case_first() {
        let all = [
            ("ALL_PROXY", "a"),
            ("HTTPS_PROXY", "S"),
            ("https_proxy", "s"),
            ("HTTP_PROXY", "H"),
        ];
        let name = |scheme, set| named(scheme, variables(set)).map(|(name, _)| name);
        assert_eq!(name("https", &all), Some("https_proxy"));
        assert_eq!(name("http", &all), Some("HTTP_PROXY"));
        assert_eq!(name("https", &all[..2]), Some("HTTPS_PROXY"));
        assert_eq!(name("http", &all[..2]), Some("ALL_PROXY"));
        assert_eq!(name("https", &all[3..]), None);
        let visited = [("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "evil")];
        assert_eq!(name("http", &visited), None);
    }

    #[test]
    fn servers_are_asked_directly_by_name_domain_network_and_port() {
        let list = "localhost, *.corp,minio:9000 10.0.0.0/8,[fd00::1],[fd00::2]:9000";
        let set = [("NO_PROXY", list)];
        let direct = |port| direct(variables(&set), port);
        let matched = |url: &str| {
            let uri: Uri = url.parse().unwrap();
            let matcher = Matcher::builder()
                .all("http://any")
                .no(direct(uri.port_u16()));
            matcher.build().intercept(&uri).is_none()
        };
        for url in [
            "http://localhost:9000",
            "https://s3.corp",
            "http://minio:9000",
            "http://10.1.2.3:80",
            "http://[fd00::1]:1",
            "http://[fd00::2]:9000",
        ] {
            assert!(matched(url), "{url}");
        }
        for url in [
            "http://minio:9001",
            "https://s3.amazonaws.com",
            "http://[fd00::2]:1",
            "http://127.0.0.1",
        ] {
            assert!(!matched(url), "{url}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_refused_without_its_password() {
        for url in [
            "socks5://u:canary@host:1080",
            "http://",
            "ftp://u:canary@host",
        ] {
            let Err(error) = Proxy::new("ALL_PROXY", url, "https", "") else {
                panic!("{url} is used");
            };
            let error = error.to_string();
            assert!(
                error.contains("ALL_PROXY") && !error.contains("canary"),
                "{error}"
            );
        }
        let bare = Proxy::new("HTTPS_PROXY", "u:canary@proxy:3128", "https", "").unwrap();
        assert_eq!(bare.shown, "http://proxy:3128 of HTTPS_PROXY");
    }
}
