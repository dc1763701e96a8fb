#!/usr/bin/env bash
# Runs a suite as a Slurm array on two virtual nodes of this host, kills one node in the middle, and compares the merged
# database with one run of the whole suite, answer by answer.
#
#   deploy/slurm/check.sh [SHARDS]        needs root and the packages slurm-wlm and munge
#
# It starts slurmctld, two slurmd and munged with their own ports and directories, below a temporary one that is removed at the end,
# and leaves any other Slurm alone. SIGKILL of a node's slurmd and of everything it started is what a power failure looks like
# to the controller: the node stops answering, and its tasks are requeued.
set -euo pipefail
shopt -s inherit_errexit

shards=${1:-6}
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=${VARIFOCAL_BIN:-$root/build/release/bin}
suite=$root/deploy/slurm/check.yaml
models=(--model=baseline="$root/models/baseline" --model=focal="$root/models/focal-constant")
work=$(mktemp -d /tmp/varifocal-slurm.XXXXXX)
export SLURM_CONF=$work/slurm.conf
started=()

say() { printf '%s %s\n' "$(date +%T)" "$*"; }
fail() {
  say "failed: $*" >&2
  tail -n 5 "$work"/job/log/*.txt "$work"/*.log 2>/dev/null | tail -n 60 >&2 || true
  exit 1
}

# The processes of a node: its slurmd, its tasks, which have its name in their environment, and the slurmstepd above each.
processes_of() {
  local node=$1 pid parent
  for pid in $(pgrep -f "slurmd -D -N $node( |\$)"); do
    if is_ours "$pid"; then echo "$pid"; fi
  done
  for pid in $(cd /proc && ls -d [0-9]*); do
    if ! variables "$pid" | grep -x "SLURMD_NODENAME=$node" >/dev/null || ! is_ours "$pid"; then continue; fi
    echo "$pid"
    parent=$(ps -o ppid= -p "$pid" | tr -d ' ')
    if ps -o args= -p "${parent:-0}" | grep '^slurmstepd' >/dev/null; then echo "$parent"; fi
  done | sort -un
}
variables() { { tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null || true; }
is_ours() { variables "$1" | grep -x "SLURM_CONF=$SLURM_CONF" >/dev/null; }

stop() {
  scancel --user=root 2>/dev/null || true
  local pid
  for pid in $(processes_of n1; processes_of n2) "${started[@]}"; do
    pkill -KILL -P "$pid" 2>/dev/null || true  # runuser's munged
    kill -KILL "$pid" 2>/dev/null || true
  done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT

start_munge() {
  mkdir -p "$work/munge"
  dd if=/dev/urandom of="$work/munge/key" bs=128 count=1 status=none
  chown -R munge: "$work/munge"
  chmod 711 "$work"
  chmod 400 "$work/munge/key"
  runuser -u munge -- munged --foreground --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
    --log-file="$work/munge/log" --seed-file="$work/munge/seed" >/dev/null 2>&1 &
  started+=($!)
}

start_slurm() {
  mkdir -p "$work/spool" "$work/state"
  cat >"$SLURM_CONF" <<CONF
ClusterName=check
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$((20000 + $$ % 10000))
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=50000,batch_sched_delay=0,sched_interval=1
SlurmdTimeout=10
ReturnToService=2
MpiDefault=none
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((30000 + $$ % 10000)) CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((40000 + $$ % 10000)) CPUs=1 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
  slurmctld -D >/dev/null 2>&1 &
  started+=($!)
  local node
  for node in n1 n2; do start_node "$node"; done
  for _ in {1..60}; do
    if [[ $(sinfo --noheader --format=%T --Node 2>/dev/null | grep -c idle) == 2 ]]; then return; fi
    sleep 0.5
  done
  fail "the nodes are not idle after 30 s: $(sinfo 2>&1)"
}

start_node() {
  mkdir -p "$work/spool/$1"
  slurmd -D -N "$1" >/dev/null 2>&1 &
  started+=($!)
}

# The lines of `squeue` as "TASK STATE NODE".
queue() { squeue --noheader --array --format='%K %T %N' --job="$1" 2>/dev/null || true; }

[[ $EUID == 0 ]] || fail "it must run as root"
say "one run of the whole suite"
"$bin/varifocal" run "$suite" "${models[@]}" --db="$work/whole.db" >"$work/whole.log" 2>&1

say "starting munged, slurmctld and the nodes n1 and n2 ($(slurmctld -V))"
start_munge
start_slurm
"$bin/varifocal" slurm "$suite" "${models[@]}" --shards="$shards" --dir="$work/job" --gpus=0 --threads=1 >"$work/job.sh"
say "$(bash "$work/job.sh" | tr '\n' ';')"
array=$(squeue --noheader --format='%A' --sort=i | sed -n 1p)

say "waiting until n2 has a task with answers"
task=
for _ in {1..600}; do
  task=$(queue "$array" | awk '$2 == "RUNNING" && $3 == "n2" { print $1; exit }')
  if [[ -n $task && -e $work/job/shard-$task.db ]]; then
    answers=$(sqlite3 -readonly "$work/job/shard-$task.db" 'SELECT count(*) FROM generations' 2>/dev/null || echo 0)
    if ((answers > 0)); then break; fi
  fi
  sleep 0.1
done
[[ -n $task ]] || fail "no task ran on n2"
mapfile -t pids < <(processes_of n2)
kill -KILL "${pids[@]}" 2>/dev/null || true
kept=$(sqlite3 "$work/job/shard-$task.db" 'SELECT count(*) FROM generations')
say "killed n2 (${#pids[@]} processes) while it ran shard $task, which had $kept answers"

for _ in {1..120}; do
  if sinfo --noheader --format=%T --nodes=n2 | grep down >/dev/null; then break; fi
  sleep 0.5
done
say "slurmctld sees: $(sinfo --noheader --format='%N %T' --Node | tr '\n' ';') shard $task is $(queue "$array" | awk -v t="$task" '$1 == t { print $2 }')"
start_node n2
say "started n2 again"

for _ in {1..1200}; do
  if [[ -z $(squeue --noheader 2>/dev/null) ]]; then break; fi
  sleep 0.5
done
[[ -e $work/job/report.html ]] || fail "no report: $(squeue 2>&1)"
starts=$(sqlite3 "$work/job/shard-$task.db" 'SELECT count(*) FROM executions')
say "shard $task ran in $starts starts; its log:"
grep -E 'already|Interrupted|succeeded' "$work/job/log/shard-$task.txt" | tail -n 3 | sed 's/^/    /' || true
((starts >= 2)) || fail "the killed shard was not started again"
say "$(sed -n 1p "$work/job/log/join.txt")"
"$bin/varifocal" diff "$work/whole.db" "$work/job/all.db" || fail "the merged shards differ from the single run"
say "the merged shards equal the single run"
