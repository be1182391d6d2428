/* bert_tiny.h - shared by the tests of BERT: a tiny model, the folder it is saved to, comparisons.
 * FOLDER names that folder; each test has its own, since they run in parallel. */
#ifndef TESTS_MODELS_BERT_TINY_H
#define TESTS_MODELS_BERT_TINY_H

#include "check.h"
#include "folder.h"

#include <lockstep.h>

#define TINY                                                                                                           \
    NULL, .vocab_size = 50, .hidden_size = 16, .num_hidden_layers = 2, .num_attention_heads = 2,                       \
          .intermediate_size = 24, .max_position_embeddings = 12

#define SIZES_OF_TINY                                                                                                  \
    "\"vocab_size\": 50, \"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "                  \
    "\"intermediate_size\": 24, \"max_position_embeddings\": 12"

static const char folder[] = FOLDER;

static inline void check_ok(ls_run *run)
{
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static inline void check_error(ls_run *run, ls_status code, const char *part)
{
    CHECK_MSG(ls_error(run) == code && strstr(ls_error_message(run), part), "%d: %s, expected %s", (int)ls_error(run),
              ls_error_message(run), part);
    ls_clear_error(run);
}

static inline double largest(ls_tensor *t)
{
    return ls_item(ls_max(ls_abs(ls_cast(t, LS_F64))));
}

static inline double difference(ls_tensor *a, ls_tensor *b)
{
    return largest(ls_sub(ls_cast(a, LS_F64), ls_cast(b, LS_F64)));
}

static inline ls_tensor *integers(ls_run *run, ls_shape shape, const int64_t *values)
{
    return ls_from(run, LS_I64, shape, values);
}

static inline bool same(ls_module *a, ls_module *b, const char *name)
{
    return difference(ls_module_tensor(a, name), ls_module_tensor(b, name)) == 0;
}

static inline void write_config(const char *text)
{
    FILE *file = fopen(FOLDER "/config.json", "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

#endif
