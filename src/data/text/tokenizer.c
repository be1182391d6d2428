/* tokenizer.c - tokenizers as objects of a run: created from options and files. */
#include "data/text/tokenizer.h"

#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "base/opts.h"
#include "data/text/added.h"
#include "data/text/unicode.h"

enum { MAX_WORD = 100, MAX_ADDED_BYTES = 1024 };

/* ---- building ---- */

ls_status ls_tokenizer_add(ls_tokenizer *t, ls_added_token token, ls_message *why)
{
    if (token.length > MAX_ADDED_BYTES)
        return ls_explain(why, LS_ERR_VALUE, "an added token has %zu bytes; at most %d are allowed", token.length,
                          MAX_ADDED_BYTES);
    if (t->added_count == t->added_room) {
        int64_t room = 2 * t->added_room + 16;
        void *larger = ls_sys_realloc(t->added, (size_t)room * sizeof *t->added);
        if (!larger) return ls_explain(why, LS_ERR_MEMORY, "no memory for added tokens");
        t->added = larger;
        t->added_room = room;
    }
    t->added[t->added_count++] = token;
    return LS_OK;
}

static void classify_bytes(ls_tokenizer *t)
{
    for (unsigned c = 0; c < 256; c++) {
        unsigned flags = c < 128 ? ls_char_flags(c) : 0;
        bool dropped = c >= 128 || (t->rules.clean_text && flags & LS_CHAR_DROP);
        t->kinds[c] = dropped                 ? LS_BYTE_OTHER
                      : flags & LS_CHAR_SPACE ? LS_BYTE_BLANK
                      : flags & LS_CHAR_PUNCT ? LS_BYTE_PUNCT
                                              : LS_BYTE_WORD;
        t->folded[c] = (uint8_t)(t->rules.lower_case && c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
    }
}

ls_status ls_tokenizer_close(ls_tokenizer *t, ls_message *why)
{
    const char *unknown = t->names[LS_TOKEN_UNK];
    if (t->accents_follow_case) t->rules.strip_accents = t->rules.lower_case;
    t->pad = ls_tokenizer_find(t, t->names[LS_TOKEN_PAD]);
    t->unknown = ls_vocabulary_find(&t->vocabulary, unknown, strlen(unknown));
    if (t->unknown < 0) return ls_explain(why, LS_ERR_IO, "the vocabulary has no token %s for unknown words", unknown);
    t->continuation = ls_trie_walk(&t->vocabulary.trie, t->prefix, strlen(t->prefix));
    if (!ls_added_set_build(t, false) || !ls_added_set_build(t, true))
        return ls_explain(why, LS_ERR_MEMORY, "no memory for added tokens");
    classify_bytes(t);
    return LS_OK;
}

void ls_tokenizer_clear(void *object)
{
    ls_tokenizer *t = object;
    ls_vocabulary_free(&t->vocabulary);
    ls_added_set_free(&t->raw);
    ls_added_set_free(&t->prepared);
    ls_sys_free(t->added);
    ls_sys_free(t->decoded);
}

/* ---- the object ---- */

static void set_rule(bool *rule, int given)
{
    if (given != LS_AUTO) *rule = given != 0;
}

static ls_status load(ls_tokenizer *t, const char *path, const ls_tokenizer_opts *o, ls_message *why)
{
    static const char *const names[LS_SPECIAL_TOKENS] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    memcpy(t->names, names, sizeof names);
    t->cls = t->sep = -1;
    t->max_word = MAX_WORD;
    t->prefix = "##";
    t->rules = (ls_text_rules){.lower_case = true, .split_chinese = true, .clean_text = true};
    t->accents_follow_case = true;
    ls_status status = ls_tokenizer_load(t, path, why);
    if (status) return status;
    set_rule(&t->rules.lower_case, o->lower_case);
    set_rule(&t->rules.split_chinese, o->split_chinese);
    set_rule(&t->rules.clean_text, o->clean_text);
    set_rule(&t->rules.strip_accents, o->strip_accents);
    if (o->strip_accents != LS_AUTO) t->accents_follow_case = false;
    ls_message reason = {{0}};
    status = ls_tokenizer_close(t, &reason);
    return status ? ls_explain(why, status, "%s: %s", path, reason.text) : LS_OK;
}

ls_tokenizer *ls_tokenizer_new_sized(ls_run *run, const char *path, const ls_tokenizer_opts *opts, size_t opts_size)
{
    ls_tokenizer_opts o = LS_OPTS_READ(ls_tokenizer_opts, opts, opts_size);
    if (ls_failed(run)) return NULL;
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_tokenizer_new: the path of the vocabulary is NULL"), NULL;
    ls_tokenizer *t = ls_object_new(run, LS_OBJECT_TOKENIZER, sizeof *t, ls_tokenizer_clear);
    if (!t) return NULL;
    ls_message why = {{0}};
    ls_status status = load(t, path, &o, &why);
    if (!status) return t;
    ls_fail(&run->errors, status, "ls_tokenizer_new: %s", why.text);
    ls_object_free(t);
    return NULL;
}

void ls_tokenizer_free(ls_tokenizer *tokenizer)
{
    ls_object_free(tokenizer);
}

/* ---- tokens ---- */

int64_t ls_tokenizer_size(const ls_tokenizer *t)
{
    return t ? t->vocabulary.count : 0;
}

int32_t ls_tokenizer_find(const ls_tokenizer *t, const char *token)
{
    if (!t || !token) return -1;
    for (int64_t i = 0; i < t->added_count; i++)
        if (strcmp(t->added[i].text, token) == 0) return t->added[i].id;
    return ls_vocabulary_find(&t->vocabulary, token, strlen(token));
}

const char *ls_tokenizer_token(const ls_tokenizer *t, int64_t id)
{
    const char *text = t && id >= 0 && id < t->vocabulary.count ? t->vocabulary.tokens[id].text : NULL;
    return text ? text : "";
}
