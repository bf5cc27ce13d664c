#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slurm.sh RANKMESH PROGRAM SUITE PART: runs them, and of the suite that part, on Gloo under a Slurm of one node that is
# started for it and stopped again: with nothing set, and with a folder.
set -u
rankmesh=$1
program=$2
suite=$3
part=$4

PATH=$PATH:/usr/sbin
for tool in munged slurmctld slurmd salloc srun; do
    command -v $tool >/dev/null || { echo "skipped: no $tool; apt-get install slurm-wlm munge"; exit 0; }
done

limit=1200 # seconds after which every process ends, whatever happens to this one
home=$(mktemp -d /tmp/rankmesh-slurm-XXXXXX)
daemons=()
start() { # NAME COMMAND...: a daemon
    timeout -k 5 $limit "${@:2}" >"$home/$1.log" 2>&1 &
    daemons+=($!)
}
stop() {
    kill "${daemons[@]}" 2>/dev/null
    wait
    # What is left of steps that went wrong: theirs is the only Slurm of this configuration.
    for process in /proc/[0-9]*; do
        grep -qsz "^SLURM_CONF=$home/" "$process/environ" && [ "${process#/proc/}" != $$ ] && kill -9 "${process#/proc/}"
    done
    rm -rf "$home"
} 2>/dev/null
trap stop EXIT
trap 'exit 1' INT TERM HUP

free_port() {
    local port
    for _ in $(seq 100); do
        port=$((RANDOM % 20000 + 10000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo $port
}

node=$(uname -n | cut -d. -f1)
user=$(id -un)
chmod 755 "$home"
mkdir -m 755 "$home/munge" "$home/state" "$home/spool"
(umask 077 && head -c 128 /dev/urandom >"$home/munge/key")
cat >"$home/slurm.conf" <<END
ClusterName=rankmesh
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$home/munge/socket
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$node NodeAddr=127.0.0.1 CPUs=8
PartitionName=all Nodes=$node Default=YES
END
# A container may have no control groups that could be used: those that are looked for are in an empty folder.
printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s/cgroup\n' "$home" >"$home/cgroup.conf"
export SLURM_CONF=$home/slurm.conf

start munged munged -F --force --key-file="$home/munge/key" --socket="$home/munge/socket" --seed-file="$home/munge/seed" \
    --pid-file="$home/munge/pid" --log-file="$home/munge/log"
for _ in $(seq 100); do [ -S "$home/munge/socket" ] && break; sleep 0.1; done
start slurmctld slurmctld -D
start slurmd slurmd -D
for _ in $(seq 300); do
    state=$(timeout 5 sinfo -h -o %T 2>/dev/null)
    [ "$state" = idle ] && break
    sleep 0.1
done
if [ "$state" != idle ]; then
    echo "skipped: Slurm does not start here; its node is '$state'"
    tail -n 20 "$home"/*.log "$home/munge/log"
    exit 0
fi

failures=0
check() { # COUNT PATTERN FILE: that so many lines of a file match
    local count
    count=$(grep -c -E -- "$2" "$3")
    [ "$count" -eq "$1" ] && return
    echo "instead of $1, $count lines are: $2"
    cat "$3"
    failures=$((failures + 1))
}
step() { # FILE srun's words: a step of 4 processes in the allocation of 8
    timeout -k 5 300 srun --overlap -n 4 "${@:2}" </dev/null >"$home/$1" 2>&1
}
run_all() {
    unset RANKMESH_ENGINE RANKMESH_STORE RANKMESH_JOB
    step alone "$program" log
    check 4 "rendezvous: rank [0-3] \(SLURM_PROCID\) of 4 \(SLURM_STEP_NUM_TASKS\), store 'tcp://$node:[0-9]+-[0-9]+' \(SLURM_STEP_NODELIST\), job '[0-9.]*' " \
        "$home/alone"
    check 4 '^rank [0-3] ended well' "$home/alone"
    step alone-run "$rankmesh" run 'dp=2 tp=2' --engine gloo --bytes 1024
    check 1 '^all 66 ok in ' "$home/alone-run"
    step alone-throw "$program" throw-before-join
    check 3 'join: PeerLost \{1\} after .*rank 1 of 4 left its world by an exception' "$home/alone-throw"

    export RANKMESH_STORE=$home/store
    step folder "$program" log
    check 4 "rendezvous: rank [0-3] \(SLURM_PROCID\) of 4 \(SLURM_STEP_NUM_TASKS\), store '[^']*' \(RANKMESH_STORE\), job '[0-9.]*' \(SLURM_JOB_ID, SLURM_STEP_ID\)" \
        "$home/folder"
    check 4 '^rank [0-3] ended well' "$home/folder"
    step folder-run "$rankmesh" run 'dp=2 tp=2' --engine gloo --bytes 1024
    check 1 '^all 66 ok in ' "$home/folder-run"
    step folder-suite "$suite" --gtest_brief=1 --gtest_filter="$part"
    check 1 '  PASSED  ' "$home/folder-suite"
    check 0 'rank [0-3]: |FAILED' "$home/folder-suite"
    return $failures
}
export rankmesh program suite part home node failures
export -f check step run_all
timeout -k 5 1100 salloc -n 8 -Q bash -c run_all || exit 1
echo "all is well"
