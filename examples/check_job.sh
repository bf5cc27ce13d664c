#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=8 --time=24:00:00
# Checks a mesh on the nodes that Slurm has given, before any process starts: sbatch check_job.sh "dp=* tp=4"
# If srun starts one torchrun on each node, a task is not a rank: --world $((SLURM_NNODES * SLURM_GPUS_ON_NODE))
set -euo pipefail
mesh=$1
rankmesh check "$mesh" --world "$SLURM_NTASKS" --on <(env) --keep tp:node --engine gloo  # exit status 1 ends the job here
srun python train.py "$mesh"
