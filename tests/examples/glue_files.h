/* glue_files.h - data for the tests of glue: a small untrained model, and texts of letters in which one word tells the
 * class. */
#ifndef LOCKSTEP_TESTS_GLUE_FILES_H
#define LOCKSTEP_TESTS_GLUE_FILES_H

#include <lockstep.h>

#include "check.h"
#include "examples/draw.h"

static const char *const WORDS[3][2] = {{"bad", "awful"}, {"good", "lovely"}, {"plain", "usual"}};

/* A model with this bias of the classifier. */
static void make_classifier(const char *folder, double bias)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_bert_for_sequence_classification_new(
        run, NULL, .vocab_size = 37, .hidden_size = 32, .num_hidden_layers = 1, .num_attention_heads = 2,
        .intermediate_size = 64, .max_position_embeddings = 64, .hidden_dropout_prob = 0,
        .attention_probs_dropout_prob = 0, .initializer_range = 0.1);
    ls_init_constant(ls_state_find(ls_parameters(model), "classifier.bias"), bias);
    ls_save_model(run, model, folder);
    CHECK(ls_finish(run) == 0);
    char path[512];
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    FILE *file = fopen(path, "w");
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", file);
    for (int c = 'a'; c <= 'z'; c++) fprintf(file, "%c\n", c);
    for (int i = 0; i < 6; i++) fprintf(file, "%s\n", WORDS[i / 2][i % 2]);
    fclose(file);
}

/* Some letters, with one word of the class among them where there is a class. */
static void put_text(FILE *file, int class, uint32_t *random)
{
    uint32_t count = 2 + draw(random, 9), place = draw(random, count);
    for (uint32_t w = 0; w < count; w++) {
        if (w) fputc(' ', file);
        if (w == place && class >= 0) fputs(WORDS[class][draw(random, 2)], file);
        else fputc('a' + (int)draw(random, 26), file);
    }
}

/* `pattern` has what a row is made of: l the label, t the text that decides, s another; the rest is copied. Classes
 * take turns. The last `wrong` rows have the label of the next class. */
static void write_table(const char *path, const char *header, const char *pattern, const char *const *labels,
                        int classes, int count, int wrong)
{
    uint32_t random = (uint32_t)count;
    FILE *file = fopen(path, "w");
    fputs(header, file);
    for (int i = 0; i < count; i++) {
        int class = i % classes;
        for (const char *at = pattern; *at; at++)
            if (*at == 'l') fputs(labels[(class + (i >= count - wrong)) % classes], file);
            else if (*at == 't') put_text(file, class, &random);
            else if (*at == 's') put_text(file, -1, &random);
            else fputc(*at, file);
    }
    fclose(file);
}

#endif
