/* decode.c - convert tokens to text. */
#include <string.h>

#include "base/memory.h"
#include "base/opts.h"
#include "data/text/tokenizer.h"

/* Blanks between tokens to be removed: one row after the other, in each token as it is added, and in the whole text at
 * the end, as transformers and tokenizers together do. */
static const struct {
    const char *dirty, *clean;
} CLEAN_UP[] = {
    {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

/* Replace every `dirty` in a text by `clean`, which is not longer; returns the new length. */
static size_t replace_all(char *text, size_t length, const char *dirty, const char *clean)
{
    size_t dirty_length = strlen(dirty), clean_length = strlen(clean), kept = 0;
    for (size_t i = 0; i < length;) {
        if (i + dirty_length <= length && memcmp(text + i, dirty, dirty_length) == 0) {
            memcpy(text + kept, clean, clean_length);
            kept += clean_length;
            i += dirty_length;
        } else {
            text[kept++] = text[i++];
        }
    }
    return kept;
}

static size_t clean_up(char *text, size_t length)
{
    for (size_t i = 0; i < sizeof CLEAN_UP / sizeof *CLEAN_UP; i++)
        length = replace_all(text, length, CLEAN_UP[i].dirty, CLEAN_UP[i].clean);
    return length;
}

static const ls_added_token *added_token(const ls_tokenizer *t, int32_t id)
{
    for (int64_t i = 0; i < t->added_count; i++)
        if (t->added[i].id == id) return &t->added[i];
    return NULL;
}

/* A special token is omitted, unless its decoded text differs from its given text: the reference compares them. */
static bool is_left_out(const ls_added_token *added)
{
    return added->special && added->searched.length == added->length &&
           memcmp(added->searched.text, added->text, added->length) == 0;
}

/* Append a token to a text, which has room for it and a blank; returns its length there. */
static size_t write_token(const ls_tokenizer *t, char *to, const ls_token_text *token, bool first)
{
    size_t prefix = strlen(t->prefix), length = 0;
    bool continues = !first && token->length >= prefix && memcmp(token->text, t->prefix, prefix) == 0;
    if (!first && !continues) to[length++] = ' ';
    size_t left_out = continues ? prefix : 0;
    memcpy(to + length, token->text + left_out, token->length - left_out);
    return length + token->length - left_out;
}

static bool reserve(ls_tokenizer *t, size_t bytes)
{
    if (bytes <= t->decoded_room) return true;
    void *larger = ls_sys_realloc(t->decoded, 2 * bytes);
    if (!larger) return false;
    t->decoded = larger;
    t->decoded_room = 2 * bytes;
    return true;
}

const char *ls_tokenizer_decode_sized(ls_tokenizer *t, const int32_t *ids, int64_t count,
                                      const ls_tokenizer_decode_opts *opts, size_t opts_size)
{
    ls_tokenizer_decode_opts o = LS_OPTS_READ(ls_tokenizer_decode_opts, opts, opts_size);
    if (!t || ls_failed(t->object.run) || !ids) return "";
    size_t length = 0;
    bool first = true;
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= t->vocabulary.count || !t->vocabulary.tokens[ids[i]].text) continue;
        const ls_added_token *added = added_token(t, ids[i]);
        if (added && is_left_out(added) && !o.special_tokens) continue;
        const ls_token_text *token = added ? &added->searched : &t->vocabulary.tokens[ids[i]];
        if (!reserve(t, length + token->length + 2)) {
            ls_fail(&t->object.run->errors, LS_ERR_MEMORY, "ls_tokenizer_decode: no memory for %lld tokens",
                    (long long)count);
            return "";
        }
        size_t added_length = write_token(t, t->decoded + length, token, first);
        length += o.clean_up ? clean_up(t->decoded + length, added_length) : added_length;
        first = false;
    }
    if (first) return "";
    if (o.clean_up) length = clean_up(t->decoded, length);
    t->decoded[length] = '\0';
    return t->decoded;
}
