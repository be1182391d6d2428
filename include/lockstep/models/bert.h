/* bert.h - BERT and its relatives with the parameter names, shapes, configuration files, arithmetic and losses of
 * Transformers, so that weights made there load here and the other way round.
 *
 *     ls_module *model = ls_bert_for_sequence_classification_new(run, "bert-base-uncased", .num_labels = 3);
 *     ls_tensor *logits = ls_forward(model, input_ids, attention_mask, token_type_ids);
 *     ls_tensor *loss = ls_bert_classification_loss(model, logits, labels);
 *     ...
 *     ls_save_model(run, model, "tuned");          model.safetensors and config.json, which from_pretrained() opens
 *
 * Inputs; trailing ones may be left out, others may be NULL:
 *
 *     input_ids [B,S]        token numbers, i64 or i32
 *     attention_mask [B,S]   not 0 at tokens, 0 at padding. Or lengths [B]: sequence b has tokens at its first
 *                            lengths[b] positions, and no attention is computed for the others
 *     token_type_ids [B,S]   0 or 1, integers: which of two sentences; default all 0
 *
 * With a mask, results equal those of Transformers at every position. With lengths they do at tokens and are undefined
 * at padding, where answers are not looked for either. */
#ifndef LOCKSTEP_MODELS_BERT_H
#define LOCKSTEP_MODELS_BERT_H

#include <lockstep/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What labels mean. LS_PROBLEM_AUTO: regression if num_labels is 1; else single-label if labels are integers and
 * multi-label if they are not. */
typedef enum ls_problem {
    LS_PROBLEM_AUTO,
    LS_PROBLEM_REGRESSION,   /* labels [B] or [B,num_labels], floating: mean squared error */
    LS_PROBLEM_SINGLE_LABEL, /* labels [B], integers: cross entropy */
    LS_PROBLEM_MULTI_LABEL,  /* labels [B,num_labels] in 0 .. 1: binary cross entropy */
} ls_problem;

/* Defaults come from config.json or, if there is none, from Transformers' BertConfig. */
typedef struct ls_bert_opts {
    int64_t num_labels LS_DEFAULT(LS_AUTO);
    ls_problem problem_type LS_DEFAULT(LS_PROBLEM_AUTO);
    double hidden_dropout_prob LS_DEFAULT(LS_AUTO_REAL), attention_probs_dropout_prob LS_DEFAULT(LS_AUTO_REAL);
    double classifier_dropout LS_DEFAULT(LS_AUTO_REAL); /* default: hidden_dropout_prob */
    /* Sizes. They must match the weights that are loaded. */
    int64_t vocab_size LS_DEFAULT(LS_AUTO), hidden_size LS_DEFAULT(LS_AUTO), num_hidden_layers LS_DEFAULT(LS_AUTO);
    int64_t num_attention_heads LS_DEFAULT(LS_AUTO), intermediate_size LS_DEFAULT(LS_AUTO);
    int64_t max_position_embeddings LS_DEFAULT(LS_AUTO), type_vocab_size LS_DEFAULT(LS_AUTO);
    double layer_norm_eps LS_DEFAULT(LS_AUTO_REAL), initializer_range LS_DEFAULT(LS_AUTO_REAL);
    const char *hidden_act LS_DEFAULT(NULL); /* "gelu", "gelu_new", "relu", "silu", ...; an unknown one lists all */
    /* If lengths are given, leave padding out of all computations, not only of attention: results are the same except
     * for rounding and the numbers dropout draws. Reads the lengths in each pass, and so waits for the device. No
     * effect on one that compiles every new shape (xla). */
    bool unpad LS_DEFAULT(false);
    /* Names of the labels, for config.json (id2label) and ls_bert_label(), ended by a NULL; without num_labels their
     * number counts. NULL: those of config.json if it has as many, else LABEL_0, ... */
    const char *const *labels LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_bert_opts;
#define ls_bert_opts_defaults                                                                                          \
    .num_labels = LS_AUTO, .hidden_dropout_prob = LS_AUTO_REAL, .attention_probs_dropout_prob = LS_AUTO_REAL,          \
    .classifier_dropout = LS_AUTO_REAL, .vocab_size = LS_AUTO, .hidden_size = LS_AUTO, .num_hidden_layers = LS_AUTO,   \
    .num_attention_heads = LS_AUTO, .intermediate_size = LS_AUTO, .max_position_embeddings = LS_AUTO,                  \
    .type_vocab_size = LS_AUTO, .layer_norm_eps = LS_AUTO_REAL, .initializer_range = LS_AUTO_REAL

/* `from` is a folder with config.json and weights (model.safetensors, shards and their index, or pytorch_model.bin); or
 * a config.json alone, or NULL: then weights are initialised as in Transformers. A head that the folder lacks, or has
 * for another number of labels, is initialised too, with a warning that names it; heads and poolers of the folder that
 * the model does not have are ignored; any other difference is an error that names it. The model_type of the
 * configuration may be bert, distilbert or roberta. */

/* Outputs (ls_forward_all): the last hidden state [B,S,E] and the pooled one [B,E]; distilbert has only the first. */
#define ls_bert_new(run, ...) LS_CALL_2(ls_bert_new, ls_bert_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_bert_new_sized(ls_run *run, const char *from, const ls_bert_opts *opts, size_t opts_size);

/* -> logits [B,num_labels] */
#define ls_bert_for_sequence_classification_new(run, ...)                                                              \
    LS_CALL_2(ls_bert_for_sequence_classification_new, ls_bert_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_bert_for_sequence_classification_new_sized(ls_run *run, const char *from, const ls_bert_opts *opts,
                                                                size_t opts_size);

/* The name of a label of such a model; "" if it has no such label. Owned by the model. */
LS_API const char *ls_bert_label(const ls_module *model, int64_t label);

/* Outputs: start logits and end logits, [B,S] each. */
#define ls_bert_for_question_answering_new(run, ...)                                                                   \
    LS_CALL_2(ls_bert_for_question_answering_new, ls_bert_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_bert_for_question_answering_new_sized(ls_run *run, const char *from, const ls_bert_opts *opts,
                                                           size_t opts_size);

/* -> logits [B,S,vocab_size]; the last product uses the weights of the word embeddings */
#define ls_bert_for_masked_lm_new(run, ...) LS_CALL_2(ls_bert_for_masked_lm_new, ls_bert_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_bert_for_masked_lm_new_sized(ls_run *run, const char *from, const ls_bert_opts *opts,
                                                  size_t opts_size);

/* ---- Losses, as Transformers computes them ---- */

/* For sequence classification; which loss it is depends on the model's problem_type. */
LS_API ls_tensor *ls_bert_classification_loss(const ls_module *model, ls_tensor *logits, ls_tensor *labels);
/* The mean of two cross entropies over positions; starts and ends [B]. Positions from S on are ignored, negative ones
 * count as 0. */
LS_API ls_tensor *ls_bert_span_loss(ls_tensor *start_logits, ls_tensor *end_logits, ls_tensor *starts, ls_tensor *ends);
/* Cross entropy over tokens; labels [B,S], where -100 is ignored. */
LS_API ls_tensor *ls_bert_masked_lm_loss(ls_tensor *logits, ls_tensor *labels);

#ifdef __cplusplus
}
#endif
#endif
