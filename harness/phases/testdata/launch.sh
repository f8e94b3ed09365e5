#!/bin/sh
# A launcher of one machine in Slurm's manner: launch.sh -n RANKS PROGRAM ARGUMENT...
ranks=$2
shift 2
rank=0
while [ "$rank" -lt "$ranks" ]; do
  SLURM_PROCID=$rank SLURM_NTASKS=$ranks "$@" &
  rank=$((rank + 1))
done
wait
