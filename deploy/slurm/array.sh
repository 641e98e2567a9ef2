#!/bin/bash
# One conversion as a SLURM array: every task makes the same plan, packs its part, and the last one publishes.
#
#     sbatch --array=0-15 deploy/slurm/array.sh /lustre/images /lustre/shards
#
# Every task is requeued when the node fails or is taken away, and when shardpack ends with 75 (transient) or 143 (told to stop).
# SLURM sends SIGTERM first, and SIGKILL after KillWait, 30 s; shardpack needs 5. With `--mail-type=FAIL` a person hears of the rest.
#SBATCH --job-name=shardpack
#SBATCH --array=0-15
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=shardpack-%A_%a.log
set -u

if [ $# -lt 2 ]; then
    echo "array.sh: give SRC and DST, then flags of shardpack convert" >&2
    exit 2
fi

# Attempts of a task in all; those after a node failed count too.
most=${ATTEMPTS:-6}

# In the background, so that bash hands the signal on at once instead of after the command.
stopped=
running=
trap 'stopped=1; [ -z "$running" ] || kill -TERM "$running"' TERM
shardpack convert "$@" --publish-when-complete --progress log &
running=$!
# Told before it was known whom to tell.
[ -z "$stopped" ] || kill -TERM "$running"
wait "$running"
code=$?
if [ -n "$stopped" ]; then
    # The signal ended the wait, not yet the command.
    wait "$running"
    code=$?
fi

case $code in
75 | 137 | 143)
    if [ $((${SLURM_RESTART_COUNT:-0} + 1)) -lt "$most" ]; then
        task=${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:?array.sh is to be given to sbatch}}
        [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && task=${task}_$SLURM_ARRAY_TASK_ID
        echo "array.sh: exit code $code: requeueing $task" >&2
        scontrol requeue "$task"
    fi
    ;;
esac
exit "$code"
