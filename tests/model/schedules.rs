//! What must hold in whatever order threads run. Each model is tried under schedules drawn at random and under some that change threads
//! rarely, where an order of few changes hides (PCT). `SHARDPACK_SCHEDULES` says how many of each; one that fails prints how to replay it.
//!
//! They are in the library, which is not compiled for tests: the modules that it takes from the program have tests of their own.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::base::buffer::{Buffer, Buffers, Pieces};
use crate::base::error::{Error, Result};
use crate::base::reactor::promise;
use crate::base::reactor::{Pending, Reactor};
use crate::model::sample::{Field, Sample};
use crate::pack::lookahead::{Content, Large, Lookahead};
use crate::store::Source;
use crate::{Link, Pace};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

/// Tries a model under many schedules.
fn holds(model: fn()) {
    let schedules = std::env::var("SHARDPACK_SCHEDULES");
    let schedules = schedules.ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    shuttle::check_random(model, schedules);
    shuttle::check_pct(model, schedules, 3);
}

fn below(end: usize) -> usize {
    thread_rng().gen_range(0..end)
}

/// Counts work: how much was done, and how much at once.
#[derive(Default)]
struct Count {
    running: AtomicUsize,
    most: AtomicUsize,
    done: AtomicUsize,
}

impl Count {
    fn work<T>(&self, value: T) -> T {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        thread::yield_now();
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
        value
    }
}

/// Owners who start work and wait for it, each on a thread, and what becomes of each piece.
fn owners(
    number: usize,
    each: usize,
    fate: fn(&mut VecDeque<(usize, Pending<usize>)>),
) -> Arc<Count> {
    let (reads, floor) = (1 + below(2), below(3));
    let reactor = Arc::new(Reactor::new(reads, floor));
    let count = Arc::new(Count::default());
    let owners: Vec<_> = (0..number)
        .map(|owner| {
            let (reactor, count) = (Arc::clone(&reactor), Arc::clone(&count));
            thread::spawn(move || {
                let mut started: VecDeque<_> = (0..each)
                    .map(|i| {
                        let (value, count) = (owner * 100 + i, Arc::clone(&count));
                        (value, reactor.start(move || Ok(count.work(value))))
                    })
                    .collect();
                if owner == 1 {
                    reactor.lend(1);
                }
                // Whoever comes last lets go of it while others still wait.
                drop(reactor);
                fate(&mut started);
                for (value, pending) in started {
                    assert_eq!(pending.wait().unwrap(), value);
                }
            })
        })
        .collect();
    drop(reactor);
    for owner in owners {
        owner.join().unwrap();
    }
    assert!(
        count.most.load(Ordering::SeqCst) <= reads,
        "too many at once"
    );
    count
}

pub fn work_is_done_once_each_and_so_many_at_once_whoever_waits() {
    holds(|| {
        let count = owners(2, 3, |_| {});
        assert_eq!(count.done.load(Ordering::SeqCst), 6);
    });
}

pub fn owners_may_wait_in_any_order() {
    holds(|| {
        let count = owners(3, 2, |started| {
            let last = started.pop_back().unwrap();
            started.push_front(last);
        });
        assert_eq!(count.done.load(Ordering::SeqCst), 6);
    });
}

pub fn work_that_is_given_up_keeps_nobody_waiting() {
    holds(|| {
        let count = owners(2, 4, |started| {
            for _ in 0..below(4) {
                drop(started.remove(below(started.len())));
            }
        });
        assert!(count.done.load(Ordering::SeqCst) <= 8);
    });
}

pub fn a_reactor_that_is_gone_leaves_nobody_waiting() {
    holds(|| {
        let reactor = Reactor::new(1 + below(2), below(2));
        let count = Arc::new(Count::default());
        let started: Vec<_> = (0..3)
            .map(|i| {
                let count = Arc::clone(&count);
                reactor.start(move || Ok(count.work(i)))
            })
            .collect();
        let dropping = thread::spawn(move || drop(reactor));
        for (i, pending) in started.into_iter().enumerate() {
            assert_eq!(pending.wait().unwrap(), i);
        }
        dropping.join().unwrap();
    });
}

pub fn a_promise_is_kept_broken_or_known_to_be_unwanted() {
    holds(|| {
        let (kept, pending) = promise();
        let keeper = thread::spawn(move || kept.send(Ok(7)).is_ok());
        assert_eq!(pending.wait().unwrap(), 7);
        assert!(keeper.join().unwrap());

        let (broken, pending) = promise::<u8>();
        let breaker = thread::spawn(move || drop(broken));
        assert!(pending.wait().is_err());
        breaker.join().unwrap();

        let (unwanted, pending) = promise::<u8>();
        let dropper = thread::spawn(move || drop(pending));
        while !unwanted.is_closed() {
            thread::yield_now();
        }
        assert!(unwanted.send(Ok(1)).is_err());
        dropper.join().unwrap();
    });
}

/// How many places can be taken now, each of them held.
fn free(pace: &Pace) -> usize {
    let mut places = Vec::new();
    loop {
        let mut place = pin!(pace.place());
        let mut context = Context::from_waker(Waker::noop());
        match place.as_mut().poll(&mut context) {
            Poll::Ready(place) => places.push(place),
            Poll::Pending => return places.len(),
        }
    }
}

pub fn a_pace_gives_as_many_places_as_it_says_and_lets_everybody_in() {
    holds(|| {
        let most = 9 + below(3);
        let pace = Pace::new(most);
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let pace = pace.clone();
                shuttle::future::spawn(async move {
                    for _ in 0..2 {
                        let _places = (pace.place().await, pace.place().await, pace.place().await);
                        shuttle::future::yield_now().await;
                    }
                })
            })
            .collect();
        let servers: Vec<_> = (0..2)
            .map(|_| {
                let pace = pace.clone();
                thread::spawn(move || {
                    pace.push_back();
                    pace.tick();
                })
            })
            .collect();
        for reader in readers {
            shuttle::future::block_on(reader).unwrap();
        }
        for server in servers {
            server.join().unwrap();
        }
        // What is owed is paid at the latest when the next places come back.
        let first = free(&pace);
        assert!(
            first >= pace.limit() && first <= most,
            "{first} of {}",
            pace.limit()
        );
        assert_eq!(free(&pace), pace.limit());
    });
}

pub fn a_full_link_lets_everybody_in_and_forgets_who_gives_up() {
    holds(|| {
        // Two of them fill it.
        let bytes = 600 << 10;
        let link = Link::new(1 << 20);
        let requests: Vec<_> = (0..4)
            .map(|_| {
                let (link, patience, end) = (link.clone(), below(3), below(3));
                shuttle::future::spawn(async move {
                    let mut share = pin!(link.share(bytes));
                    let mut looks = 0;
                    let got = poll_fn(|context| match share.as_mut().poll(context) {
                        Poll::Ready(share) => Poll::Ready(Some(share)),
                        // Some wait for ever, others not.
                        Poll::Pending if patience == 0 && looks > 0 => Poll::Ready(None),
                        Poll::Pending => {
                            looks += 1;
                            if patience == 0 {
                                context.waker().wake_by_ref();
                            }
                            Poll::Pending
                        }
                    });
                    let got = got.await;
                    shuttle::future::yield_now().await;
                    match (got, end) {
                        (Some(share), 0) => share.done(),
                        (Some(share), 1) => share.timed_out(),
                        _ => {}
                    }
                })
            })
            .collect();
        for request in requests {
            shuttle::future::block_on(request).unwrap();
        }
        // Nobody is left in it: whoever comes now need not wait.
        let mut context = Context::from_waker(Waker::noop());
        let share = pin!(link.share(bytes)).poll(&mut context);
        assert!(share.is_ready());
    });
}

/// A source whose files tell their bytes by number and place, read by readers or by a network client.
struct Files {
    reactor: Reactor,
    network: bool,
    buffers: Arc<Buffers>,
    /// Contents that were started and not given back.
    held: Arc<Mutex<usize>>,
    most: AtomicUsize,
}

impl Files {
    fn new() -> Self {
        Self {
            reactor: Reactor::new(1 + below(3), below(2)),
            network: below(2) == 0,
            buffers: Arc::default(),
            held: Arc::default(),
            most: AtomicUsize::new(0),
        }
    }
}

fn byte(number: usize, at: u64) -> u8 {
    (number as u64 * 31 + at) as u8
}

/// The last one of each packer cannot be read.
fn is_lost(number: usize) -> bool {
    number % 100 == 3
}

fn content(number: usize, offset: u64, length: usize, buffers: &Buffers) -> Result<Buffer> {
    let mut buffer = buffers.take(length);
    for (byte, at) in buffer.room(length).iter_mut().zip(offset..) {
        *byte = self::byte(number, at);
    }
    thread::yield_now();
    buffer.sum();
    match is_lost(number) {
        true => Err(Error::failed("a file that cannot be read")),
        false => Ok(buffer),
    }
}

fn is_it(buffer: &Buffer, number: usize, offset: u64) {
    let right = |(&byte, at)| byte == self::byte(number, at);
    assert!(buffer.iter().zip(offset..).all(right), "of another file");
    assert_eq!(buffer.crc32, crc32fast::hash(buffer));
}

/// Reads a file that is too large to hold, perhaps its ends first.
fn read_large(large: &mut Large<'_>, number: usize) -> Result<()> {
    if below(2) == 0 {
        let size = large.size();
        let (head, tail) = large.ends()?;
        assert_eq!(head[0], byte(number, 0));
        is_it(&tail, number, size - tail.len() as u64);
    }
    let mut at = 0;
    while let Some(piece) = large.next_piece()? {
        is_it(piece, number, at);
        at += piece.len() as u64;
    }
    assert_eq!(at, large.size());
    Ok(())
}

impl Source for Files {
    fn start(&self, field: &Field) -> Pending<Buffer> {
        self.part(field, 0, field.size)
    }

    fn part(&self, field: &Field, offset: u64, length: u64) -> Pending<Buffer> {
        assert!(offset + length <= field.size);
        let length = length as usize;
        let held = {
            let mut held = self.held.lock().unwrap();
            *held += 1;
            *held
        };
        self.most.fetch_max(held, Ordering::SeqCst);
        let (number, buffers) = (field.number, Arc::clone(&self.buffers));
        let work = move || content(number, offset, length, &buffers);
        if !self.network {
            return self.reactor.start(work);
        }
        let (sender, pending) = promise();
        thread::spawn(move || {
            if !sender.is_closed() {
                let _ = sender.send(work());
            }
        });
        pending
    }

    fn recycle(&self, buffer: Buffer) {
        *self.held.lock().unwrap() -= 1;
        self.buffers.give_back(buffer);
    }

    fn started_bytes(&self, _: &Field) -> u64 {
        0
    }

    fn together_bytes(&self) -> u64 {
        if self.network { 1000 } else { 0 }
    }
}

pub fn packers_get_their_samples_in_order_with_their_own_contents() {
    holds(|| {
        // Two samples or three.
        const WINDOW: u64 = 1000;
        // What the smallest content takes.
        const CONTENT: usize = 80;
        let files = Arc::new(Files::new());
        let packers: Vec<_> = (0..2)
            .map(|packer| {
                let files = Arc::clone(&files);
                thread::spawn(move || {
                    let sample = |number: usize| {
                        let number = packer * 100 + number;
                        let field = |size| Field {
                            number,
                            size,
                            content: None,
                        };
                        // Some have a file that is too large to hold.
                        let fields = match number % 3 {
                            0 => vec![field(10), field(90)],
                            1 => vec![field(41), field(5)],
                            _ => vec![field(20), field(5)],
                        };
                        Ok((number, Sample { fields }))
                    };
                    // Some give up before the end.
                    let wanted = [4, 2][below(2)];
                    let todo = (0..4).map(sample);
                    let mut ahead = Lookahead::new(&*files, todo, WINDOW).with_tails(true);
                    for number in (0..wanted).map(|number| packer * 100 + number) {
                        assert_eq!(ahead.next_shard().unwrap().unwrap(), number);
                        let mut fetched = ahead.fetch().unwrap().unwrap();
                        let mut lost = 0;
                        let fields = &fetched.sample.fields;
                        for (read, field) in fetched.contents.iter_mut().zip(fields) {
                            match read {
                                Ok(Content::Held(buffer)) => {
                                    assert_eq!(buffer.len() as u64, field.size);
                                    is_it(buffer, number, 0);
                                }
                                Ok(Content::Large(large)) => match read_large(large, number) {
                                    // Its end, whether it was looked at or not.
                                    Ok(()) => lost += 1,
                                    Err(_) => assert!(is_lost(number)),
                                },
                                Err(_) => lost += 1,
                            }
                        }
                        *files.held.lock().unwrap() -= lost;
                        ahead.recycle(fetched.contents);
                    }
                    if wanted == 4 {
                        assert!(ahead.fetch().is_none());
                    }
                    files.reactor.lend(1);
                })
            })
            .collect();
        for packer in packers {
            packer.join().unwrap();
        }
        let most = files.most.load(Ordering::SeqCst);
        assert!(
            most * CONTENT <= 2 * WINDOW as usize,
            "{most} contents at once"
        );
    });
}
