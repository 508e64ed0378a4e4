#!/usr/bin/env bash
# Simulates two hosts: network namespaces of this machine, joined by a veth pair. Needs root.
#
#   integration/hosts/run.sh [tcp] [mpi]     trains a LLaMA on two ranks of each host, by transport
#
# Exit status 1 if ranks have other bits than the script alone, or do not name a killed rank.
set -uo pipefail
cd "$(dirname "$0")/../.."
export PYTHONPATH=python SCALIFY_BUILD=${SCALIFY_BUILD:-$PWD/build} SCALIFY_COMM_TIMEOUT=120
script=(.venv/bin/python test/python/llama_ranks_script.py --mesh "data=2,tensor=2" --layers 1)
SCALIFY_SECRET=$(head -c 32 /dev/urandom | base64)
export SCALIFY_SECRET
logs=$(mktemp -d) failed=0

clear_hosts() { for host in 0 1; do ip netns del "scalify$host" 2>/dev/null; done; }
trap 'clear_hosts; rm -r "$logs"' EXIT
clear_hosts
for host in 0 1; do ip netns add "scalify$host" || exit 1; done
ip link add scalify0 netns scalify0 type veth peer name scalify1 netns scalify1 || exit 1
for host in 0 1; do
  ip -n "scalify$host" address add "10.77.0.$((host + 1))/24" dev "scalify$host"
  ip -n "scalify$host" link set "scalify$host" up
  ip -n "scalify$host" link set lo up
done

# on HOST COMMAND... runs the command there, with a host name of its own.
on() { ip netns exec "scalify$1" unshare --uts sh -c 'hostname "scalify'"$1"'"; exec "$@"' on "${@:2}"; }

# over_tcp LOG [OPTIONS] starts two ranks on each host.
over_tcp() {
  local log=$1 rank
  shift
  for rank in 0 1 2 3; do
    SCALIFY_RENDEZVOUS=10.77.0.1:19500 SCALIFY_SIZE=4 SCALIFY_JOB=hosts$$ SCALIFY_RANK=$rank \
      on $((rank / 2)) "${script[@]}" "$@" >"$log.$rank" 2>&1 &
  done
  wait
  cat "$log".?
}

# over_mpi LOG [OPTIONS] starts them by mpirun, with an agent in place of ssh. Each rank writes a
# file: output through mpirun may be lost when it ends a job.
over_mpi() {
  local log=$1 agent="$logs/agent"
  shift
  printf '#!/bin/sh\nhost=$1\nshift\nexec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"\n' >"$agent"
  chmod +x "$agent"
  on 0 timeout 300 mpirun --allow-run-as-root --oversubscribe -H scalify0:2,scalify1:2 -n 4 \
    --mca plm_rsh_agent "$agent" --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
    --mca oob_tcp_if_include 10.77.0.0/24 -x PYTHONPATH -x SCALIFY_BUILD -x SCALIFY_COMM_TIMEOUT \
    sh -c 'log=$1; shift; exec "$@" >"$log.$OMPI_COMM_WORLD_RANK" 2>&1' by_rank "$log" \
    "${script[@]}" "$@" >"$log.mpirun" 2>&1
  echo "mpirun ends with $?" >>"$log.mpirun"
  cat "$log".*
}

# say NAME RESULT: 0 for good.
say() {
  [ "$2" = 0 ] && echo "hosts: $1: as it should be" || { echo "hosts: $1: WRONG"; failed=1; }
}

alone=$("${script[@]}" | grep -oE 'bits [0-9a-f]+') || exit 1
echo "hosts: alone: $alone"
for way in ${*:-tcp mpi}; do
  "over_$way" "$logs/$way" >"$logs/all-$way"
  [ "$(grep -oE "over $way: $alone" "$logs/all-$way" | wc -l)" = 4 ]
  say "four ranks over $way have the bits of one process" $?
  "over_$way" "$logs/$way-dies" --dies 3 >"$logs/all-$way-dies"
  named=$(grep -cE '^RuntimeError: step 2, .*rank 3 died' "$logs/all-$way-dies")
  ! grep -qE 'mpirun ends with (0|124)$' "$logs/all-$way-dies" && [ "$named" = 3 ]
  say "a killed rank of the other host is named by $named of 3 over $way" $?
  [ $failed = 0 ] || cat "$logs/all-$way"
done
exit $failed
