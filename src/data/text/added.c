/* added.c - find added tokens in texts. */
#include "data/text/added.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "data/text/unicode.h"

/* The search text of a token: prepared like the surrounding text, in the vocabulary's memory. */
static bool prepare_token(ls_tokenizer *t, ls_added_token *token)
{
    token->searched = (ls_token_text){token->text, token->length};
    if (!token->normalized) return true;
    ls_preparation n = {0};
    bool ok = ls_text_prepare(&n, t->rules, token->text, token->length, 0, false) >= 0;
    char *text = ok ? ls_arena_take(&t->vocabulary.texts, 4 * (size_t)n.text.count + 1) : NULL;
    size_t length = 0;
    for (int64_t i = 0; text && i < n.text.count; i++) length += ls_utf8_encode(n.text.chars[i].code, text + length);
    token->searched = (ls_token_text){text, length};
    ls_preparation_free(&n);
    return text != NULL;
}

bool ls_added_set_build(ls_tokenizer *t, bool prepared)
{
    ls_added_set *set = prepared ? &t->prepared : &t->raw;
    ls_trie_text *texts = ls_sys_alloc((size_t)(t->added_count + 1) * sizeof *texts);
    bool ok = texts != NULL;
    set->same_first = true;
    for (int64_t i = 0; ok && i < t->added_count; i++) {
        ls_added_token *token = &t->added[i];
        if (token->normalized != prepared) continue;
        ok = prepare_token(t, token);
        if (!ok || !token->searched.length) continue;
        texts[set->count] = (ls_trie_text){token->searched.text, token->searched.length, (int32_t)i};
        unsigned char first = (unsigned char)token->searched.text[0];
        if (set->count && first != set->first) set->same_first = false;
        set->first = first;
        set->begins[first] = true;
        set->count++;
    }
    ok = ok && ls_trie_build(&set->trie, texts, set->count);
    ls_sys_free(texts);
    return ok;
}

void ls_added_set_free(ls_added_set *set)
{
    ls_trie_free(&set->trie);
}

/* ---- in a raw text ---- */

/* The first position from `at` on where a token may begin. */
static int64_t candidate(const ls_added_set *set, const char *text, int64_t at, int64_t length)
{
    if (set->same_first) {
        const char *found = at < length ? memchr(text + at, set->first, (size_t)(length - at)) : NULL;
        return found ? found - text : length;
    }
    while (at < length && !set->begins[(unsigned char)text[at]]) at++;
    return at;
}

/* Bytes of white space that end at, or begin at, a position. */
static int64_t space_before(const char *text, int64_t at)
{
    for (int64_t bytes = 1; bytes <= 3 && bytes <= at; bytes++)
        if (ls_utf8_length(text + at - bytes, (size_t)bytes) == (size_t)bytes)
            return ls_char_flags(ls_utf8_decode(text + at - bytes, (size_t)bytes)) & LS_CHAR_SPACE ? bytes : 0;
    return 0;
}

static int64_t space_after(const char *text, int64_t at, int64_t length)
{
    if (at == length) return 0;
    uint32_t code;
    size_t bytes = ls_char_read(text + at, (size_t)(length - at), &code);
    return ls_char_flags(code) & LS_CHAR_SPACE ? (int64_t)bytes : 0;
}

bool ls_added_find(const ls_tokenizer *t, const char *text, int64_t length, int64_t done, ls_added_match *m)
{
    const ls_added_set *set = &t->raw;
    if (!set->count) return false;
    for (int64_t at = m->scanned; (at = candidate(set, text, at, length)) < length; at++) {
        int64_t end = -1;
        uint32_t node = LS_TRIE_ROOT;
        for (int64_t i = at; i < length && (node = ls_trie_step(&set->trie, node, text[i])) != LS_TRIE_NONE; i++) {
            if (set->trie.nodes[node].value < 0) continue;
            m->token = set->trie.nodes[node].value;
            end = i + 1;
        }
        if (end < 0) continue;
        m->from = at;
        m->to = m->scanned = end;
        if (t->added[m->token].strip_left)
            for (int64_t bytes; m->from > done && (bytes = space_before(text, m->from));) m->from -= bytes;
        if (t->added[m->token].strip_right)
            for (int64_t bytes; (bytes = space_after(text, m->to, length));) m->to += bytes;
        return true;
    }
    return false;
}

/* ---- in prepared characters ---- */

/* The node that a character leads to. */
static uint32_t step(const ls_trie *trie, uint32_t node, uint32_t code)
{
    char bytes[4];
    size_t count = ls_utf8_encode(code, bytes);
    for (size_t i = 0; i < count && node != LS_TRIE_NONE; i++) node = ls_trie_step(trie, node, bytes[i]);
    return node;
}

static bool is_space(const ls_prepared_char *c)
{
    return ls_char_flags(c->code) & LS_CHAR_SPACE;
}

bool ls_added_find_prepared(const ls_tokenizer *t, const ls_prepared_char *chars, int64_t count, int64_t done,
                            ls_added_match *m)
{
    const ls_trie *trie = &t->prepared.trie;
    for (int64_t at = m->scanned; at < count; at++) {
        int64_t end = -1;
        uint32_t node = LS_TRIE_ROOT;
        for (int64_t i = at; i < count && (node = step(trie, node, chars[i].code)) != LS_TRIE_NONE; i++) {
            if (trie->nodes[node].value < 0) continue;
            m->token = trie->nodes[node].value;
            end = i + 1;
        }
        if (end < 0) continue;
        m->from = at;
        m->to = m->scanned = end;
        if (t->added[m->token].strip_left)
            while (m->from > done && is_space(&chars[m->from - 1])) m->from--;
        if (t->added[m->token].strip_right)
            while (m->to < count && is_space(&chars[m->to])) m->to++;
        return true;
    }
    return false;
}
