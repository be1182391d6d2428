/* qa_files.h - data for the tests of qa: a small untrained model, and questions whose answer is the only number in a
 * text of letters. */
#ifndef LOCKSTEP_TESTS_QA_FILES_H
#define LOCKSTEP_TESTS_QA_FILES_H

#include <lockstep.h>

#include <stdlib.h>

#include "check.h"
#include "examples/draw.h"

static const char *const NUMBERS[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};

/* Make a model for texts of up to `tokens`, in a folder that is created if missing. */
static void make_model(const char *to, int64_t tokens)
{
    char vocabulary[600];
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_bert_for_question_answering_new(run, NULL, .vocab_size = 43, .hidden_size = 32,
                                                          .num_hidden_layers = 1, .num_attention_heads = 2,
                                                          .intermediate_size = 64, .max_position_embeddings = tokens,
                                                          .hidden_dropout_prob = 0, .attention_probs_dropout_prob = 0);
    ls_save_model(run, model, to);
    CHECK(ls_finish(run) == 0);
    snprintf(vocabulary, sizeof vocabulary, "%s/vocab.txt", to);
    FILE *file = fopen(vocabulary, "w");
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwhich\n?\n", file);
    for (int c = 'a'; c <= 'z'; c++) fprintf(file, "%c\n", c);
    for (int i = 0; i < 10; i++) fprintf(file, "%s\n", NUMBERS[i]);
    fclose(file);
}

static void write_questions(const char *to, int count, uint32_t words, uint32_t random)
{
    FILE *file = fopen(to, "w");
    fputs("{\"data\": [", file);
    for (int i = 0; i < count; i++) {
        const char *number = NUMBERS[draw(&random, 10)];
        uint32_t place = draw(&random, words);
        fprintf(file, "%s{\"id\": \"q%d\", \"question\": \"which?\", \"context\": \"", i ? ", " : "", i);
        for (uint32_t w = 0; w < words; w++)
            if (w == place) fprintf(file, "%s ", number);
            else fprintf(file, "%c ", 'a' + (int)draw(&random, 26));
        fprintf(file, "\", \"answers\": {\"text\": [\"%s\"], \"answer_start\": [%u]}}", number, 2 * place);
    }
    fputs("]}", file);
    fclose(file);
}

enum { CACHED_TRAIN = 29, CACHED_DEV = 11, CACHED_WORDS = 700, CACHED_TOKENS = 512 };

/* A model of this name ("owner--name") and SQuAD in a cache of downloads, as Hugging Face lays them out. Contexts take
 * several windows of 384 tokens; batches do not divide the windows evenly. */
__attribute__((unused)) static void make_cache(const char *hub, const char *model)
{
    char at[3][512];
    const char *const kinds[] = {"models", "datasets"}, *const names[] = {model, "squad"};
    for (int i = 0; i < 2; i++) {
        snprintf(at[0], sizeof at[0], "mkdir -p %s/%s--%s/snapshots/abc", hub, kinds[i], names[i]);
        CHECK(system(at[0]) == 0);
    }
    snprintf(at[0], sizeof at[0], "%s/models--%s/snapshots/abc", hub, model);
    snprintf(at[1], sizeof at[1], "%s/datasets--squad/snapshots/abc/train-v1.1.json", hub);
    snprintf(at[2], sizeof at[2], "%s/datasets--squad/snapshots/abc/dev-v1.1.json", hub);
    make_model(at[0], CACHED_TOKENS);
    write_questions(at[1], CACHED_TRAIN, CACHED_WORDS, 1);
    write_questions(at[2], CACHED_DEV, CACHED_WORDS, 2);
}

#endif
