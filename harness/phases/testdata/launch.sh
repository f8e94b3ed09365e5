#!/bin/sh
# A launcher of one machine in Slurm's manner: launch.sh -n RANKS PROGRAM ARGUMENT...
ranks=$2
shift 2
rank=0
while [ "$rank" -lt "$ranks" ]; do
  (
    SLURM_PROCID=$rank SLURM_NTASKS=$ranks "$@"
    status=$?
    [ "$status" = 0 ] || echo "srun: error: n1: task $rank: Exited with exit code $status" >&2
  ) &
  rank=$((rank + 1))
done
wait
