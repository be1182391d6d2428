/* bert.h - the parts of BERT and its relatives: configuration, encoder, weights from files. */
#ifndef LOCKSTEP_MODELS_BERT_INSIDE_H
#define LOCKSTEP_MODELS_BERT_INSIDE_H

#include <lockstep/models/bert.h>

#include "base/json.h"
#include "nn/layers.h"

typedef enum ls_bert_kind { LS_BERT, LS_DISTILBERT, LS_ROBERTA, LS_BERT_KINDS } ls_bert_kind;

enum { LS_BERT_LABEL_ROOM = 32 };

/* The values of config.json and the options, under BERT's names. */
typedef struct ls_bert_config {
    const char *who; /* the function that the program called, for errors */
    ls_bert_kind kind;
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
    int64_t max_position_embeddings, type_vocab_size, pad_token_id, num_labels;
    double hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout, qa_dropout;
    double layer_norm_eps, initializer_range;
    char hidden_act[32];
    ls_activation activation; /* of hidden_act */
    ls_problem problem_type;
    bool unpad;
    const char *const *labels; /* num_labels names; NULL: those of the file, if any */
    ls_json *file;             /* the whole config.json; NULL: none */
} ls_bert_config;

/* bert_config.c: read what `from` names (a folder, a config.json, or NULL), and apply options on top. False, and an
 * error, if something is missing or invalid. `file` is freed with ls_json_free(). */
bool ls_bert_config_read(ls_run *run, const char *who, const char *from, const ls_bert_opts *opts,
                         ls_bert_config *config);
/* The name of a label: from the options, from the file, or else Transformers' default, which is written into `room`. */
const char *ls_bert_label_name(const ls_bert_config *config, int64_t label, char room[LS_BERT_LABEL_ROOM]);
/* The config.json of a model of this architecture, as text that the caller frees with ls_sys_free(): what was read,
 * updated with changes. NULL if out of memory. */
char *ls_bert_config_text(const ls_bert_config *config, const char *architecture);

/* bert_encoder.c: embeddings, layers and, if requested, the pooler: the module that models contain under the name of
 * the kind. Outputs: the last hidden state and, with a pooler, the pooled one. */
ls_module *ls_bert_encoder_new(ls_run *run, const ls_bert_config *config, bool pooler);
/* [V,E]: the embeddings of words. */
ls_tensor *ls_bert_words(const ls_module *encoder);
/* Add a child under a dotted path; missing levels are created as lists. Returns the child. */
ls_module *ls_module_add_at(ls_module *module, const char *path, ls_module *child);
/* Initialise the parameters of a module whose names match the patterns (NULL: all), as Transformers does. */
void ls_bert_draw(ls_module *module, const ls_bert_config *config, const char *patterns);

/* pretrained.c: load the weights of a folder. `who` is the function that the program called, for errors; `base` is the
 * encoder's name prefix in models with a head, which a file may lack or have in addition; `fresh` are patterns of names
 * that may be missing or have another shape, with a warning. */
void ls_pretrained_load(ls_module *model, const char *who, const char *folder, const char *base, const char *fresh);

#endif
