//! Runs programs in turns and says how long they took and how much memory they had.

use std::fs;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// One run of a program.
pub(crate) struct Run {
    pub(crate) seconds: f64,
    /// The most memory the process itself held, in bytes; its children are not counted.
    pub(crate) peak_bytes: u64,
    /// Processor time of the process itself.
    pub(crate) cpu_seconds: f64,
}

/// Runs `command` to its end; what it printed is the message if it fails.
pub(crate) fn run(command: &mut Command) -> Result<Run, String> {
    let program = command.get_program().display().to_string();
    let describe = |what: String| format!("{program}: {what}");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|error| describe(error.to_string()))?;
    let mut stderr = child.stderr.take().expect("stderr is piped");
    let ended = AtomicBool::new(false);
    let id = child.id();
    thread::scope(|scope| {
        let messages = scope.spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).map(|_| text)
        });
        let peak = scope.spawn(|| poll(id, &ended));
        let exit = child.wait();
        let seconds = began.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        let (peak_bytes, cpu_seconds) = peak.join().expect("polling does not panic");
        let messages = messages
            .join()
            .expect("reading does not panic")
            .unwrap_or_default();
        match exit {
            Ok(exit) if exit.success() => Ok(Run {
                seconds,
                peak_bytes,
                cpu_seconds,
            }),
            Ok(exit) => Err(describe(format!("{exit}\n{messages}"))),
            Err(error) => Err(describe(error.to_string())),
        }
    })
}

/// Asks for the high-water mark and the processor time until the process is gone: neither falls, so the last answer is the
/// end, save for what the very last milliseconds added.
fn poll(id: u32, ended: &AtomicBool) -> (u64, f64) {
    let (status, stat) = (format!("/proc/{id}/status"), format!("/proc/{id}/stat"));
    let (mut peak, mut cpu) = (0, 0.0);
    while !ended.load(Ordering::Relaxed) {
        peak = peak.max(high_water_mark(&status).unwrap_or(0));
        cpu = cpu_seconds(&stat).unwrap_or(0.0).max(cpu);
        thread::sleep(Duration::from_millis(5));
    }
    (peak, cpu)
}

/// Processor time of a process that runs.
pub(crate) fn cpu_of(id: u32) -> f64 {
    cpu_seconds(&format!("/proc/{id}/stat")).unwrap_or(0.0)
}

/// User and system time; Linux counts them here in hundredths of a second.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let text = fs::read_to_string(stat).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: f64 = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

fn high_water_mark(status: &str) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// A thing to measure: how to start it, freshly prepared for every run.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    pub(crate) prepare: Box<dyn Fn() -> io::Result<Command> + 'a>,
}

/// All runs of one contender.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    runs: Vec<Run>,
}

impl Series {
    pub(crate) fn median(&self) -> f64 {
        let mut seconds: Vec<f64> = self.runs.iter().map(|run| run.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        let middle = seconds.len() / 2;
        if seconds.len() % 2 == 1 {
            seconds[middle]
        } else {
            (seconds[middle - 1] + seconds[middle]) / 2.0
        }
    }

    pub(crate) fn min(&self) -> f64 {
        self.runs
            .iter()
            .map(|run| run.seconds)
            .fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.runs.iter().map(|run| run.seconds).fold(0.0, f64::max)
    }

    /// Median of the processor time.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let mut seconds: Vec<f64> = self.runs.iter().map(|run| run.cpu_seconds).collect();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| run.peak_bytes)
            .max()
            .unwrap_or(0)
    }
}

/// Runs the contenders in turns, A B C A B C …, each after everything dirty has reached the disk.
///
/// One that fails is reported once and left out from then on.
pub(crate) fn in_turns(rounds: usize, contenders: Vec<Contender<'_>>) -> Vec<Series> {
    let mut series: Vec<_> = contenders
        .iter()
        .map(|contender| Series {
            name: contender.name,
            runs: Vec::new(),
        })
        .collect();
    let mut failed = vec![false; contenders.len()];
    for _ in 0..rounds {
        for (at, contender) in contenders.iter().enumerate() {
            if failed[at] {
                continue;
            }
            let run = (contender.prepare)()
                .map_err(|error| error.to_string())
                .and_then(|mut command| {
                    settle();
                    run(&mut command)
                });
            match run {
                Ok(run) => series[at].runs.push(run),
                Err(message) => {
                    println!("  {}: not measured: {}", contender.name, message.trim_end());
                    failed[at] = true;
                }
            }
        }
    }
    series.retain(|series| series.runs.len() == rounds);
    series
}

/// Waits until write-back of earlier runs is over.
fn settle() {
    // a machine without `sync` measures with a little more noise
    _ = Command::new("sync").status();
}
