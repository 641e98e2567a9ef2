//! Which worker of how many this process is: from a flag, or from the variables of exactly one scheduler.
//!
//! Sources: Kubernetes "Indexed Job for parallel processing with static work assignment", SLURM "Job Array Support", AWS Batch "Array jobs",
//! Google Cloud Run "Container contract", Google Batch "Job creation and execution overview". Nothing is guessed: two schedulers at
//! once, or a number of workers that nobody said, is a usage error.

use crate::base::error::{Error, Result};
use crate::plan::worker::Worker;

/// The variables of one scheduler.
struct Family {
    name: &'static str,
    /// This worker's number, from 0 unless there is a `first`.
    index: &'static str,
    /// How many workers there are.
    count: Option<&'static str>,
    /// The smallest number, and the step from one to the next.
    first_and_step: Option<(&'static str, &'static str)>,
}

const FAMILIES: [Family; 5] = [
    Family {
        name: "a Kubernetes Indexed Job",
        index: "JOB_COMPLETION_INDEX",
        count: None,
        first_and_step: None,
    },
    Family {
        name: "a SLURM array",
        index: "SLURM_ARRAY_TASK_ID",
        count: Some("SLURM_ARRAY_TASK_COUNT"),
        first_and_step: Some(("SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP")),
    },
    Family {
        name: "an AWS Batch array",
        index: "AWS_BATCH_JOB_ARRAY_INDEX",
        count: Some("AWS_BATCH_JOB_ARRAY_SIZE"),
        first_and_step: None,
    },
    Family {
        name: "a Cloud Run job",
        index: "CLOUD_RUN_TASK_INDEX",
        count: Some("CLOUD_RUN_TASK_COUNT"),
        first_and_step: None,
    },
    Family {
        name: "a Google Batch job",
        index: "BATCH_TASK_INDEX",
        count: Some("BATCH_TASK_COUNT"),
        first_and_step: None,
    },
];

/// This worker: by `--worker K/N`, or else by a scheduler's variables, which `variable` gives, with the number of workers from them or
/// from `--workers N`. Nothing said and no scheduler: the only worker.
pub(crate) fn worker(
    flag: Option<&str>,
    workers: Option<usize>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Worker> {
    if workers == Some(0) {
        return Err(Error::usage("--workers 0: give at least 1"));
    }
    if let Some(text) = flag {
        let worker = parse("--worker", text)?;
        return match workers {
            Some(workers) if workers != worker.of => Err(Error::usage(format!(
                "--worker {text} is one of {} workers and --workers says {workers}: give one of the two",
                worker.of
            ))),
            _ => Ok(worker),
        };
    }
    let set: Vec<&Family> = FAMILIES
        .iter()
        .filter(|family| variable(family.index).is_some())
        .collect();
    match (set[..].first(), set.len()) {
        (None, _) => match workers {
            None | Some(1) => Ok(Worker::ALONE),
            Some(workers) => Err(Error::usage(format!(
                "--workers {workers}: which of them this is, is said by no variable of a scheduler: add `--worker K/{workers}`"
            ))),
        },
        (Some(family), 1) => of_family(family, workers, variable),
        _ => {
            let names: Vec<_> = set.iter().map(|family| family.index).collect();
            Err(Error::usage(format!(
                "several schedulers at once ({}): say with `--worker K/N` which worker this is",
                names.join(", ")
            )))
        }
    }
}

/// Reads `K/N`, which was given with this flag.
pub(crate) fn parse(flag: &str, text: &str) -> Result<Worker> {
    text.split_once('/')
        .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)))
        .filter(|(number, of)| number < of)
        .map(|(number, of)| Worker { number, of })
        .ok_or_else(|| {
            Error::usage(format!(
                "{flag} `{text}`: write K/N with K from 0 to N-1, for example 0/3"
            ))
        })
}

fn of_family(
    family: &Family,
    workers: Option<usize>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Worker> {
    let number = |name: &str| -> Result<Option<usize>> {
        let Some(text) = variable(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            Error::usage(format!(
                "{name}=`{text}` is no number: say with `--worker K/N` which worker this is"
            ))
        })
    };
    let counted = family.count.map(number).transpose()?.flatten();
    let of = match (workers, counted) {
        (Some(workers), Some(counted)) if workers != counted => {
            return Err(Error::usage(format!(
                "--workers {workers}, but {} has {counted}: drop the flag or correct it",
                family.name
            )));
        }
        (Some(of), _) | (None, Some(of)) => of,
        (None, None) => {
            return Err(Error::usage(format!(
                "{} is set, but not how many workers there are: add `--workers N`",
                family.index
            )));
        }
    };
    let index = number(family.index)?.unwrap_or(0);
    let index = match family.first_and_step {
        None => Some(index),
        Some((first, step)) => {
            let (first, step) = (number(first)?.unwrap_or(0), number(step)?.unwrap_or(1));
            let from_first = index.checked_sub(first);
            from_first
                .filter(|above| step > 0 && above.is_multiple_of(step))
                .map(|above| above / step)
        }
    };
    match index.filter(|index| *index < of) {
        Some(number) => Ok(Worker { number, of }),
        None => Err(Error::usage(format!(
            "{}=`{}` is none of {of} workers that follow each other evenly: say with `--worker K/N` which worker this is",
            family.index,
            variable(family.index).unwrap_or_default()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Kind;

    fn with(
        flag: Option<&str>,
        workers: Option<usize>,
        variables: &[(&str, &str)],
    ) -> Result<String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        worker(flag, workers, variable).map(|worker| worker.to_string())
    }

    #[test]
    fn nothing_said_is_the_only_worker() {
        assert_eq!(with(None, None, &[]).unwrap(), "0/1");
        assert_eq!(with(None, Some(1), &[]).unwrap(), "0/1");
    }

    #[test]
    fn the_flag_wins_over_every_scheduler() {
        let both = [("JOB_COMPLETION_INDEX", "1"), ("BATCH_TASK_INDEX", "x")];
        assert_eq!(with(Some("2/3"), None, &both).unwrap(), "2/3");
        assert_eq!(with(Some("2/3"), Some(3), &both).unwrap(), "2/3");
    }

    #[test]
    fn each_scheduler_is_known() {
        let slurm = |id, min, step, count| {
            [
                ("SLURM_ARRAY_TASK_ID", id),
                ("SLURM_ARRAY_TASK_MIN", min),
                ("SLURM_ARRAY_TASK_STEP", step),
                ("SLURM_ARRAY_TASK_COUNT", count),
            ]
        };
        assert_eq!(
            with(None, Some(8), &[("JOB_COMPLETION_INDEX", "7")]).unwrap(),
            "7/8"
        );
        assert_eq!(with(None, None, &slurm("1", "1", "1", "4")).unwrap(), "0/4");
        assert_eq!(with(None, None, &slurm("8", "2", "3", "3")).unwrap(), "2/3");
        for (index, count) in [
            ("AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"),
            ("CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT"),
            ("BATCH_TASK_INDEX", "BATCH_TASK_COUNT"),
        ] {
            let variables = [(index, "4"), (count, "9")];
            assert_eq!(with(None, None, &variables).unwrap(), "4/9");
            assert_eq!(with(None, Some(9), &variables).unwrap(), "4/9");
        }
    }

    #[test]
    fn what_is_not_clear_is_a_usage_error() {
        let aws = [
            ("AWS_BATCH_JOB_ARRAY_INDEX", "1"),
            ("AWS_BATCH_JOB_ARRAY_SIZE", "4"),
        ];
        let uneven = [
            ("SLURM_ARRAY_TASK_ID", "7"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_STEP", "1"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
        ];
        let cases: [(_, _, &[_], &str); 9] = [
            (
                None,
                None,
                &[("JOB_COMPLETION_INDEX", "1")],
                "add `--workers N`",
            ),
            (
                None,
                Some(2),
                &[("JOB_COMPLETION_INDEX", "2")],
                "none of 2 workers",
            ),
            (
                None,
                Some(2),
                &[("JOB_COMPLETION_INDEX", "")],
                "is no number",
            ),
            (None, Some(5), &aws, "has 4"),
            (None, None, &uneven, "evenly"),
            (
                None,
                Some(2),
                &[
                    ("JOB_COMPLETION_INDEX", "1"),
                    ("AWS_BATCH_JOB_ARRAY_INDEX", "1"),
                ],
                "several schedulers",
            ),
            (None, Some(3), &[], "add `--worker K/3`"),
            (Some("3/3"), None, &[], "K from 0 to N-1"),
            (Some("1/3"), Some(4), &[], "give one of the two"),
        ];
        for (flag, workers, variables, words) in cases {
            let error = with(flag, workers, variables).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
