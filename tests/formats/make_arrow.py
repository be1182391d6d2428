"""make_arrow.py [FOLDER] - write the sample tables of the tests with pyarrow, here into samples/.

What they hold is repeated in tests/formats/arrow.c, tests/data/text/questions_arrow.c and datasets.c there."""
import pathlib
import sys

import pyarrow as pa

here = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "samples")
here.mkdir(exist_ok=True)


def write(name, schema, batches, opener=pa.ipc.new_stream, **options):
    with opener(here / name, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)


def batch_of(schema, rows):
    return pa.RecordBatch.from_pylist(rows, schema=schema)


# SQuAD as Hugging Face's datasets keep it.
squad = pa.schema(
    [("id", pa.string()), ("title", pa.string()), ("context", pa.string()), ("question", pa.string()),
     ("answers", pa.struct([("text", pa.list_(pa.string())), ("answer_start", pa.list_(pa.int32()))]))],
    metadata={"huggingface": '{"info": {}}'})


def question(number, context, texts, starts):
    return {"id": f"q{number}", "title": "Böhm", "context": context, "question": f"which {number}?",
            "answers": {"text": texts, "answer_start": starts}}


rows = [question(0, "é is one letter", ["is"], [2]), question(1, "é is one letter", ["one", "one letter"], [5, 5]),
        question(2, "another context", ["another"], [0]), question(3, "the last", ["last"], [4])]
write("squad.arrow", squad, [batch_of(squad, rows[:3]), batch_of(squad, []), batch_of(squad, rows[3:])])
write("squad-train-00000-of-00002.arrow", squad, [batch_of(squad, rows[:1])])
write("squad-train-00001-of-00002.arrow", squad, [batch_of(squad, rows[1:])])
write("squad_v2.arrow", squad, [batch_of(squad, [question(0, "a b", [], []), question(1, "a b", ["b"], [2])])])
write("squad_outside.arrow", squad, [batch_of(squad, [question(0, "a b", ["c"], [40])])])
write("squad_compressed.arrow", squad, [batch_of(squad, rows)], compression="lz4")

# The same questions with wide offsets, answers one by one, and columns that nobody asked for.
wide = pa.schema(
    [("chance", pa.float64()), ("id", pa.large_string()), ("kind", pa.dictionary(pa.int8(), pa.string())),
     ("context", pa.large_string()), ("yes", pa.bool_()), ("nothing", pa.null()), ("pair", pa.list_(pa.int16(), 2)),
     ("words", pa.map_(pa.string(), pa.int32())), ("raw", pa.binary()), ("question", pa.large_string()),
     ("answers", pa.large_list(pa.struct([("text", pa.large_string()), ("answer_start", pa.int64())])))])


def widened(row):
    answers = [{"text": text, "answer_start": start}
               for text, start in zip(row["answers"]["text"], row["answers"]["answer_start"])]
    return {"chance": 0.5, "id": row["id"], "kind": "x", "context": row["context"], "yes": True, "nothing": None,
            "pair": [1, 2], "words": [("w", 1)], "raw": b"\0", "question": row["question"], "answers": answers}


write("squad_wide.arrow", wide, [batch_of(wide, [widened(row) for row in rows])], pa.ipc.new_file)

# A task of GLUE.
glue = pa.schema([("sentence", pa.string()), ("label", pa.int64()), ("idx", pa.int32())])
texts = ["a lovely b", "c bad", "good", "d e awful", "f good g h", "bad i", None, "j lovely"]
reviews = [{"sentence": text, "label": 1 - i % 2, "idx": i} for i, text in enumerate(texts)]
write("glue.arrow", glue, [batch_of(glue, reviews[:5]), batch_of(glue, reviews[5:])])

# Every kind that is read, with nulls.
kinds = pa.schema([("i8", pa.int8()), ("u16", pa.uint16()), ("i64", pa.int64()), ("text", pa.string()),
                   ("list", pa.list_(pa.list_(pa.int32()))), ("struct", pa.struct([("a", pa.uint8()), ("b", pa.utf8())]))])
write("kinds.arrow", kinds, [batch_of(kinds, [
    {"i8": -128, "u16": 65535, "i64": -(2**62), "text": "", "list": [[1, 2], [], [3]], "struct": {"a": 255, "b": "x"}},
    {"i8": None, "u16": 0, "i64": 7, "text": None, "list": [], "struct": None},
    {"i8": 5, "u16": None, "i64": None, "text": "two\nlines", "list": None, "struct": {"a": None, "b": "yz"}}])],
    pa.ipc.new_file)
views = pa.schema([("id", pa.string()), ("seen", pa.string_view())])
write("view.arrow", views, [batch_of(views, [{"id": "a", "seen": "b"}])])
