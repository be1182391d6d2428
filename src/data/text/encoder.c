/* encoder.c - from bytes to tokens: added tokens first, then words, then their longest pieces. */
#include "data/text/encoder.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "data/text/added.h"
#include "data/text/unicode.h"

/* ---- pieces ---- */

/* Room for `more` further pieces. */
static bool reserve(ls_encoder *e, int64_t more)
{
    if (e->count + more <= e->room) return true;
    int64_t room = 2 * e->room + more + 256;
    void *larger = ls_sys_realloc(e->pieces, (size_t)room * sizeof *e->pieces);
    if (!larger) return e->failed = true, false;
    e->pieces = larger;
    e->room = room;
    return true;
}

static void emit(ls_encoder *e, int32_t id, int64_t from, int64_t to)
{
    e->pieces[e->count++] = (ls_piece){id, (int32_t)from, (int32_t)to, e->words};
}

/* The longest token that `bytes` begin with, from a trie node on: its length, and its number in `id`. 0 if there is
 * none. */
static size_t longest_token(const ls_trie *trie, uint32_t node, const uint8_t *folded, const char *bytes, size_t room,
                            int32_t *id)
{
    size_t length = 0;
    for (size_t i = 0; i < room; i++) {
        uint32_t child = trie->nodes[node].base ^ folded[(unsigned char)bytes[i]];
        if (trie->nodes[child].parent != node) break;
        node = child;
        if (trie->nodes[node].value < 0) continue;
        *id = trie->nodes[node].value;
        length = i + 1;
    }
    return length;
}

/* Append the pieces of a word; offsets are those of its bytes, the first of which has `place`. Longest match first, all
 * or nothing: a word with a part that no token covers is unknown as a whole, and this returns false. */
static bool split_word(ls_encoder *e, const char *word, size_t length, int64_t place)
{
    const ls_tokenizer *t = e->tokenizer;
    int64_t before = e->count;
    uint32_t node = LS_TRIE_ROOT;
    for (size_t at = 0; at < length;) {
        int32_t id = 0;
        size_t taken =
            node == LS_TRIE_NONE ? 0 : longest_token(&t->vocabulary.trie, node, t->folded, word + at, length - at, &id);
        if (!taken) return e->count = before, false;
        emit(e, id, place + (int64_t)at, place + (int64_t)(at + taken));
        at += taken;
        node = t->continuation;
    }
    return true;
}

/* ---- words of plain ASCII ---- */

static void add_plain_word(ls_encoder *e, size_t from, size_t to)
{
    const ls_tokenizer *t = e->tokenizer;
    int64_t place = (int64_t)(from - e->shift), length = (int64_t)(to - from);
    bool short_enough = length <= t->max_word;
    if (!reserve(e, short_enough ? length : 1)) return;
    if (!short_enough || !split_word(e, e->text + from, to - from, place)) emit(e, t->unknown, place, place + length);
    e->words++;
}

/* ---- words of prepared characters ---- */

static bool reserve_bytes(ls_encoder *e, size_t bytes)
{
    if (bytes <= e->bytes_room) return true;
    void *larger = ls_sys_realloc(e->bytes, 2 * bytes);
    if (!larger) return e->failed = true, false;
    e->bytes = larger;
    e->bytes_room = 2 * bytes;
    return true;
}

/* Pieces from `first` on have offsets in the word's bytes: replace them by those of its characters. */
static void place_pieces(ls_encoder *e, int64_t first, const ls_prepared_char *chars)
{
    char unused[4];
    int32_t bytes = 0;
    for (int64_t i = first; i < e->count; i++) {
        ls_piece *piece = &e->pieces[i];
        int32_t end = piece->to;
        piece->from = chars->from;
        for (; bytes < end; chars++) {
            bytes += (int32_t)ls_utf8_encode(chars->code, unused);
            piece->to = chars->to;
        }
    }
}

static void add_prepared_word(ls_encoder *e, const ls_prepared_char *chars, int64_t count)
{
    const ls_tokenizer *t = e->tokenizer;
    int64_t first = e->count;
    bool known = count <= t->max_word;
    if (known) {
        if (!reserve_bytes(e, 4 * (size_t)count)) return;
        size_t length = 0;
        for (int64_t i = 0; i < count; i++) length += ls_utf8_encode(chars[i].code, e->bytes + length);
        if (!reserve(e, (int64_t)length)) return;
        known = split_word(e, e->bytes, length, 0);
    }
    if (!reserve(e, 1)) return;
    if (known) place_pieces(e, first, chars);
    else emit(e, t->unknown, chars->from, chars[count - 1].to);
    e->words++;
}

static void add_prepared_words(ls_encoder *e, const ls_prepared_char *chars, int64_t count)
{
    int64_t begin = 0; /* of the current word */
    for (int64_t i = 0; i < count && !e->failed; i++) {
        unsigned ends = ls_char_flags(chars[i].code) & (LS_CHAR_SPACE | LS_CHAR_PUNCT);
        if (!ends) continue;
        if (begin < i) add_prepared_word(e, chars + begin, i - begin);
        if (ends & LS_CHAR_PUNCT && !e->failed) add_prepared_word(e, chars + i, 1);
        begin = i + 1;
    }
    if (begin < count && !e->failed) add_prepared_word(e, chars + begin, count - begin);
}

/* Prepare bytes [from, to) of the text. */
static bool prepare(ls_encoder *e, size_t from, size_t to)
{
    int64_t place = ls_text_prepare(&e->preparation, e->tokenizer->rules, e->text + from, to - from,
                                    (int64_t)(from - e->shift), e->characters);
    if (place < 0) return e->failed = true, false;
    e->shift = to - (size_t)place;
    return true;
}

/* ---- segments of text without added tokens ---- */

/* A segment with non-ASCII characters that begins at `from`: words up to an ASCII blank or punctuation. Returns its
 * end. */
static size_t add_other(ls_encoder *e, size_t from, size_t to)
{
    const uint8_t *kinds = e->tokenizer->kinds;
    size_t end = from;
    while (end < to && kinds[(unsigned char)e->text[end]] != LS_BYTE_BLANK &&
           kinds[(unsigned char)e->text[end]] != LS_BYTE_PUNCT)
        end++;
    if (prepare(e, from, end)) add_prepared_words(e, e->preparation.text.chars, e->preparation.text.count);
    return end;
}

static void add_words(ls_encoder *e, size_t from, size_t to)
{
    const uint8_t *kinds = e->tokenizer->kinds;
    const unsigned char *text = (const unsigned char *)e->text;
    for (size_t at = from; at < to && !e->failed;) {
        size_t begin = at;
        while (at < to && kinds[text[at]] == LS_BYTE_WORD) at++;
        if (at < to && kinds[text[at]] == LS_BYTE_OTHER) {
            at = add_other(e, begin, to);
            continue;
        }
        if (begin < at) add_plain_word(e, begin, at);
        if (at == to) break;
        if (kinds[text[at]] == LS_BYTE_PUNCT) add_plain_word(e, at, at + 1);
        at++;
    }
}

/* If added tokens are searched in the prepared text, the whole segment is prepared. */
static void add_segment(ls_encoder *e, size_t from, size_t to)
{
    const ls_tokenizer *t = e->tokenizer;
    if (!t->prepared.count) {
        add_words(e, from, to);
        return;
    }
    if (!prepare(e, from, to)) return;
    const ls_prepared_char *chars = e->preparation.text.chars;
    int64_t count = e->preparation.text.count, done = 0;
    for (ls_added_match m = {0}; !e->failed && ls_added_find_prepared(t, chars, count, done, &m);) {
        if (done < m.from) add_prepared_words(e, chars + done, m.from - done);
        if (e->failed || !reserve(e, 1)) return;
        emit(e, t->added[m.token].id, chars[m.from].from, chars[m.to - 1].to);
        e->words++;
        done = m.to;
    }
    if (!e->failed && done < count) add_prepared_words(e, chars + done, count - done);
}

/* ---- texts ---- */

/* Bytes of [from, to) that are not the first of a character. */
static size_t later_bytes(const ls_encoder *e, size_t from, size_t to)
{
    size_t later = 0;
    while (from < to) {
        uint32_t code;
        size_t bytes = ls_char_read(e->text + from, to - from, &code);
        from += bytes;
        later += bytes - 1;
    }
    return later;
}

/* Bytes [from, to) are an added token; those before `done`, possibly among them, were already counted. */
static void add_added(ls_encoder *e, int64_t token, size_t from, size_t to, size_t done)
{
    int64_t place = (int64_t)(from - e->shift);
    if (e->characters && from < done) place += (int64_t)later_bytes(e, from, done);
    if (e->characters) e->shift += later_bytes(e, from < done ? done : from, to);
    if (!reserve(e, 1)) return;
    emit(e, e->tokenizer->added[token].id, place, (int64_t)(to - e->shift));
    e->words++;
}

bool ls_encoder_add(ls_encoder *e, const char *text, size_t length)
{
    e->text = text;
    e->shift = 0;
    e->words = 0;
    int64_t done = 0;
    for (ls_added_match m = {0}; ls_added_find(e->tokenizer, text, (int64_t)length, done, &m) && !e->failed;) {
        if (done < m.from) add_segment(e, (size_t)done, (size_t)m.from);
        if (!e->failed) add_added(e, m.token, (size_t)m.from, (size_t)m.to, (size_t)done);
        if (done < m.to) done = m.to;
    }
    if (!e->failed) add_segment(e, (size_t)done, length);
    return !e->failed;
}

void ls_encoder_free(ls_encoder *e)
{
    ls_sys_free(e->pieces);
    ls_sys_free(e->bytes);
    ls_preparation_free(&e->preparation);
    *e = (ls_encoder){0};
}
