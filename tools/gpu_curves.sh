#!/bin/sh
# gpu_curves.sh BUILD MODEL SST2 PICTURES - train on the CPU and on the GPU, and draw both losses in one picture.
#
# 200 steps of a small BERT (the folder MODEL) on the texts of SST-2 (the folder SST2), and of a small ResNet on drawn pets.
# Seeds are the same, so only rounding differs. Writes PICTURES/gpu_texts.svg and PICTURES/gpu_pets.svg, and prints how
# far the losses are apart. Leaves its files in BUILD/curves.
set -eu
build=$1
model=$2
texts=$3
pictures=$4
out=$build/curves
rm -rf "$out"
mkdir -p "$out" "$pictures"

# train NAME PROGRAM FLAGS... - on both; leaves the records in $out/NAME/CPU and $out/NAME/GPU
train()
{
    name=$1
    shift
    for device in CPU GPU; do
        folder=$out/$name/run_$device
        if [ $device = CPU ]; then choice=--use_cpu; else choice='--device cuda'; fi
        # shellcheck disable=SC2086
        "$@" $choice --output_dir "$folder" --with_tracking >"$out/$name.$device.txt" 2>&1 || {
            tail -5 "$out/$name.$device.txt"
            exit 1
        }
        mv "$folder/runs/records" "$out/$name/$device"
    done
}

# compare NAME TITLE - how far the losses in values.csv are apart, and a picture of them
compare()
{
    awk -F, -v name="$1" '
        FNR == 1 { file++; for (i = 1; i <= NF; i++) column[$i] = i; next }
        $column["loss"] == "" { next }
        { loss[file, $column["step"]] = $column["loss"]; if ($column["step"] > last) last = $column["step"] }
        END {
            mean = last < 50 ? last : 50
            for (s = 1; s <= last; s++) {
                d = loss[1, s] - loss[2, s]
                d = d < 0 ? -d : d
                if (s <= 20 && d > early) early = d
                if (d > most) most = d
                cpu += loss[1, s] * (s > last - mean) / mean
                gpu += loss[2, s] * (s > last - mean) / mean
            }
            printf "%s: %d steps; losses differ by at most %.2g in the first 20 steps, %.2g in all; ", name, last, early, most
            printf "mean of the last %d: CPU %.4f, GPU %.4f\n", mean, cpu, gpu
        }' "$out/$1/CPU/values.csv" "$out/$1/GPU/values.csv"
    "$build/lockstep" plot "$out/$1/CPU" "$out/$1/GPU" --keys loss --smooth 0.9 --title "$2" --width 800 --height 400 \
        -o "$pictures/gpu_$1.svg" >"$out/$1.plot.txt"
}

train texts "$build/examples/glue" --model_name_or_path "$model" --task_name sst2 --data_dir "$texts" --max_length 64 \
    --per_device_train_batch_size 32 --learning_rate 5e-5 --max_steps 200
compare texts "MiniLM on SST-2"
"$build/examples/draw_pets" "$out/images" 100 >"$out/drawn.txt"
train pets "$build/examples/pets" --data_dir "$out/images" --model resnet18 --width 32 --no-freeze --image_size 96 \
    --epochs 10 --batch_size 24 --lr 2e-3
compare pets "ResNet-18 on drawn pets"
