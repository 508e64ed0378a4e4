#!/usr/bin/env bash
# Starts a Slurm of one node on this machine, and trains on two of its tasks. Needs root, and
# Debian's slurm-wlm and munge.
#
#   integration/slurm/run.sh
#
# Exit status 1 if tasks have other losses than one process, also after a SIGTERM of Slurm's.
set -uo pipefail
cd "$(dirname "$0")/../.."
for program in munged slurmctld slurmd srun; do
  [ -x "/usr/sbin/$program" ] || [ -x "/usr/bin/$program" ] || {
    echo "slurm: $program is missing: apt-get install munge slurm-wlm"
    exit 1
  }
done
export PYTHONPATH=python SCALIFY_BUILD=${SCALIFY_BUILD:-$PWD/build}
scratch=$(mktemp -d) failed=0
export SLURM_CONF=$scratch/slurm.conf SCALIFY_CACHE=$scratch/kernels

stop() {
  local daemon process
  for daemon in slurmd slurmctld munged; do
    process=$(cat "$scratch/$daemon.pid" 2>/dev/null) || continue
    kill "$process"
    while kill -0 "$process" 2>/dev/null; do sleep 0.1; done
  done
  rm -rf "$scratch"
}
trap stop EXIT

# Munge refuses a folder that others may write, and needs to pass through it.
chmod 711 "$scratch"
head -c 1024 /dev/urandom >"$scratch/key" && chmod 400 "$scratch/key"
/usr/sbin/munged --force --key-file "$scratch/key" --socket "$scratch/munge" \
  --pid-file "$scratch/munged.pid" --log-file "$scratch/munged.log" --seed-file "$scratch/seed" ||
  exit 1
host=$(hostname -s)
read -r first second < <(.venv/bin/python - <<'PY'
import socket
free = [socket.create_server(("localhost", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in free))
PY
)
cat >"$SLURM_CONF" <<CONF
ClusterName=scalify
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$first
SlurmdPort=$second
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$scratch/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:2
CONF
mkdir "$scratch/state" "$scratch/spool"
/usr/sbin/slurmctld -f "$SLURM_CONF" && /usr/sbin/slurmd -f "$SLURM_CONF" || exit 1
for _ in $(seq 60); do
  sinfo --noheader --states idle --format %n 2>/dev/null | grep -q . && break
  sleep 1
done

# train FOLDER [COMMAND...] trains there, by srun's tasks if the command is srun.
train() {
  local folder=$1
  shift
  "$@" .venv/bin/python -W ignore -m scalify.train "$scratch/config.toml" \
    --set "log.folder=$scratch/$folder" --set "train.mesh={data=2}" --set train.zero=2 \
    --set train.steps="${steps:-30}" --set schedule.kind=constant --set checkpoint.every=1000
}

losses() {
  .venv/bin/python -c 'import json, sys
for line in open(sys.argv[1]): print([json.loads(line).get(key) for key in ("step", "loss")])' \
    "$scratch/$1/log.jsonl"
}

# steps_of FOLDER prints the number of steps in its log.
steps_of() { cat "$scratch/$1/log.jsonl" 2>/dev/null | wc -l; }

# say NAME RESULT: 0 for good.
say() {
  [ "$2" = 0 ] && echo "slurm: $1: as it should be" || { echo "slurm: $1: WRONG"; failed=1; }
}

.venv/bin/python -c 'import pathlib, sys; sys.path.insert(0, "test/python")
import train_runs; train_runs.prepare(pathlib.Path(sys.argv[1]))' "$scratch"
train alone >"$scratch/alone.log" 2>&1 || { cat "$scratch/alone.log"; exit 1; }
wanted=$(losses alone)
train tasks srun -n 2 >"$scratch/tasks.log" 2>&1
[ $? = 0 ] && [ "$(losses tasks)" = "$wanted" ]
say "two tasks of srun have the losses of one process" $?

# A batch script, which Slurm ends as it does at the time limit; the same job then continues.
{
  echo '#!/bin/bash'
  declare -f train
  echo "scratch=$scratch steps=1000000; train batch srun"
} >"$scratch/batch.sh"
job=$(sbatch --parsable --ntasks 2 --output "$scratch/batch.log" "$scratch/batch.sh")
for _ in $(seq 600); do
  [ "$(steps_of batch)" -ge 3 ] && break
  sleep 0.2
done
scancel --signal TERM "$job"
for _ in $(seq 120); do
  squeue --noheader --job "$job" 2>/dev/null | grep -q . || break
  sleep 1
done
grep -q 'SIGTERM: saved after step' "$scratch/batch.log"
say "SIGTERM of Slurm saves" $?
done_steps=$(steps_of batch)
steps=$((done_steps + 5)) train batch srun -n 2 >"$scratch/again.log" 2>&1
[ $? = 0 ] && grep -q "resumed after step $done_steps" "$scratch/again.log"
say "the job continues after step $done_steps" $?
steps=$((done_steps + 5)) train whole >"$scratch/whole.log" 2>&1
[ "$(losses batch)" = "$(losses whole)" ]
say "an interrupted job has the losses of one that was not" $?
[ $failed = 0 ] || tail -n 30 "$scratch"/*.log
exit $failed
