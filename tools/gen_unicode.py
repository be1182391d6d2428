#!/usr/bin/env python3
"""gen_unicode.py > src/data/text/unicode_tables.inc - what BERT's tokenizer does with each character.

The reference is Hugging Face's tokenizers, whose parts come from different versions of Unicode: categories of one,
decompositions of another, lower case of the compiler's. So this script asks that package about every character,
instead of taking a version of the standard, and tokenization is the same by construction. Run it again with a newer
package (pip install tokenizers) to follow it."""
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

# The order is that of the enum in unicode.h.
FLAGS = ["DROP", "BLANK", "SPACE", "PUNCT", "CJK", "MARK", "DECOMPOSES", "LOWERS", "WORD"]
BLOCK = 128
CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xD7A4)


def bert(**on):
    rules = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**rules, **on})


def combining_classes(nfd):
    """Of each character that has one. Two marks change places when the second has the smaller class."""
    highest = "\u0345"

    def below(c, mark):
        return chr(c) != mark and nfd("a" + mark + chr(c)) == "a" + chr(c) + mark

    ladder = {unicodedata.combining(highest): highest}  # a mark of each class that the package knows
    for c in CHARACTERS:
        if unicodedata.combining(chr(c)) and nfd(chr(c)) == chr(c) and below(c, highest):
            ladder.setdefault(unicodedata.combining(chr(c)), chr(c))
    lowest = ladder[min(ladder)]
    found = {}
    for c in CHARACTERS:
        moves = below(c, highest) or nfd("a" + chr(c) + lowest) == "a" + lowest + chr(c)
        if moves and nfd(chr(c)) == chr(c):
            found[c] = max(k for k, mark in ladder.items() if not below(c, mark))
    return found


def facts():
    nfd, lower = normalizers.NFD().normalize_str, normalizers.Lowercase().normalize_str
    clean, strip = bert(clean_text=True).normalize_str, bert(strip_accents=True).normalize_str
    chinese, words = bert(handle_chinese_chars=True).normalize_str, pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    classes = combining_classes(nfd)
    records, decompositions, lowered = {}, {}, {}
    for c in CHARACTERS:
        text, flags = "a" + chr(c) + "b", set()
        cleaned, parts = clean(text), len(words(text))
        if cleaned == "ab":
            flags.add("DROP")
        elif cleaned == "a b":
            flags.add("BLANK")
        else:
            assert cleaned == text
        if parts > 1:
            flags.add("SPACE" if parts == 2 else "PUNCT")
        if chinese(text) != text:
            flags.add("CJK")
        if nfd(chr(c)) == chr(c):
            if strip(text) == "ab":
                flags.add("MARK")
        elif c not in HANGUL:
            flags.add("DECOMPOSES")
            decompositions[c] = nfd(chr(c))
        if lower(chr(c)) != chr(c):
            flags.add("LOWERS")
            lowered[c] = lower(chr(c))
        if chr(c).isalnum():
            flags.add("WORD")
        bits = sum(1 << i for i, name in enumerate(FLAGS) if name in flags)
        records[c] = (bits, classes.get(c, 0))
    return records, decompositions, lowered


def array(kind, name, numbers, per_line=24):
    print("%s %s[%d] = {" % (kind, name, len(numbers)))
    for i in range(0, len(numbers), per_line):
        print("    " + ",".join(map(str, numbers[i:i + per_line])) + ",")
    print("};\n")


def mapping(name, table):
    """Characters in order, where each one's text begins in a pool, and the pool."""
    keys, begins, pool = sorted(table), [], []
    for c in keys:
        begins.append(len(pool))
        pool += [ord(part) for part in table[c]]
    array("static const uint32_t", name + "_keys", keys, 14)
    array("static const uint16_t", name + "_begins", begins + [len(pool)], 20)
    array("static const uint32_t", name + "_pool", pool, 14)


def main():
    records, decompositions, lowered = facts()
    kinds = sorted(set(records.values()))
    number = {kind: i for i, kind in enumerate(kinds)}
    blocks, stage = {}, []
    for first in range(0, 0x110000, BLOCK):
        block = tuple(number[records.get(c, (0, 0))] for c in range(first, first + BLOCK))
        stage.append(blocks.setdefault(block, len(blocks)))
    assert len(kinds) < 256 and len(blocks) < 256
    print("/* Written by tools/gen_unicode.py from tokenizers %s: do not edit. */" % tokenizers.__version__)
    print("/* clang-format off */")
    array("const uint16_t", "ls_char_kind_flags", [bits for bits, _ in kinds])
    array("const uint8_t", "ls_char_kind_class", [ccc for _, ccc in kinds])
    array("const uint8_t", "ls_char_stage", stage)
    array("const uint8_t", "ls_char_blocks", [kind for block in blocks for kind in block])
    mapping("decomposed", decompositions)
    mapping("lowered", lowered)
    print("/* clang-format on */")
    print(len(kinds), "kinds,", len(blocks), "blocks,", len(decompositions), "decompositions,", len(lowered), "lowered",
          file=sys.stderr)


main()
