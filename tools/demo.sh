#!/bin/sh
# demo.sh BUILD - draw pictures of pets, learn in two processes to tell them apart, and name three never seen before.
#
# Leaves in BUILD/demo: the pictures, model.safetensors, the records of the training, and its curve (loss.svg).
set -eu
build=$1
out=$build/demo

rm -rf "$out"
mkdir -p "$out/held_out"
"$build/examples/draw_pets" "$out/images" 160
mv "$out/images/abyssinian_cat_17.jpg" "$out/images/beagle_42.jpg" "$out/images/tortoise_63.jpg" "$out/held_out"

"$build/lockstep" launch -n 2 "$build/examples/pets" --data_dir "$out/images" --output_dir "$out" --model resnet10t --width 32 \
    --no-freeze --image_size 64 --epochs 10 --batch_size 16 --lr 5e-3 --with_tracking
"$build/lockstep" plot "$out/runs/records" --keys loss --smooth 0.8 -o "$out/loss.svg"
"$build/examples/pets" --output_dir "$out" --predict "$out"/held_out/*.jpg
echo "model: $out/model.safetensors   curve: $out/loss.svg   pictures: $out/images"
