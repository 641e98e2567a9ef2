//! What a dry run is to estimate besides: prices of requests, and how fast the source can be read.

use crate::base::error::{Error, Result};

/// What a dry run says more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimate {
    /// What an object store takes for requests and storage.
    pub(crate) price: Option<Price>,
    /// So many files are read to see how long all take.
    pub(crate) probe: Option<u64>,
}

/// Dollars for one of each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Price {
    /// A GET.
    pub(crate) get: f64,
    /// A PUT, and each request of a multipart upload.
    pub(crate) put: f64,
    /// A LIST.
    pub(crate) list: f64,
    /// A gigabyte of what is written, for a month.
    pub(crate) gigabyte: f64,
}

/// Checks what a dry run is to say more.
pub(super) fn estimate(price: Option<&str>, probe: Option<u64>, dry_run: bool) -> Result<Estimate> {
    let price = price.filter(|text| !text.is_empty());
    let flag = price.map(|_| "--price").or(probe.map(|_| "--probe"));
    match flag {
        Some(flag) if !dry_run => Err(Error::usage(format!(
            "{flag} is for estimates: add `--dry-run`, or drop it"
        ))),
        _ if probe == Some(0) => Err(Error::usage("--probe 0: give at least 1")),
        _ => Ok(Estimate {
            price: price.map(dollars).transpose()?,
            probe,
        }),
    }
}

/// Reads `get=0.0004/1000,put=0.005/1000,list=0.005/1000,gb=0.023`; what is not named costs nothing, a LIST as much as a PUT.
pub(super) fn dollars(text: &str) -> Result<Price> {
    let bad = |part: &str| {
        Error::usage(format!(
            "--price `{part}`: write get=, put=, list= or gb= and dollars, for example get=0.0004/1000,put=0.005/1000,gb=0.023"
        ))
    };
    let mut price = Price::default();
    let mut list = None;
    for part in text.split(',').map(str::trim) {
        let (name, dollars) = part.split_once('=').ok_or_else(|| bad(part))?;
        let number = |text: &str| {
            let number: f64 = text.trim().parse().map_err(|_| bad(part))?;
            match number.is_finite() && number >= 0.0 {
                true => Ok(number),
                false => Err(bad(part)),
            }
        };
        let dollars = match dollars.split_once('/') {
            Some((dollars, of)) => match number(of)? {
                0.0 => return Err(bad(part)),
                of => number(dollars)? / of,
            },
            None => number(dollars)?,
        };
        match name.trim() {
            "get" => price.get = dollars,
            "put" => price.put = dollars,
            "list" => list = Some(dollars),
            "gb" => price.gigabyte = dollars,
            _ => return Err(bad(part)),
        }
    }
    price.list = list.unwrap_or(price.put);
    Ok(price)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_dollars_for_one_or_for_many() {
        let price = dollars("get=0.0004/1000, put=0.005/1000,gb=0.023").unwrap();
        assert!((price.get - 4e-7).abs() < 1e-15);
        assert_eq!(price.list, price.put);
        assert_eq!(price.gigabyte, 0.023);
        assert_eq!(dollars("list=1,put=2").unwrap().list, 1.0);
        for text in [
            "get", "get=", "get=x", "get=1/0", "get=-1", "gold=1", "get=1/x",
        ] {
            assert!(dollars(text).is_err(), "{text}");
        }
        assert!(estimate(Some("get=1"), None, false).is_err());
        assert!(estimate(None, Some(5), false).is_err());
        assert!(estimate(None, Some(0), true).is_err());
        assert!(estimate(Some(""), None, false).is_ok());
    }
}
