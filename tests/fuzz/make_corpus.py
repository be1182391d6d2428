#!/usr/bin/env python3
"""make_corpus.py - write the first inputs of every harness into corpus/: small files of each kind, and hostile ones.

What fuzzing has found lies there too, under the name it was found by; this script leaves it alone."""
import gzip
import io
import json
import os
import struct
import zipfile
import zlib

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def put(harness, name, data):
    os.makedirs(os.path.join(HERE, harness), exist_ok=True)
    with open(os.path.join(HERE, harness, name), "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy(descr, shape, data, fortran=False):
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def zipped(files, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, method)
    return out.getvalue()


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def storage(key, count, kind="FloatStorage"):
    return b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(key) + text("cpu") + b"K" + bytes([count]) + b"tQ"


def view(key, count, shape, stride):
    numbers = lambda values: b"(" + b"".join(b"K" + bytes([v]) for v in values) + b"t"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(key, count) + b"K\0" + numbers(shape) + numbers(stride)
            + b"\x89ccollections\nOrderedDict\n)RtR")


def archives():
    put("archive", "safetensors", safetensors({"__metadata__": {"format": "pt"}, "a": tensor("F32", [2], 0, 8),
                                               "b": tensor("BF16", [1, 2], 8, 12)}, bytes(12)))
    put("archive", "safetensors_hole", safetensors({"a": tensor("U8", [1], 1, 2)}, bytes(2)))
    put("archive", "npy", npy("<f4", "(2, 2)", bytes(16)))
    put("archive", "npy_fortran", npy("<i8", "(1, 2)", bytes(16), True))
    put("archive", "npz", zipped({"x.npy": npy("|u1", "(3,)", bytes(3))}, zipfile.ZIP_DEFLATED))
    weights = b"\x80\x02}(" + text("w") + view("0", 4, [2, 2], [2, 1]) + text("v") + view("0", 4, [4], [1]) + b"u."
    put("archive", "torch", zipped({"a/data.pkl": weights, "a/byteorder": "little", "a/data/0": bytes(16)}))
    legacy = (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}" + text("little_endian")
              + b"\x88s." + b"\x80\x02" + view("0", 4, [4], [1]) + b".\x80\x02]" + text("0") + b"a."
              + struct.pack("<Q", 4) + bytes(16))
    put("archive", "torch_legacy", legacy)
    array = (b"\x80\x03cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85C\1b\x87R(K\1K\4\x85cnumpy\ndtype\n"
             + text("u1") + b"\x89\x88\x87R\x89C\4abcdtb.")
    put("archive", "pickle_array", array)
    put("archive", "pickle_values", b"\x80\x02}(" + text("a") + b"K\1" + text("b") + b"G" + struct.pack(">d", 1.5) + text("c")
        + b"](K\1\x88Ne" + text("d") + text("words") + b"u.")
    put("archive", "pickle_shared", b"\x80\x02]K\1a" + b"2\x86" * 30 + b".")
    put("archive", "pickle_runs", b"\x80\x02cos\nsystem\n" + text("true") + b"\x85R.")
    put("archive", "pickle_encode", b"\x80\x02c_codecs\nencode\n" + text("ab") + text("latin1") + b"\x86R.")


def texts():
    put("index", "one", '{"metadata":{"total_size":1},"weight_map":{"a":"s"}}')
    put("index", "missing", '{"weight_map":{"a":"s","b":"s"}}')
    put("index", "outside", '{"weight_map":{"a":"../s"}}')
    put("json", "all", '{"a":[1,-2.5e3,true,false,null,"\\u00e4\\ud83d\\ude00\\n"],"b":{},"c":[]}')
    put("json", "many", json.dumps({"k%d" % i: i for i in range(40)}))
    put("json", "escapes", b'["\xc3\xa4\\"\\\\\\/\\b\\f\\n\\r\\t", 0.1, 1e308, -0]')
    accelerate = "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: MULTI_CPU\nmachine_rank: 0\n" \
                 "mixed_precision: bf16\nnum_machines: 2\nnum_processes: 4\nrdzv_backend: static\nuse_cpu: true\n"
    for harness in ("yaml", "config"):
        put(harness, "accelerate", accelerate)
        put(harness, "nested", "a:\n  b: 'x # y'\n  c:\n  - 1\n  - k: \"v\\n\"\n# end\nd: ~\n")
    put("config", "json", '{"num_processes":2,"mixed_precision":"no"}')
    put("hosts", "slurm", b"\0gpu[01-03,07],login,rack[1-2]n[1-4]")
    put("hosts", "openmpi", b"\1a slots=4 max_slots=8 # fast\nb\n")
    put("hosts", "mpich", b"\1a:4\nb:2\na:1\n")
    put("hosts", "tasks", b"\x022(x3),1")
    put("http", "page", "GET / HTTP/1.1\r\nHost: 127.0.0.1:6116\r\nAccept: */*\r\n\r\n")
    put("http", "run", "GET /api/run?name=a%2fb HTTP/1.1\r\nHost: localhost\r\n\r\n")
    put("http", "escape", "HEAD /%4 HTTP/1.1\r\nhost:[::1]\r\n\r\n")
    put("http", "stranger", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: example.org\r\n\r\n")
    put("identity", "torchrun", "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=a\nMASTER_PORT=29500\n")
    put("identity", "openmpi", "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=0\n")
    put("identity", "hydra", "PMI_RANK=1\nPMI_SIZE=2\nPMI_FD=5\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2\n")
    put("identity", "slurm", "SLURM_PROCID=3\nSLURM_NTASKS=4\nSLURM_LOCALID=1\nSLURM_NODEID=1\nSLURM_STEP_ID=0\n"
        "SLURM_JOB_NODELIST=n[1-2]\nSLURM_TASKS_PER_NODE=2(x2)\n")
    put("identity", "pytorchjob", "PET_NNODES=2\nPET_NODE_RANK=1\nMASTER_ADDR=m\nMASTER_PORT=23456\nWORLD_SIZE=2\nRANK=1\n")
    sizes = {"vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
             "max_position_embeddings": 6}
    put("bert", "bert", json.dumps({"model_type": "bert", **sizes, "id2label": {"0": "a"}, "label2id": {"a": 0}}))
    put("bert", "roberta", json.dumps({"model_type": "roberta", **sizes, "problem_type": "regression", "pad_token_id": 1}))
    put("bert", "distilbert", '{"model_type": "distilbert", "vocab_size": 9, "dim": 4, "n_layers": 1, "n_heads": 2, '
        '"hidden_dim": 8, "max_position_embeddings": 6, "activation": "relu", "qa_dropout": 0.5}')
    put("bert", "one_way", json.dumps({"model_type": "bert", **sizes, "id2label": {"0": "a", "1": "b", "2": "c"}}))
    put("bert", "huge", json.dumps({"model_type": "bert", **sizes, "vocab_size": 1e300, "num_labels": -(2 ** 63)}))
    put("manifest", "empty", '{\n  "format": "lockstep checkpoint",\n  "version": 1,\n  "epoch": 3,\n  "files": []')
    put("manifest", "file", '{\n  "format": "lockstep checkpoint",\n  "version": 1,\n  "files": [{"name": "state.json", "bytes": 1,'
        ' "xxh64": "0123456789abcdef"}, {"name": "../x"}]')


def messages():
    put("wire", "messages", '{"hello":1,"host":"h"}\n{"beat":1}\n\n')
    put("wire", "broken", '{"hello":\n[1]\n"x"\n')
    for choice in (1, 3, 9, 17):
        put("leader", "proved_%d" % choice, bytes([choice]) + b'{"over":1,"well":true}\n{"failed":1,"code":3,"cause":"x"}\n'
            b'{"beat":1}\n{"leave":15}\n')
    put("leader", "stranger", b'\0{"hello":1,"proof":"x","challenge":"y","host":"\\u001b[2J","rank":1,"processes":2}\n')
    put("pmi", "pmi1", b"\1cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
        b"cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\ncmd=my_kvsname rc=0 kvsname=kvs_1\n"
        b"cmd=put_result rc=0\ncmd=barrier_out rc=0\ncmd=get_result rc=0 value=00\n")
    pmi2 = lambda words: ("%6d%s" % (len(words), words)).encode()
    greeting = b"\0cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"
    put("pmi", "pmi2", greeting + pmi2("cmd=fullinit-response;pmi-version=2;rank=0;size=2;rc=0;") + pmi2("cmd=kvs-put-response;rc=0;")
        + pmi2("cmd=kvs-fence-response;rc=0;") + pmi2("cmd=kvs-get-response;found=TRUE;value=00;rc=0;"))
    put("pmi", "pmi2_negative", greeting + b"    -5cmd=fullinit-response;")


def meetings():
    """What processes say to each other before a run: the store, the name on a host, PMIx and UCX."""
    give = lambda n: b'{"give":%d,"bytes":"0100000000000000"}\n' % n
    take = lambda n: b'{"take":%d,"bytes":"01000000000000000200000000000000"}\n' % n
    put("store", "process", b"\2" + give(1) + give(2))
    put("store", "process_nothing", b"\2" + give(1) + b'{"give":2,"bytesB":"0100000000000000"}\n')
    put("store", "process_other_size", b"\2" + b'{"give":1,"bytes":"01"}\n{"give":-1,"bytes":"0g"}\n')
    put("store", "process_stranger", b"\0" + b'{"hello":2,"proof":"x","challenge":"y","host":"\\u001b","self":"1","rank":1,'
        b'"world":2,"attempt":0}\n')
    put("store", "rank_0", b"\3" + take(1) + take(2))
    put("store", "rank_0_pieces", b"\3" + b'{"take":1,"bytes":"0100"}\n{"take":1,"bytes":"0000000000000200000000000000"}\n'
        b'{"failed":"x"}\n')
    put("store", "rank_0_more", b"\3" + b'{"take":1,"bytes":"%s"}\n' % (b"00" * 40))
    put("store", "rank_0_stranger", b"\1" + b'{"welcome":"x"}\n{"refused":"no"}\n')
    greeting = lambda rank, size: struct.pack("<QQiiii", 0, 7, rank, size, 99, 0)
    for name, rank, size in (("claim", 1, 2), ("other_size", 1, 3), ("rank_0", 0, 2), ("beyond", 512, 2), ("negative", -1, 2)):
        put("meet", name, b"\2" + greeting(rank, size))
    put("meet", "other_job", b"\0" + greeting(1, 2))
    put("meet", "short", b"\2" + greeting(1, 2)[:20])
    for name, verdict in (("welcome", 0), ("refused", 1), ("taken", 2), ("later", 3), ("unheard_of", 9)):
        put("meet", "answer_" + name, b"\7" + struct.pack("<Qiiii", 0, verdict, 2, 98, 99))
    put("meet", "answer_no_file", b"\3" + struct.pack("<Qiiii", 0, 0, 2, 98, 99))
    put("meet", "answer_short", b"\7" + bytes(9))
    put("meet", "answer_other_job", b"\5" + struct.pack("<Qiiii", 1, 0, 2, 98, 99))
    world = lambda rank, size: struct.pack(">IBBBBI", rank, 0, 0, 0, 14, size)
    value = lambda size: bytes([0, 0, 27, size])
    put("pmix", "two", world(0, 2) + b"\0\0\0" + value(8) + value(8) + b"\0\0\1\0\0" + value(8) + value(8))
    put("pmix", "another_size", world(1, 2) + b"\0\0\0" + value(9))
    put("pmix", "nothing", world(0, 2) + b"\0\0\0\0\xff")
    put("pmix", "no_world", world(0, 0))
    put("pmix", "rank_beyond", world(2, 2))
    put("pmix", "world_negative", world(0, 0xFFFFFFFF))
    put("pmix", "world_nothing", struct.pack(">IBBB", 0, 0, 0, 255))
    event = lambda what, channel, rank: struct.pack("<BQ", what, channel << 32 | rank)
    put("ucx", "receive", event(1, 0, 2) + event(0x40, 0, 1) + event(2, 0, 0))
    put("ucx", "bye", event(0, 2, 1) + event(0, 2, 2) + event(2, 0, 0))
    put("ucx", "bye_of_nobody", event(0, 2, 3) + event(0, 2, 0xFFFFFFFF))
    put("ucx", "any", event(5, 0, 0) + event(0x40, 1, 7) + event(2, 0, 0))
    put("ucx", "cut_long", event(1, 0, 2) + event(0x90, 0, 1) + event(2, 0, 0) + event(1, 0, 3) + event(3, 0, 3))


def masked_crc(data):
    table = []
    for i in range(256):
        value = i
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def event(step, tag, value):
    inner = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    body = b"\x09" + struct.pack("<d", 1.0) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    length = struct.pack("<Q", len(body))
    return length + masked_crc(length) + body + masked_crc(body)


def values():
    put("history", "jsonl", '{"step":1,"time":2.5,"loss":3}\n{"step":2,"loss":null,"lr":1e-3}\n{"step":1,"loss":2}\n')
    put("history", "csv", 'step,time,loss,"a,""b"""\n1,2,3,4\n2,,5,\n1,1,1,1\n')
    put("history", "csv_zero", b"step,a\0,a\0bbbb\n1,1,1\n")
    put("history", "events", event(1, "loss", 2.0) + event(2, "loss", 1.0) + event(2, "lr", 0.5))
    head = struct.pack(">HBBIII", 0, 8, 3, 2, 2, 2)
    put("idx", "images", b"\0" + head + bytes(8))
    put("idx", "images_gzip", b"\0" + gzip.compress(head + bytes(8), mtime=0))
    put("idx", "labels", b"\1" + struct.pack(">HBBI", 0, 8, 1, 2) + b"\0\1")
    put("idx", "labels_cut", b"\1" + struct.pack(">HBBI", 0, 8, 1, 9) + b"\0")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, rows, extra=b""):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)) + extra
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def jpeg():
    """A grey picture of 16 x 8 pixels: two blocks, DC alone."""
    segment = lambda marker, data: b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data
    codes = lambda kind, symbol: bytes([kind]) + bytes([1] + [0] * 15) + bytes([symbol])
    return (b"\xff\xd8" + segment(0xDB, b"\0" + bytes([1] * 64)) + segment(0xC0, struct.pack(">BHHB", 8, 8, 16, 1) + b"\1\x11\0")
            + segment(0xC4, codes(0, 0)) + segment(0xC4, codes(0x10, 0)) + segment(0xDA, b"\1\1\0\0\x3f\0") + b"\x0f\xff\xd9")


def pictures():
    rgb = png(2, 2, 8, 2, b"\0" + bytes(range(6)) + b"\1" + bytes(range(6)))
    for choice in range(8):
        put("image", "png_%d" % choice, bytes([choice]) + rgb)
    put("image", "png_palette", b"\0" + png(4, 1, 2, 3, b"\0\x1b", chunk(b"PLTE", bytes(range(12)))))
    put("image", "png_grey16", b"\0" + png(1, 1, 16, 0, b"\0\x12\x34"))
    for choice in (0, 1, 2, 23):
        put("image", "jpeg_%d" % choice, bytes([choice]) + jpeg())


def tokenizers():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "the", "##\u0327", "\u4e2d", "caf", "##e"]
    lines = "\n".join(tokens).encode() + b"\n"
    text = "The unaffable [MASK] caf\u00e9\u0301 \u4e2d\u4e2d x\u0327\u0301 \uac01.".encode() + b"\xff\xed\xa0\x80 \0"
    for choice in (0, 2, 8, 24, 46):
        put("tokenizer", "lines_%d" % choice, bytes([choice]) + lines + b"\xfe" + text)
    put("tokenizer", "lines_twice", b"\0[UNK]\r\na\na \n\n\n##\xfea aa")
    put("tokenizer", "lines_not_text", b"\0[UNK]\n\xff\n")
    token = lambda i, content, **other: dict({"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                                              "normalized": False, "special": True}, **other)
    special = lambda name, type_id=0: {"SpecialToken": {"id": name, "type_id": type_id}}
    sequence = lambda name, type_id=0: {"Sequence": {"id": name, "type_id": type_id}}
    whole = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [token(2, "[CLS]"), token(4, "[MASK]", lstrip=True), token(13, "Caf\u00c9", normalized=True, special=False),
                         token(14, "<x>", rstrip=True)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [special("[CLS]"), sequence("A"), special("[SEP]")],
                           "pair": [special("[CLS]"), sequence("A"), special("[SEP]"), sequence("B", 1), special("[SEP]", 1)],
                           "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in (("[CLS]", 2), ("[SEP]", 3))}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": {name: i for i, name in enumerate(tokens)}},
    }
    for choice in (1, 3, 9, 25, 47):
        put("tokenizer", "json_%d" % choice, bytes([choice]) + json.dumps(whole).encode() + b"\xfe" + text)
    bert = dict(whole, post_processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})
    put("tokenizer", "json_bert", b"\1" + json.dumps(bert).encode() + b"\xfe" + text)
    far = dict(whole, model=dict(whole["model"], vocab={"[UNK]": 0, "a": 1 << 40}))
    put("tokenizer", "json_far", b"\1" + json.dumps(far).encode())
    twice = dict(whole, model=dict(whole["model"], vocab={"[UNK]": 0, "a": 0}))
    put("table", "tsv", b"\2a\tb\r\n1\t\"2\n\n\tx")
    put("table", "csv", b"\3a,b\n\"1, \"\"x\"\"\",2\r\n,\"two\nlines\"\r\n")
    put("table", "csv_open", b'\1a,"b')
    put("table", "mark", b"\0\xef\xbb\xbfa\tb")
    question = {"id": "1", "question": "q?", "answers": [{"text": "b", "answer_start": 2}], "is_impossible": False}
    put("questions", "whole", json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": [
        {"context": "a b", "qas": [question, dict(question, answers=[], is_impossible=True)]}]}]}))
    put("questions", "no_answers", '{"data":[{"paragraphs":[{"context":"c","qas":[{"id":"x","question":"q"}]}]}]}')
    put("tokenizer", "json_twice", b"\1" + json.dumps(twice).encode())


def tables():
    samples = os.path.join(HERE, "..", "..", "formats", "samples") # which pyarrow wrote
    for name in ("kinds", "squad", "squad_wide", "squad_compressed", "view"):
        with open(os.path.join(samples, name + ".arrow"), "rb") as file:
            data = file.read()
        put("arrow", name, data)
        if name.startswith("squad"):
            put("questions", name, data)
        put("arrow", name + "_cut", data[:len(data) * 2 // 3])


for make in (archives, texts, messages, meetings, values, pictures, tokenizers, tables):
    make()
