/* write.c - save a tokenizer as files that Transformers opens: vocab.txt and tokenizer_config.json. */
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/text/tokenizer.h"

/* One token per line, in the order of their numbers; an empty line for an unused number. */
static bool write_vocabulary(const ls_tokenizer *t, const char *path, ls_message *why)
{
    const ls_vocabulary *v = &t->vocabulary;
    ls_file_out out;
    bool ok = ls_file_create(&out, path, true, why);
    for (int64_t id = 0; ok && id < v->count; id++)
        ok = ls_file_put(&out, v->tokens[id].text ? v->tokens[id].text : "", v->tokens[id].length, why) &&
             ls_file_put(&out, "\n", 1, why);
    return ok && ls_file_seal(&out, why) && ls_file_publish(&out, why);
}

static void put_token(ls_json_writer *w, const ls_tokenizer *t, const char *key, int32_t id)
{
    if (id >= 0) ls_json_put_text(w, key, t->vocabulary.tokens[id].text);
}

static bool write_config(const ls_tokenizer *t, const char *path, ls_message *why)
{
    ls_json_writer w = {.indent = 2};
    ls_json_put_object(&w, NULL);
    put_token(&w, t, "cls_token", t->cls);
    ls_json_put_bool(&w, "do_lower_case", t->rules.lower_case);
    put_token(&w, t, "mask_token", ls_vocabulary_find(&t->vocabulary, "[MASK]", 6));
    put_token(&w, t, "pad_token", t->pad);
    put_token(&w, t, "sep_token", t->sep);
    ls_json_put_bool(&w, "strip_accents", t->rules.strip_accents);
    ls_json_put_bool(&w, "tokenize_chinese_chars", t->rules.split_chinese);
    ls_json_put_text(&w, "tokenizer_class", "BertTokenizer");
    put_token(&w, t, "unk_token", t->unknown);
    ls_json_put_end(&w);
    size_t size;
    char *text = ls_json_take(&w, &size);
    bool ok = text && ls_file_write(path, text, size, true, why);
    if (!text) ls_message_set(why, "%s: no memory", path);
    ls_sys_free(text);
    return ok;
}

bool ls_tokenizer_write(const ls_tokenizer *t, const char *folder)
{
    if (!t) return false;
    ls_run *run = t->object.run;
    ls_message why = {{0}};
    char vocabulary[4096], config[4096];
    if (ls_failed(run)) return false;
    if (!folder || snprintf(vocabulary, sizeof vocabulary, "%s/vocab.txt", folder) >= (int)sizeof vocabulary - 16)
        return ls_fail(&run->errors, LS_ERR_VALUE,
                       "ls_tokenizer_write: the path of a folder is needed, shorter than 4096 bytes"),
               false;
    snprintf(config, sizeof config, "%s/tokenizer_config.json", folder);
    if (ls_folder_make(folder, &why) && write_vocabulary(t, vocabulary, &why) && write_config(t, config, &why))
        return true;
    ls_fail(&run->errors, LS_ERR_IO, "%s", why.text);
    return false;
}
