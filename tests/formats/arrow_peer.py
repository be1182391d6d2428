"""arrow_peer.py PROGRAM QA - tables that pyarrow writes are read as pyarrow reads them, and what Hugging Face's datasets
leave in their cache is found by its name. Skipped where they are not installed; PYTHON_TORCH may name an interpreter that
has them."""
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile

if any(importlib.util.find_spec(name) is None for name in ("pyarrow", "datasets")):
    other = os.environ.pop("PYTHON_TORCH", None)
    if other:
        os.execv(other, [other] + sys.argv)
    print("SKIP arrow_peer: pyarrow and datasets are not installed")
    sys.exit(77)
os.environ["HF_HUB_OFFLINE"] = "1"

import datasets
import pyarrow as pa

program, qa = sys.argv[1:]
draw = random.Random(1)
passed = failed = 0


def check(name, right, detail=""):
    global passed, failed
    passed, failed = passed + bool(right), failed + (not right)
    if not right:
        print(f"FAIL {name}: {detail}")


# ---- Any table ----


def type_of(depth):
    kind = draw.randrange(10 if depth < 3 else 5)
    if kind < 2:
        return draw.choice([pa.string(), pa.large_string()])
    if kind < 5:
        return draw.choice([pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()])
    if kind < 8:
        return draw.choice([pa.list_, pa.large_list])(type_of(depth + 1))
    return pa.struct([(f"f{i}", type_of(depth + 1)) for i in range(draw.randrange(1, 4))])


def value_of(kind, nulls):
    if nulls and draw.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, nulls) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value_of(kind.value_type, nulls) for _ in range(draw.randrange(4))]
    if pa.types.is_integer(kind):
        bits = kind.bit_width - pa.types.is_signed_integer(kind)
        return draw.randrange(-(2**bits) if pa.types.is_signed_integer(kind) else 0, 2**bits)
    return "".join(draw.choice(["a", " ", "é", "字", "\n", '"', "🙂"]) for _ in range(draw.randrange(12)))


def any_table(number, folder):
    # What is not read stands between the others, with a name that says so.
    others = [pa.float32(), pa.bool_(), pa.null(), pa.timestamp("s"), pa.binary(), pa.binary(4), pa.large_binary(),
              pa.dictionary(pa.int32(), pa.string()), pa.date32(), pa.list_(pa.float16(), 3), pa.list_view(pa.int32()),
              pa.map_(pa.string(), pa.list_(pa.int64()))]
    fields = []
    for i in range(draw.randrange(1, 6)):
        fields.append((f"c{i}", type_of(0)))
        if draw.random() < 0.5:
            fields.append((f"other{i}", draw.choice(others)))
    schema, path = pa.schema(fields), os.path.join(folder, "table.arrow")
    rows, expected = [], []
    for _ in range(draw.randrange(40)):
        row = {name: value_of(kind, number % 2) for name, kind in fields if name[0] == "c"}
        rows.append(row)
        expected.append({name: row.get(name) for name, _ in fields})
    table = pa.Table.from_pylist(rows, schema=schema)
    if number % 3 == 0 and len(rows) > 3:  # batches that begin within their buffers
        table, expected = table.slice(2), expected[2:]
    opener = pa.ipc.new_file if number % 4 == 0 else pa.ipc.new_stream
    with opener(path, schema) as writer:
        writer.write_table(table, max_chunksize=draw.choice([1, 7, 1000]))
    said = subprocess.run([program, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        got = [json.loads(line) for line in said.stdout.splitlines()]
    except ValueError:
        got = None
    check(f"table {number}", said.returncode == 0 and got == expected, f"{schema}\n{said.stdout[:300]}")


# ---- Datasets by name ----


def cached_dataset(folder):
    datasets.disable_progress_bars()
    home, source = os.path.join(folder, "home"), os.path.join(folder, "my_squad")
    os.makedirs(source)
    rows = [{"id": f"q{i}", "context": f"one {i} two", "question": "which?",
             "answers": {"text": [str(i)], "answer_start": [4]}} for i in range(2500)]
    for split in "train", "validation":
        datasets.Dataset.from_list(rows).to_parquet(f"{source}/{split}-00000-of-00001.parquet")
    datasets.load_dataset(source, cache_dir=f"{home}/datasets")
    datasets.load_dataset(source, split="validation", cache_dir=f"{home}/datasets").save_to_disk(f"{folder}/saved/validation")
    with open(f"{folder}/predictions.json", "w") as file:
        json.dump({row["id"]: row["answers"]["text"][0] for row in rows}, file)
    for name in "my_squad", f"{folder}/saved":
        said = subprocess.run([qa, "--evaluate", f"{folder}/predictions.json", "--dataset_name", name, "--output_dir", folder],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
                              env=dict(os.environ, HF_HOME=home))
        check(name, "exact match 100.0000, F1 100.0000 of 2500 questions" in said.stdout, said.stdout)


with tempfile.TemporaryDirectory() as folder:
    for number in range(60):
        any_table(number, folder)
    cached_dataset(folder)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
