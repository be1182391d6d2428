/* load.c - tokenizers from files: a vocab.txt. */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/message.h"
#include "data/text/tokenizer.h"

enum { LARGEST_FILE = 256 << 20 };

/* The five tokens that BERT's texts may contain as they stand; those that the vocabulary has. */
static ls_status add_special_tokens(ls_tokenizer *t, ls_message *why)
{
    static const char *const names[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < sizeof names / sizeof *names; i++) {
        int32_t id = ls_vocabulary_find(&t->vocabulary, names[i], strlen(names[i]));
        if (id < 0) continue;
        const ls_token_text *token = &t->vocabulary.tokens[id];
        status = ls_tokenizer_add(t, (ls_added_token){token->text, token->length, id, .special = true}, why);
    }
    t->cls = ls_vocabulary_find(&t->vocabulary, "[CLS]", 5);
    t->sep = ls_vocabulary_find(&t->vocabulary, "[SEP]", 5);
    t->pad = ls_vocabulary_find(&t->vocabulary, "[PAD]", 5);
    return status;
}

ls_status ls_tokenizer_read_vocabulary(ls_tokenizer *t, const char *path, ls_message *why)
{
    size_t size;
    char *text = ls_file_read(path, LARGEST_FILE, &size, why);
    if (!text) return LS_ERR_IO;
    ls_message reason = {{0}};
    ls_status status = ls_vocabulary_read(&t->vocabulary, text, size, &reason);
    ls_sys_free(text);
    if (!status) status = add_special_tokens(t, &reason);
    return status ? ls_explain(why, status, "%s: %s", path, reason.text) : LS_OK;
}
