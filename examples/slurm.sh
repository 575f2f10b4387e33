#!/usr/bin/env bash
#SBATCH --job-name=tardis-sweep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#
# A sweep on the nodes of a Slurm job: sbatch examples/slurm.sh NAME TASK [options of a sweep]
# Two minutes before the time limit the sweep is stopped cleanly and the job is queued again; the
# next run resumes it. docs/howto/slurm.md explains the parts.
set -u
name=$1
shift
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$head:$((20000 + SLURM_JOB_ID % 20000))
workers=$((SLURM_JOB_NUM_NODES - 1))

# A token of this job's own: without one, everybody in the network could run code on its nodes.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_TOKEN

ray=(ray start --block --disable-usage-stats "--num-cpus=${SLURM_CPUS_PER_TASK:-1}")
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" "${ray[@]}" --head "--port=${address##*:}" &
started=$!
until ray status --address "$address" >/dev/null 2>&1; do
    kill -0 "$started" 2>/dev/null || { echo "Ray did not start on $head" >&2; exit 1; }
    sleep 1
done
if [ "$workers" -gt 0 ]; then
    srun --overlap --nodes="$workers" --ntasks="$workers" --exclude="$head" \
        "${ray[@]}" --address "$address" &
fi

if [ -e "sweeps/$name/sweep.json" ]; then
    arguments=(--resume "$name")
else
    arguments=("$@" --name "$name")
fi
python -m orchestrator.sweep "${arguments[@]}" --address "$address" &
driver=$!
requeue=no
trap 'requeue=yes; kill -USR1 "$driver"' USR1 # the time is nearly up
trap 'kill -TERM "$driver"' TERM              # preempted: Slurm itself queues the job again

# A signal ends `wait`, and the driver then needs seconds to save everything.
while true; do
    wait "$driver"
    code=$?
    kill -0 "$driver" 2>/dev/null || break
done
trap '' TERM
kill $(jobs -p) 2>/dev/null # Ray
if [ "$requeue" = yes ] && [ "$code" -gt 128 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
