/* tokenize.c - text to tokens with offsets: the contexts of SQuAD with BERT's vocabulary, in bytes per second; and
 * whole files of questions to windows. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct contexts {
    ls_tokenizer *tokenizer;
    const ls_questions *questions;
    const char **texts; /* each context once */
    int64_t count;
    size_t bytes;
} contexts;

static bool path_of(char *path, size_t size, const char *name)
{
    const char *data = getenv("LOCKSTEP_TEST_DATA");
    snprintf(path, size, "%s/%s", data ? data : BENCH_DATA_DIR, name);
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

static contexts *contexts_new(ls_run *run)
{
    char vocabulary[1024], squad[1024];
    if (!path_of(vocabulary, sizeof vocabulary, "bert_tokenizer/bert-base-uncased-vocab.txt") ||
        !path_of(squad, sizeof squad, "squad/dev-v1.1.json"))
        return NULL;
    contexts *c = calloc(1, sizeof *c);
    c->tokenizer = ls_tokenizer_new(run, vocabulary);
    c->questions = ls_questions_read(run, squad);
    c->texts = calloc(c->questions ? (size_t)c->questions->count : 1, sizeof *c->texts);
    for (int64_t i = 0; c->questions && i < c->questions->count; i++) {
        const char *context = c->questions->list[i].context;
        if (c->count && c->texts[c->count - 1] == context) continue;
        c->texts[c->count++] = context;
        c->bytes += strlen(context);
    }
    return c;
}

static void tokenize_release(void *state)
{
    contexts *c = state;
    if (!c) return;
    ls_tokenizer_free(c->tokenizer);
    ls_questions_free(c->questions);
    free(c->texts);
    free(c);
}

static void *tokenize_setup(ls_run *run, const bench_item *item)
{
    (void)item;
    return contexts_new(run);
}

static void tokenize_call(void *state)
{
    contexts *c = state;
    ls_encoding_free(ls_tokenizer_encode_n(c->tokenizer, c->texts, NULL, c->count, .characters = true));
}

void bench_add_tokenizers(int threads)
{
    ls_run *run = ls_init(NULL, NULL); /* only to count the bytes */
    contexts *c = contexts_new(run);
    if (c) {
        bench_item *item =
            bench_add(BENCH_GBS, BENCH_PEAK_NONE, threads, (double)c->bytes, "tokenize/u8/SQuAD contexts");
        item->setup = tokenize_setup;
        item->call = tokenize_call;
        item->release = tokenize_release;
    }
    tokenize_release(c);
    ls_finish(run);
}

int bench_features(char **arguments)
{
    double began = bench_now();
    ls_run *run = ls_init(NULL, NULL);
    const ls_questions *questions = ls_questions_read(run, arguments[0]);
    ls_qa_windows *windows = ls_qa_windows_new(ls_tokenizer_new(run, arguments[1]), questions);
    if (windows && ls_qa_windows_count(windows) && !ls_error(run)) printf("%.6g\n", 1e3 * (bench_now() - began));
    return ls_finish(run);
}
