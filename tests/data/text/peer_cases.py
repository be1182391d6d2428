#!/usr/bin/env python3
"""peer_cases.py FOLDER DATA - texts, and what Hugging Face's tokenizers makes of them, for peer.c.

Writes FOLDER/cases: int32 numbers in the machine's order, and texts filled up to whole numbers. DATA holds vocabularies
and SQuAD; what is not there is left out, and named on the last line of the output."""
import json
import os
import random
import struct
import sys
import unicodedata

from tokenizers import (AddedToken, BertWordPieceTokenizer, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors)

FOLDER, DATA = sys.argv[1:3]
rng = random.Random(20)
out = open(os.path.join(FOLDER, "cases"), "wb")
missing = []


def numbers(*values):
    out.write(struct.pack("=%di" % len(values), *values))


def text(data):
    numbers(len(data))
    out.write(data + bytes(-len(data) % 4))


def none(values):
    return [-1 if value is None else value for value in values]


def window(index, e):
    numbers(index, len(e.ids))
    for values in (e.ids, [a for a, _ in e.offsets], [b for _, b in e.offsets], none(e.word_ids), none(e.sequence_ids),
                   e.type_ids, e.special_tokens_mask, e.attention_mask):
        numbers(*values)


def cleaned(decoded):
    """What transformers does with a decoded text."""
    for blank in (" .", " ?", " !", " ,"):
        decoded = decoded.replace(blank, blank[1:])
    decoded = decoded.replace(" ' ", "'")
    for blank in (" n't", " 'm", " 's", " 've", " 're"):
        decoded = decoded.replace(blank, blank[1:])
    return decoded


STRATEGIES = ["longest_first", "only_first", "only_second"]


def case(vocabulary, texts, seconds=None, rules=(True, True, True, True), special=True, limit=-1, strategy=0, stride=0,
         padding=0, multiple=1, left=False, peer=None):
    """rules: lower case, strip accents, split Chinese, clean text; -1: as the file says. texts: bytes. vocabulary: a
    vocab.txt, or the folder that `peer` was saved to."""
    if not peer:
        lower, strip, chinese, clean = rules
        peer = BertWordPieceTokenizer(vocabulary, lowercase=lower, strip_accents=strip, handle_chinese_chars=chinese,
                                      clean_text=clean)
    if limit > 0:
        peer.enable_truncation(limit, stride=stride, strategy=STRATEGIES[strategy])
    if padding:
        peer.enable_padding(direction="left" if left else "right", pad_id=peer.token_to_id("[PAD]"),
                            length=limit if padding == 2 else None, pad_to_multiple_of=multiple if multiple > 1 else None)
    decoded = [data.decode(errors="replace") for data in texts]
    if seconds:
        decoded = list(zip(decoded, [data.decode(errors="replace") for data in seconds]))
    encodings = getattr(peer, "_tokenizer", peer).encode_batch(decoded, add_special_tokens=special)
    text(vocabulary.encode())
    numbers(*rules, special, limit, strategy, stride, padding, multiple, left, len(texts), seconds is not None)
    for i, data in enumerate(texts):
        text(data)
        if seconds:
            text(seconds[i])
    numbers(sum(1 + len(e.overflowing) for e in encodings))
    for i, e in enumerate(encodings):
        for each in [e] + e.overflowing:
            window(i, each)
    for skip in (True, False):
        text(cleaned(peer.decode(encodings[0].ids, skip_special_tokens=skip)).encode())


# ---- texts from everywhere ----

MARKS = [chr(c) for c in range(0x110000) if unicodedata.combining(chr(c))]
RANGES = [(0x20, 0x7e), (0, 0x1f), (0x7f, 0x17f), (0x180, 0x24f), (0x300, 0x36f), (0x370, 0x52f), (0x590, 0x6ff),
          (0x900, 0xdff), (0xe00, 0xfff), (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x2bff),
          (0x3000, 0x30ff), (0x3400, 0x3420), (0x4e00, 0x4e60), (0xac00, 0xd7a3), (0xe000, 0xe010), (0xf900, 0xfaff),
          (0xfb00, 0xfdff), (0xfe00, 0xffff), (0x10400, 0x1044f), (0x1d100, 0x1d1ff), (0x1d400, 0x1d7ff),
          (0x1f300, 0x1faff), (0x20000, 0x20010), (0x2f800, 0x2fa1f), (0xe0000, 0xe01ef), (0x10fff0, 0x10ffff)]
WORDS = ("the of and to in a is that was he for it with as his on be at by i this had not are but from or have an they "
         "unaffable tokenization transformers internationalisation n't don't we've [CLS] [SEP] [MASK] [UNK] [PAD] [mask] "
         "[CLS [[SEP]] resume naive caf").split()


def character():
    if rng.random() < 0.1:
        return rng.choice(MARKS)
    low, high = rng.choice(RANGES)
    return chr(rng.randint(low, high))


def sentence(length):
    parts = []
    while length > 0:
        kind = rng.random()
        if kind < 0.3:
            part = rng.choice(WORDS)
        elif kind < 0.5:
            part = "".join(character() for _ in range(rng.randint(1, 6)))
        elif kind < 0.6:
            part = "e" + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 4)))
        elif kind < 0.7:
            low, high = rng.choice(RANGES)
            part = "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 12)))
        elif kind < 0.9:
            part = rng.choice([" ", "  ", "\t", "\n", "\r\n", ".", ",", "'", "-", "\u3000", "\xa0", "\u2028", "\x0b"])
        else:
            part = rng.choice(WORDS).upper().replace("E", "\xc9")
        parts.append(part)
        length -= len(part)
    return "".join(parts).replace("\0", "\1" if rng.random() < 0.5 else "\0").encode(errors="surrogatepass")


def broken(length):
    """Bytes that are not UTF-8: halves of characters, surrogates, overlong forms, among ordinary ones."""
    data = bytearray(sentence(length))
    for _ in range(max(1, length // 10)):
        at = rng.randint(0, len(data))
        data[at:at + rng.randint(0, 2)] = rng.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x80\x80\x80",
                                                      b"\xe2\x82", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98", b"\x80", b"\xe0\x80", b""])
    return bytes(data)


def random_vocabulary(path):
    """Small, but with tokens from all planes, so that what is not unknown is compared as well."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + WORDS
    alphabet = sorted({character() for _ in range(6000)} | set(map(chr, range(33, 127))))
    for c in alphabet:
        for form in {c, unicodedata.normalize("NFD", c), c.lower(), unicodedata.normalize("NFD", c).lower()}:
            tokens += [form, "##" + form]
            if len(form) > 1:
                tokens += [form[0], "##" + form[0], "##" + form[1:]]
    for _ in range(3000):
        pair = rng.choice(alphabet) + rng.choice(alphabet)
        tokens += [pair, "##" + pair, "##" + pair.lower()]
    tokens = [t for t in tokens if t.strip() and not set("\n\r\0") & set(t)]
    with open(path, "w", newline="\n") as file:
        file.write("\n".join(dict.fromkeys(tokens)) + "\n")
    return path


def saved_tokenizer(number, vocabulary):
    """A tokenizer.json with settings and added tokens of all kinds: the object, and its folder."""
    lower, template = rng.random() < 0.6, rng.random() < 0.6
    model = models.WordPiece.from_file(vocabulary, unk_token="[UNK]", max_input_chars_per_word=rng.choice([100, 5, 20]))
    peer = Tokenizer(model)
    peer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=rng.choice([None, True, False]),
                                                 clean_text=rng.random() < 0.7, handle_chinese_chars=rng.random() < 0.7)
    peer.pre_tokenizer, peer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    peer.add_special_tokens(["[UNK]", "[SEP]", "[PAD]", "[CLS]", AddedToken("[MASK]", lstrip=True, normalized=False)])
    for content in ("Caf\xe9", "<new>", "the", "[DOC", "\u4e00\u4e01", "a b", "UNAFF", "<newer>", "."):
        if rng.random() < 0.7:
            peer.add_tokens([AddedToken(content, lstrip=rng.random() < 0.3, rstrip=rng.random() < 0.3,
                                        normalized=rng.random() < 0.5, special=rng.random() < 0.3)])
    cls, sep = peer.token_to_id("[CLS]"), peer.token_to_id("[SEP]")
    peer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls), ("[SEP]", sep)]) if template else processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    folder = os.path.join(FOLDER, "saved_%d" % number)
    os.makedirs(folder, exist_ok=True)
    peer.save(os.path.join(folder, "tokenizer.json"))
    return peer, folder


def main():
    everywhere = random_vocabulary(os.path.join(FOLDER, "vocab.txt"))
    vocabularies = [everywhere]
    for name in ("uncased", "cased", "multilingual-cased"):
        path = os.path.join(DATA, "bert_tokenizer/bert-base-%s-vocab.txt" % name)
        if os.path.exists(path):
            vocabularies.append(path)
        else:
            missing.append(os.path.basename(path))
    flags = [(a, b, c, d) for a in (True, False) for b in (True, False) for c in (True, False) for d in (True, False)]
    for rules in flags:
        for vocabulary in vocabularies:
            case(vocabulary, [sentence(rng.randint(1, 300)) for _ in range(24)], rules=rules)
            case(vocabulary, [broken(rng.randint(1, 200)) for _ in range(12)], rules=rules)
    hostile = [b"", b" ", b"\n\n", b"a" * (1 << 20), ("\xe9" * (1 << 19)).encode(), ("\u4e00" * 100000).encode(),
               "\uac01".encode() * 200, b"x" * 100, b"x" * 101, ("a" + "\u0301\u0323\u0334" * 20000).encode(),
               "\u0344\u0f73\u0f75\u0f81\u0334a\u0f73\u0334\u302e\U0001d165\u302f\u0323".encode(), b"\xed\xa0\x80" * 50,
               b"\xff" * 1000, b"[CLS][SEP] [MASK]x[MASK][UNK", "\u0130\u0049\u0307 \u1e9e \u03a3\u03c3\u03c2".encode(),
               b"\0a\0b", bytes(range(256)), "".join(map(chr, range(1, 0x3000))).encode()]
    for vocabulary in vocabularies:
        case(vocabulary, hostile)
        case(vocabulary, hostile, rules=(False, False, True, True))
    # Every character; of letters without case and of what is not assigned, which fill whole planes, every 16th.
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF
             and (c % 16 == 0 or unicodedata.category(chr(c)) not in ("Lo", "Co", "Cn"))]
    for rules in ((True, True, True, True), (False, True, True, False)):
        case(everywhere, [" a".join(every[i:i + 4096]).encode() for i in range(0, len(every), 4096)], rules=rules)
    for _ in range(200):
        vocabulary = rng.choice(vocabularies)
        pair, padding = rng.random() < 0.6, rng.randint(0, 2)
        count, longest = rng.randint(1, 12), rng.choice([10, 60, 400])
        texts = [sentence(rng.randint(1, longest)) for _ in range(count)]
        seconds = [sentence(rng.randint(1, longest)) for _ in range(count)] if pair else None
        special, strategy = rng.random() < 0.8, rng.randint(0, 2) if pair else 0
        limit = rng.choice([-1, 8, 13, 32, 100]) if padding < 2 else rng.choice([16, 50])
        stride = rng.randint(0, limit // 4) if limit > 8 and strategy == 0 else 0
        try:
            case(vocabulary, texts, seconds, special=special, limit=limit, strategy=strategy, stride=stride, padding=padding,
                 multiple=rng.choice([1, 1, 8, 64]), left=rng.random() < 0.3)
        except Exception as error:  # a text that cannot be cut as asked
            assert "Truncation error" in str(error), error
    WORDS.extend(["Caf\xe9", "cafe\u0301", "<new>", "<newer> ", " <new>", "[DOC]", "\u4e00\u4e01", "a b", "A  B", "unaff", "."])
    for number in range(24):
        peer, folder = saved_tokenizer(number, vocabularies[number % len(vocabularies)])
        for _ in range(3):
            texts = [sentence(rng.randint(1, 200)) for _ in range(12)]
            seconds = [broken(rng.randint(1, 100)) for _ in range(12)] if rng.random() < 0.5 else None
            case(folder, texts, seconds, rules=(-1, -1, -1, -1), peer=peer)
    squad = os.path.join(DATA, "squad/dev-v1.1.json")
    if os.path.exists(squad) and len(vocabularies) > 2:
        with open(squad) as file:
            paragraphs = [p for article in json.load(file)["data"] for p in article["paragraphs"]]
        contexts = [p["context"].encode() for p in paragraphs]
        questions = [p["qas"][0]["question"].encode() for p in paragraphs]
        case(vocabularies[1], contexts)
        case(vocabularies[2], contexts, rules=(False, False, True, True))
        case(vocabularies[1], questions, contexts, limit=192, strategy=2, stride=64, padding=2)
    else:
        missing.append("dev-v1.1.json")
    print("missing:", ", ".join(missing) if missing else "nothing")


main()
