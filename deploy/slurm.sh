#!/bin/sh
#SBATCH --job-name=lockstep-pets
#SBATCH --nodes=1               # or more: they train together
#SBATCH --ntasks-per-node=1     # one launcher per host, which starts the processes
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120       # two minutes before the end; the launcher forwards it to the program
#SBATCH --requeue               # preempted jobs restart from the latest checkpoint
#SBATCH --open-mode=append
#
# sbatch deploy/slurm.sh        uses DATA, OUTPUT and PROCESSES (per host) from the environment, or the defaults below
set -eu
data=${DATA:-$HOME/pets/images}
output=${OUTPUT:-$HOME/pets/out}
processes=${PROCESSES:-1}

nodes=${SLURM_JOB_NUM_NODES:-1}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 20000))

exec srun --kill-on-bad-exit=1 sh -c 'exec lockstep launch --node-rank "$SLURM_NODEID" "$@"' launch \
    --nnodes "$nodes" --nproc-per-node "$processes" --master-addr "$first" --master-port "$port" \
    --rdzv-id "$SLURM_JOB_ID" --max-restarts 10 \
    pets --data_dir "$data" --output_dir "$output" --model resnet10t --no-freeze --image_size 64 --epochs 8 \
    --batch_size 32 --lr 5e-3 --checkpointing_steps 10 --resume_from_checkpoint latest
