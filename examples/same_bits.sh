#!/bin/sh
# A program prints the same line on 3 threads, on 2 processes of Gloo and on 4 of MPI: same_bits.sh PROGRAM MPIEXEC [FLAGS...]
set -eu
program=$1
shift
store=$(mktemp -d)
trap 'rm -r "$store"' EXIT
threads=$("$program" "x=1 y=3 z=1")
gloo=$(
    export RANKMESH_STORE="$store" RANKMESH_JOB=bits WORLD_SIZE=2
    for rank in 0 1; do RANK=$rank "$program" "x=1 y=1 z=2" & done
    wait
)
mpi=$("$@" -n 4 "$program" "x=2 y=1 z=2")
printf '%s\n' "threads: $threads" "gloo: $gloo" "mpi: $mpi"
[ -n "$threads" ] && [ "$threads" = "$gloo" ] && [ "$threads" = "$mpi" ]
