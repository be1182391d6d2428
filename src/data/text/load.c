/* load.c - load tokenizers from a vocab.txt, a tokenizer.json, or a model folder, which the cache may have. */
#include <stdio.h>
#include <string.h>

#include <lockstep/formats.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/message.h"
#include "data/text/tokenizer.h"

enum { LARGEST_FILE = 256 << 20 };

/* ---- vocab.txt ---- */

ls_status ls_tokenizer_read_lines(ls_tokenizer *t, const char *text, size_t size, ls_message *why)
{
    ls_status status = ls_vocabulary_read(&t->vocabulary, text, size, why);
    for (int i = 0; !status && i < LS_SPECIAL_TOKENS; i++) {
        int32_t id = ls_vocabulary_find(&t->vocabulary, t->names[i], strlen(t->names[i]));
        if (i == LS_TOKEN_CLS) t->cls = id;
        if (i == LS_TOKEN_SEP) t->sep = id;
        if (id < 0) continue;
        const ls_token_text *token = &t->vocabulary.tokens[id];
        status = ls_tokenizer_add(t, (ls_added_token){token->text, token->length, id, .special = true}, why);
    }
    return status;
}

/* ---- tokenizer_config.json ---- */

static ls_status read_rule(const ls_json *root, const char *name, bool *rule, ls_message *why)
{
    const ls_json *member = ls_json_get(root, name);
    if (!member || member->type == LS_JSON_NULL) return LS_OK;
    if (member->type != LS_JSON_BOOL) return ls_explain(why, LS_ERR_IO, "%s is neither true nor false", name);
    *rule = member->boolean;
    return LS_OK;
}

/* "[PAD]", or {"content": "[PAD]", ...}. */
static bool read_name(ls_tokenizer *t, const ls_json *root, const char *member, ls_special_token which)
{
    const ls_json *value = ls_json_get(root, member);
    const char *text = ls_json_text(value);
    if (!text) text = ls_json_text(ls_json_get(value, "content"));
    if (!text) return true;
    t->names[which] = ls_arena_text(&t->vocabulary.texts, text, strlen(text));
    return t->names[which] != NULL;
}

ls_status ls_tokenizer_read_config(ls_tokenizer *t, const ls_json *root, ls_message *why)
{
    static const char *const names[LS_SPECIAL_TOKENS] = {"unk_token", "sep_token", "pad_token", "cls_token",
                                                         "mask_token"};
    bool basic = true;
    const ls_json *strip = ls_json_get(root, "strip_accents");
    ls_status status = read_rule(root, "do_basic_tokenize", &basic, why);
    if (!status && !basic) status = ls_explain(why, LS_ERR_UNSUPPORTED, "do_basic_tokenize = false is not supported");
    if (!status) status = read_rule(root, "do_lower_case", &t->rules.lower_case, why);
    if (!status) status = read_rule(root, "tokenize_chinese_chars", &t->rules.split_chinese, why);
    if (!status) status = read_rule(root, "strip_accents", &t->rules.strip_accents, why);
    if (strip && strip->type == LS_JSON_BOOL) t->accents_follow_case = false;
    for (int i = 0; !status && i < LS_SPECIAL_TOKENS; i++)
        if (!read_name(t, root, names[i], (ls_special_token)i))
            status = ls_explain(why, LS_ERR_MEMORY, "out of memory");
    return status;
}

/* ---- files ---- */

typedef ls_status read_json_fn(ls_tokenizer *t, const ls_json *root, ls_message *why);

static ls_status load_json(ls_tokenizer *t, const char *path, read_json_fn *read, ls_message *why)
{
    size_t size;
    char *text = ls_file_read(path, LARGEST_FILE, &size, why);
    if (!text) return LS_ERR_IO;
    ls_message reason = {{0}};
    ls_json *root = ls_json_read(text, size, &reason);
    ls_sys_free(text);
    ls_status status = root ? read(t, root, &reason) : LS_ERR_IO;
    ls_json_free(root);
    return status ? ls_explain(why, status, "%s: %s", path, reason.text) : LS_OK;
}

static ls_status load_lines(ls_tokenizer *t, const char *path, ls_message *why)
{
    size_t size;
    char *text = ls_file_read(path, LARGEST_FILE, &size, why);
    if (!text) return LS_ERR_IO;
    ls_message reason = {{0}};
    ls_status status = ls_tokenizer_read_lines(t, text, size, &reason);
    ls_sys_free(text);
    return status ? ls_explain(why, status, "%s: %s", path, reason.text) : LS_OK;
}

static ls_status load_folder(ls_tokenizer *t, const char *folder, ls_message *why)
{
    char json[4096], lines[4096], config[4096];
    if ((size_t)snprintf(config, sizeof config, "%s/tokenizer_config.json", folder) >= sizeof config)
        return ls_explain(why, LS_ERR_VALUE, "the path has more than %zu bytes", sizeof config);
    snprintf(json, sizeof json, "%s/tokenizer.json", folder);
    snprintf(lines, sizeof lines, "%s/vocab.txt", folder);
    bool has_json = ls_path_kind_of(json) == LS_PATH_FILE, has_config = ls_path_kind_of(config) == LS_PATH_FILE;
    if (!has_json && ls_path_kind_of(lines) != LS_PATH_FILE)
        return ls_explain(why, LS_ERR_IO, "%s has neither a tokenizer.json nor a vocab.txt", folder);
    /* The config may be newer than the tokenizer.json and overrides it; a vocab.txt needs it. */
    ls_status status = has_json ? load_json(t, json, ls_tokenizer_read_json, why) : LS_OK;
    if (!status && has_config) status = load_json(t, config, ls_tokenizer_read_config, why);
    if (!status && !has_json) status = load_lines(t, lines, why);
    return status;
}

/* The folder of a model in Hugging Face's cache. */
static bool find_cached(const char *id, char *folder, size_t size)
{
    return ls_hub_find("models", id, "tokenizer.json", folder, size) ||
           ls_hub_find("models", id, "vocab.txt", folder, size);
}

ls_status ls_tokenizer_load(ls_tokenizer *t, const char *path, ls_message *why)
{
    size_t length = strlen(path);
    char cached[4096];
    if (ls_path_kind_of(path) == LS_PATH_NONE && find_cached(path, cached, sizeof cached))
        return load_folder(t, cached, why);
    if (ls_path_kind_of(path) == LS_PATH_FOLDER) return load_folder(t, path, why);
    if (length > 5 && strcmp(path + length - 5, ".json") == 0) return load_json(t, path, ls_tokenizer_read_json, why);
    return load_lines(t, path, why);
}
