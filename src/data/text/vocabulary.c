/* vocabulary.c - the tokens of a model. */
#include "data/text/vocabulary.h"

#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "base/utf8.h"
#include "data/text/unicode.h"

bool ls_vocabulary_add(ls_vocabulary *v, int64_t id, const char *text, size_t length)
{
    if (id >= v->room) {
        int64_t room = id < 1024 ? 2048 : 2 * id;
        void *larger = ls_sys_realloc(v->tokens, (size_t)room * sizeof *v->tokens);
        if (!larger) return false;
        v->tokens = larger;
        memset(v->tokens + v->room, 0, (size_t)(room - v->room) * sizeof *v->tokens);
        v->room = room;
    }
    char *copy = ls_arena_text(&v->texts, text, length);
    if (!copy) return false;
    v->tokens[id] = (ls_token_text){copy, length};
    if (id >= v->count) v->count = id + 1;
    return true;
}

bool ls_vocabulary_close(ls_vocabulary *v)
{
    ls_trie_text *texts = ls_sys_alloc((size_t)(v->count ? v->count : 1) * sizeof *texts);
    if (!texts) return false;
    int64_t count = 0;
    for (int64_t id = 0; id < v->count; id++)
        if (v->tokens[id].text) texts[count++] = (ls_trie_text){v->tokens[id].text, v->tokens[id].length, (int32_t)id};
    bool ok = ls_trie_build(&v->trie, texts, count);
    ls_sys_free(texts);
    for (int64_t id = 0; ok && id < v->count; id++) {
        ls_token_text *token = &v->tokens[id];
        if (token->text && ls_vocabulary_find(v, token->text, token->length) != id) token->text = NULL;
    }
    return ok;
}

int32_t ls_vocabulary_find(const ls_vocabulary *v, const char *text, size_t length)
{
    return ls_trie_find(&v->trie, text, length);
}

void ls_vocabulary_free(ls_vocabulary *v)
{
    ls_sys_free(v->tokens);
    ls_trie_free(&v->trie);
    ls_arena_free(&v->texts);
    *v = (ls_vocabulary){0};
}

/* Length of a line without trailing white space; -1 if it is not UTF-8. */
static int64_t trimmed_length(const char *line, size_t length)
{
    size_t trimmed = 0;
    for (size_t i = 0; i < length;) {
        size_t step = ls_utf8_length(line + i, length - i);
        if (!step) return -1;
        uint32_t c = ls_utf8_decode(line + i, step);
        i += step;
        if (!(ls_char_flags(c) & LS_CHAR_SPACE)) trimmed = i;
    }
    return (int64_t)trimmed;
}

ls_status ls_vocabulary_read(ls_vocabulary *v, const char *text, size_t length, ls_message *why)
{
    int64_t line = 0;
    for (size_t at = 0; at < length; line++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t bytes = end ? (size_t)(end - text) - at : length - at;
        int64_t trimmed = trimmed_length(text + at, bytes);
        if (trimmed < 0)
            return ls_explain(why, LS_ERR_IO, "line %lld is not UTF-8; a vocabulary has one token per line",
                              (long long)line + 1);
        if (line >= LS_MOST_TOKENS)
            return ls_explain(why, LS_ERR_IO, "more than %d lines; a vocabulary has one token per line",
                              LS_MOST_TOKENS);
        if (!ls_vocabulary_add(v, line, text + at, (size_t)trimmed))
            return ls_explain(why, LS_ERR_MEMORY, "no memory for %lld tokens", (long long)line + 1);
        at += bytes + 1;
    }
    if (!ls_vocabulary_close(v)) return ls_explain(why, LS_ERR_MEMORY, "no memory for the tokens");
    return LS_OK;
}
