/* tokenizer_json.c - Hugging Face's tokenizer.json, if it describes BERT's WordPiece. Everything else is refused by
 * name: a tokenizer that does almost what the file says is worse than none. */
#include <string.h>

#include "base/json.h"
#include "base/message.h"
#include "data/text/tokenizer.h"

/* ---- checking members ---- */

/* Refuse what is not an object, and members that are not in a list, which ends with NULL. */
static ls_status only_members(const ls_json *object, const char *where, const char *const *names, ls_message *why)
{
    if (!object || object->type != LS_JSON_OBJECT) return ls_explain(why, LS_ERR_IO, "%s is not an object", where);
    for (const ls_json *m = ls_json_members(object); m; m = m->next) {
        size_t i = 0;
        while (names[i] && strcmp(names[i], m->key) != 0) i++;
        if (!names[i]) return ls_explain(why, LS_ERR_UNSUPPORTED, "%s has an unknown member \"%s\"", where, m->key);
    }
    return LS_OK;
}

#define MEMBERS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The object of that name, whose "type" must be `type`. */
static ls_status typed_member(const ls_json *root, const char *name, const char *type, const ls_json **member,
                              ls_message *why)
{
    *member = ls_json_get(root, name);
    const char *there = ls_json_text(ls_json_get(*member, "type"));
    if (there && strcmp(there, type) == 0) return LS_OK;
    return ls_explain(why, LS_ERR_UNSUPPORTED, "its %s is %s; only %s is supported", name,
                      there     ? there
                      : *member ? "of no type"
                                : "missing",
                      type);
}

static ls_status not_well_formed(const char *what, ls_message *why)
{
    return ls_explain(why, LS_ERR_IO, "%s is missing or not of the right type", what);
}

static ls_status read_bool(const ls_json *object, const char *name, bool *value, ls_message *why)
{
    const ls_json *member = ls_json_get(object, name);
    if (!member || member->type != LS_JSON_BOOL) return not_well_formed(name, why);
    *value = member->boolean;
    return LS_OK;
}

/* A text that lives as long as the tokenizer; NULL if it is not a text, or out of memory. */
static const char *kept_text(ls_tokenizer *t, const ls_json *value)
{
    const char *text = ls_json_text(value);
    return text ? ls_arena_text(&t->vocabulary.texts, text, strlen(text)) : NULL;
}

/* ---- the parts of the file ---- */

static ls_status read_normalizer(ls_tokenizer *t, const ls_json *root, ls_message *why)
{
    const ls_json *n;
    ls_status status = typed_member(root, "normalizer", "BertNormalizer", &n, why);
    if (!status)
        status = only_members(n, "its normalizer",
                              MEMBERS("type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), why);
    if (!status) status = read_bool(n, "clean_text", &t->rules.clean_text, why);
    if (!status) status = read_bool(n, "handle_chinese_chars", &t->rules.split_chinese, why);
    if (!status) status = read_bool(n, "lowercase", &t->rules.lower_case, why);
    if (status) return status;
    const ls_json *strip = ls_json_get(n, "strip_accents");
    t->accents_follow_case = !strip || strip->type == LS_JSON_NULL;
    return t->accents_follow_case ? LS_OK : read_bool(n, "strip_accents", &t->rules.strip_accents, why);
}

/* Numbers may have gaps, which also take memory: limited to this many, or four times the number of tokens. */
enum { FREE_NUMBERS = 1 << 20 };

static ls_status read_vocabulary(ls_tokenizer *t, const ls_json *vocab, ls_message *why)
{
    if (!vocab || vocab->type != LS_JSON_OBJECT) return not_well_formed("model.vocab", why);
    if (vocab->count > LS_MOST_TOKENS)
        return ls_explain(why, LS_ERR_IO, "%lld tokens; a vocabulary has at most %d", (long long)vocab->count,
                          LS_MOST_TOKENS);
    int64_t limit = 4 * vocab->count > FREE_NUMBERS ? 4 * vocab->count : FREE_NUMBERS;
    for (const ls_json *token = ls_json_members(vocab); token; token = token->next) {
        int64_t id = token->type == LS_JSON_INTEGER ? token->integer : -1;
        if (id < 0 || id >= limit)
            return ls_explain(why, LS_ERR_IO,
                              "token \"%.60s\" has the number %lld; with %lld tokens it must be below %lld", token->key,
                              (long long)id, (long long)vocab->count, (long long)limit);
        if (id < t->vocabulary.count && t->vocabulary.tokens[id].text)
            return ls_explain(why, LS_ERR_IO, "tokens \"%.60s\" and \"%.60s\" both have the number %lld",
                              t->vocabulary.tokens[id].text, token->key, (long long)id);
        if (!ls_vocabulary_add(&t->vocabulary, id, token->key, strlen(token->key)))
            return ls_explain(why, LS_ERR_MEMORY, "no memory for %lld tokens", (long long)vocab->count);
    }
    return ls_vocabulary_close(&t->vocabulary)
               ? LS_OK
               : ls_explain(why, LS_ERR_MEMORY, "no memory for %lld tokens", (long long)vocab->count);
}

static ls_status read_model(ls_tokenizer *t, const ls_json *root, ls_message *why)
{
    const ls_json *m;
    ls_status status = typed_member(root, "model", "WordPiece", &m, why);
    if (!status)
        status = only_members(
            m, "its model",
            MEMBERS("type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"), why);
    if (status) return status;
    t->names[LS_TOKEN_UNK] = kept_text(t, ls_json_get(m, "unk_token"));
    t->prefix = kept_text(t, ls_json_get(m, "continuing_subword_prefix"));
    t->max_word = ls_json_integer(ls_json_get(m, "max_input_chars_per_word"), -1);
    if (!t->names[LS_TOKEN_UNK]) return not_well_formed("model.unk_token", why);
    if (!t->prefix) return not_well_formed("model.continuing_subword_prefix", why);
    if (t->max_word < 0 || t->max_word > INT32_MAX) return not_well_formed("model.max_input_chars_per_word", why);
    return read_vocabulary(t, ls_json_get(m, "vocab"), why);
}

/* The number of an added token: that of its text in the vocabulary, or the next one after all tokens. The file must
 * agree. */
static ls_status place_added_token(ls_tokenizer *t, const ls_added_token *token, int64_t *next, ls_message *why)
{
    int64_t known = ls_tokenizer_find(t, token->text);
    int64_t place = known >= 0 ? known : (*next)++;
    if (token->id != place)
        return ls_explain(why, LS_ERR_IO, "added token \"%.60s\" has the number %d; it should be %lld", token->text,
                          token->id, (long long)place);
    bool taken = place < t->vocabulary.count && t->vocabulary.tokens[place].text;
    if (!taken && !ls_vocabulary_add(&t->vocabulary, place, token->text, token->length))
        return ls_explain(why, LS_ERR_MEMORY, "no memory for added tokens");
    return LS_OK;
}

static ls_status read_added_token(ls_tokenizer *t, const ls_json *a, int64_t *next, ls_message *why)
{
    ls_status status = only_members(
        a, "an added token", MEMBERS("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"), why);
    if (status) return status;
    ls_added_token token = {.text = kept_text(t, ls_json_get(a, "content"))};
    int64_t id = ls_json_integer(ls_json_get(a, "id"), -1);
    if (!token.text || !*token.text) return not_well_formed("the content of an added token", why);
    if (id < 0 || id > INT32_MAX) return not_well_formed("the id of an added token", why);
    token.length = strlen(token.text);
    token.id = (int32_t)id;
    bool single_word = false;
    status = read_bool(a, "single_word", &single_word, why);
    if (!status) status = read_bool(a, "lstrip", &token.strip_left, why);
    if (!status) status = read_bool(a, "rstrip", &token.strip_right, why);
    if (!status) status = read_bool(a, "normalized", &token.normalized, why);
    if (!status) status = read_bool(a, "special", &token.special, why);
    if (status) return status;
    if (single_word)
        return ls_explain(why, LS_ERR_UNSUPPORTED, "added token \"%.60s\" is a single_word, which is not supported",
                          token.text);
    status = place_added_token(t, &token, next, why);
    return status ? status : ls_tokenizer_add(t, token, why);
}

/* ---- [CLS] A [SEP] B [SEP] ---- */

static ls_status find_special(ls_tokenizer *t, const char *text, int64_t id, int32_t *found, ls_message *why)
{
    *found = text ? ls_tokenizer_find(t, text) : -1;
    if (*found >= 0 && *found == id) return LS_OK;
    return ls_explain(why, LS_ERR_IO, "its post_processor has %s with the number %lld, which the vocabulary has not",
                      text ? text : "a token", (long long)id);
}

static ls_status read_bert_processing(ls_tokenizer *t, const ls_json *p, ls_message *why)
{
    ls_status status = only_members(p, "its post_processor", MEMBERS("type", "sep", "cls"), why);
    const ls_json *sep = ls_json_first(ls_json_get(p, "sep")), *cls = ls_json_first(ls_json_get(p, "cls"));
    if (!status) status = find_special(t, ls_json_text(sep), ls_json_integer(sep ? sep->next : NULL, -1), &t->sep, why);
    if (!status) status = find_special(t, ls_json_text(cls), ls_json_integer(cls ? cls->next : NULL, -1), &t->cls, why);
    return status;
}

/* Is a piece of a template this sequence ("A", "B") or, where `special` is set, some special token, which is put there?
 */
static bool is_piece(const ls_json *piece, const char *sequence, const char **special, int type)
{
    const ls_json *p = ls_json_get(piece, sequence ? "Sequence" : "SpecialToken");
    const char *id = ls_json_text(ls_json_get(p, "id"));
    if (!id || ls_json_integer(ls_json_get(p, "type_id"), -1) != type) return false;
    if (sequence) return strcmp(id, sequence) == 0;
    if (*special) return strcmp(id, *special) == 0;
    *special = id;
    return true;
}

static ls_status read_template(ls_tokenizer *t, const ls_json *p, ls_message *why)
{
    ls_status status = only_members(p, "its post_processor", MEMBERS("type", "single", "pair", "special_tokens"), why);
    if (status) return status;
    const char *cls = NULL, *sep = NULL;
    const ls_json *single = ls_json_get(p, "single"), *pair = ls_json_get(p, "pair");
    bool fits = ls_json_first(single) && ls_json_first(pair) && single->count == 3 && pair->count == 5;
    const ls_json *piece = fits ? single->first : NULL;
    fits = fits && is_piece(piece, NULL, &cls, 0) && is_piece(piece = piece->next, "A", NULL, 0) &&
           is_piece(piece->next, NULL, &sep, 0);
    piece = fits ? pair->first : NULL;
    fits = fits && is_piece(piece, NULL, &cls, 0) && is_piece(piece = piece->next, "A", NULL, 0) &&
           is_piece(piece = piece->next, NULL, &sep, 0) && is_piece(piece = piece->next, "B", NULL, 1) &&
           is_piece(piece->next, NULL, &sep, 1);
    if (!fits)
        return ls_explain(why, LS_ERR_UNSUPPORTED,
                          "its post_processor is not BERT's: [CLS] A [SEP], and [CLS] A [SEP] B:1 [SEP]:1");
    const ls_json *tokens = ls_json_get(p, "special_tokens");
    const ls_json *cls_ids = ls_json_get(ls_json_get(tokens, cls), "ids");
    const ls_json *sep_ids = ls_json_get(ls_json_get(tokens, sep), "ids");
    if (!ls_json_first(cls_ids) || cls_ids->count != 1 || !ls_json_first(sep_ids) || sep_ids->count != 1)
        return not_well_formed("post_processor.special_tokens", why);
    status = find_special(t, cls, ls_json_integer(ls_json_first(cls_ids), -1), &t->cls, why);
    return status ? status : find_special(t, sep, ls_json_integer(ls_json_first(sep_ids), -1), &t->sep, why);
}

static ls_status read_post_processor(ls_tokenizer *t, const ls_json *root, ls_message *why)
{
    const ls_json *p = ls_json_get(root, "post_processor");
    const char *type = ls_json_text(ls_json_get(p, "type"));
    if (!p || p->type == LS_JSON_NULL) return LS_OK; /* no special tokens */
    if (type && strcmp(type, "BertProcessing") == 0) return read_bert_processing(t, p, why);
    if (type && strcmp(type, "TemplateProcessing") == 0) return read_template(t, p, why);
    return ls_explain(why, LS_ERR_UNSUPPORTED,
                      "its post_processor is %s; only TemplateProcessing and BertProcessing are supported",
                      type ? type : "of no type");
}

static ls_status read_decoder(ls_tokenizer *t, const ls_json *root, ls_message *why)
{
    const ls_json *d;
    if (!ls_json_get(root, "decoder") || ls_json_get(root, "decoder")->type == LS_JSON_NULL) return LS_OK;
    ls_status status = typed_member(root, "decoder", "WordPiece", &d, why);
    if (!status) status = only_members(d, "its decoder", MEMBERS("type", "prefix", "cleanup"), why);
    if (status) return status;
    const char *prefix = ls_json_text(ls_json_get(d, "prefix"));
    if (prefix && strcmp(prefix, t->prefix) == 0) return LS_OK;
    return ls_explain(why, LS_ERR_UNSUPPORTED, "the prefix of its decoder differs from that of its model");
}

ls_status ls_tokenizer_read_json(ls_tokenizer *t, const ls_json *root, ls_message *why)
{
    const ls_json *pre;
    /* truncation and padding are the author's call options; here the call decides. */
    ls_status status = only_members(root, "the file",
                                    MEMBERS("version", "truncation", "padding", "added_tokens", "normalizer",
                                            "pre_tokenizer", "post_processor", "decoder", "model"),
                                    why);
    if (!status) status = read_normalizer(t, root, why);
    if (!status) status = typed_member(root, "pre_tokenizer", "BertPreTokenizer", &pre, why);
    if (!status) status = only_members(pre, "its pre_tokenizer", MEMBERS("type"), why);
    if (!status) status = read_model(t, root, why);
    const ls_json *vocab = ls_json_get(ls_json_get(root, "model"), "vocab");
    int64_t next = vocab ? vocab->count : 0;
    for (const ls_json *a = ls_json_first(ls_json_get(root, "added_tokens")); !status && a; a = a->next)
        status = read_added_token(t, a, &next, why);
    if (!status) status = read_post_processor(t, root, why);
    if (!status) status = read_decoder(t, root, why);
    return status;
}
