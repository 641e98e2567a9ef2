//! Many small requests at once, from threads of the caller's own.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::error::Result;

/// Does `work` for each item, so many at once, and gives the results in order; the first error in that order wins.
pub(crate) fn at_once<T: Sync, R: Send>(
    depth: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return done;
            };
            let result = work(item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            done.push((at, result));
        }
    };
    let mut results: Vec<(usize, Result<R>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..depth.clamp(1, items.len().max(1)))
            .map(|_| scope.spawn(some))
            .collect();
        let mut results = some();
        for thread in threads {
            match thread.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;

    #[test]
    fn many_at_once_keep_their_order_and_the_first_error_wins() {
        let items: Vec<u32> = (0..1000).collect();
        let doubled = at_once(16, &items, |&i| Ok(i * 2)).unwrap();
        assert_eq!(doubled, (0..2000).step_by(2).collect::<Vec<_>>());
        let error = at_once(16, &items, |&i| match i {
            500.. => Err(Error::failed(format!("item {i}"))),
            _ => Ok(()),
        });
        assert!(error.unwrap_err().to_string().starts_with("item 5"));
        assert!(at_once(4, &[] as &[u8], |_| Ok(())).unwrap().is_empty());
    }
}
