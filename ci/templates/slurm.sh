#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A campaign of Lockstep as a Slurm array: a task for each shard, then one job that joins and judges them.
#   bash slurm.sh          submits both, from the folder where the databases shall be
# main.db there, if it is, is the history: what ever failed in it is replayed first, and the gate compares with it. The
# code of the last job is the gate's; run.db and lockstep-report.html are what it leaves.
#SBATCH --job-name=lockstep
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
set -euo pipefail
LOCKSTEP=${LOCKSTEP:-$HOME/lockstep/build/ci/program/lockstep}   # on a disk that all nodes see
CASES=${CASES:-1000000} SEED=${SEED:-0} SHARDS=${SHARDS:-16}

submit() {
  local array
  export LOCKSTEP CASES SEED SHARDS
  array=$(sbatch --parsable --array="1-$SHARDS" "$0" shard)
  sbatch --parsable --dependency="afterany:${array%%;*}" --cpus-per-task=1 "$0" join
}

shard() {
  local db=shard-$SLURM_ARRAY_TASK_ID.db more=()
  [ ! -e main.db ] || more=(--corpus main.db)
  [ ! -e "$db" ] || more+=(--resume)  # Slurm has started this task again
  "$LOCKSTEP" run --cases "$CASES" --seed "$SEED" --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" \
    --jobs "${SLURM_CPUS_PER_TASK:-1}" --db "$db" --report "" "${more[@]}"
}

join() {
  local baseline=main.db
  "$LOCKSTEP" merge run.db shard-*.db || [ $? = 6 ]
  [ -e main.db ] || baseline=run.db
  "$LOCKSTEP" gate --baseline "$baseline" --candidate run.db --report lockstep-report.html
}

"${1:-submit}"
