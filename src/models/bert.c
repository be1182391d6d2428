/* bert.c - models with a BERT encoder: alone, and with heads for classification, question answering and masked words.
 * */
#include "models/bert.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "nn/packing.h"

static const char *const bases[LS_BERT_KINDS] = {"bert", "distilbert", "roberta"};

/* ---- construction ---- */

/* What differs between the constructors. */
typedef struct model_kind {
    const char *who; /* the function that the program calls */
    /* The modules, under this name of the architecture. The configuration may be changed to what shall be saved. */
    ls_module *(*make)(ls_run *run, ls_bert_config *config, const char *architecture);
    struct {
        const char *architecture, *fresh; /* Transformers' name, and patterns of parameters that files may lack */
    } of[LS_BERT_KINDS];
} model_kind;

/* Load weights from the folder or initialise them, and attach the configuration to save. */
static void fill(ls_module *model, const ls_bert_config *config, const char *from, const char *architecture,
                 const char *fresh)
{
    ls_run *run = model->object.run;
    bool has_weights = from && ls_path_kind_of(from) == LS_PATH_FOLDER;
    if (!has_weights || fresh) ls_bert_draw(model, config, has_weights ? fresh : NULL);
    if (has_weights && !ls_failed(run)) ls_pretrained_load(model, config->who, from, bases[config->kind], fresh);
    if (!ls_failed(run) && !(model->config = ls_bert_config_text(config, architecture)))
        ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", architecture);
}

static ls_module *construct(const model_kind *kind, ls_run *run, const char *from, const ls_bert_opts *given,
                            size_t opts_size)
{
    ls_bert_opts opts = LS_OPTS_READ(ls_bert_opts, given, opts_size);
    ls_bert_config config;
    ls_module *model = NULL;
    bool ok = ls_bert_config_read(run, kind->who, from, &opts, &config);
    const char *architecture = kind->of[config.kind].architecture;
    if (ok) model = kind->make(run, &config, architecture);
    if (model && !ls_failed(run)) fill(model, &config, from, architecture, kind->of[config.kind].fresh);
    ls_json_free(config.file);
    if (!model || !ls_failed(run)) return model;
    ls_module_free(model); /* with all its parts */
    return NULL;
}

static ls_tensor *dropped(const ls_module *self, ls_tensor *x, double p)
{
    return self->training && p > 0 ? ls_dropout(x, p) : x;
}

/* ---- the encoder alone ---- */

static ls_module *encoder_new(ls_run *run, ls_bert_config *config, const char *architecture)
{
    (void)architecture;
    return ls_bert_encoder_new(run, config, true);
}

ls_module *ls_bert_new_sized(ls_run *run, const char *from, const ls_bert_opts *given, size_t opts_size)
{
    static const model_kind kind = {
        "ls_bert_new",
        encoder_new,
        {{"BertModel", "pooler.*"}, {"DistilBertModel", NULL}, {"RobertaModel", "pooler.*"}}};
    return construct(&kind, run, from, given, opts_size);
}

/* ---- classification ---- */

typedef struct classifier {
    ls_module module;
    ls_module *encoder, *dense, *out; /* dense: NULL if the pooler takes its place */
    double dropout;
    int64_t num_labels;
    ls_problem problem_type;
    bool drops_twice; /* also before dense */
    char labels[];    /* num_labels zero-terminated names */
} classifier;

/* Only what the encoder makes of the first word is used, so a mask of sequences that end in padding may be lengths. */
static ls_outputs encode_first_word(const classifier *c, ls_tensor *const *x, int64_t n)
{
    bool has_mask = (n == 2 || n == 3) && ls_is_valid(x[0]) && ls_is_valid(x[1]) && ls_ndim(x[1]) == 2 &&
                    ls_shape_equal(ls_shape_of(x[1]), ls_shape_of(x[0]));
    if (!has_mask) return ls_forward_all_n(c->encoder, x, n);
    return ls_forward_all_n(c->encoder, (ls_tensor *[]){x[0], ls_lengths_of_mask(x[1]), n > 2 ? x[2] : NULL}, n);
}

static ls_tensor *classifier_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    const classifier *c = (const classifier *)self;
    ls_outputs encoded = encode_first_word(c, x, n);
    ls_tensor *y = c->dense ? ls_select(encoded.item[0], 1, 0) : encoded.item[1];
    if (c->drops_twice) y = dropped(self, y, c->dropout);
    if (c->dense) y = ls_forward(c->dense, y);
    return ls_forward(c->out, dropped(self, y, c->dropout));
}

/* Write the names of labels one after the other; NULL: only return the bytes they take. */
static size_t put_label_names(const ls_bert_config *config, char *to)
{
    size_t used = 0;
    for (int64_t i = 0; i < config->num_labels; i++) {
        char room[LS_BERT_LABEL_ROOM];
        const char *name = ls_bert_label_name(config, i, room);
        if (to) strcpy(to + used, name);
        used += strlen(name) + 1;
    }
    return used;
}

static ls_module *classifier_new(ls_run *run, ls_bert_config *config, const char *architecture)
{
    classifier *c = ls_layer_new_n(run, architecture, sizeof *c + put_label_names(config, NULL), classifier_forward);
    if (!c) return NULL;
    put_label_names(config, c->labels);
    ls_module *m = &c->module;
    int64_t width = config->hidden_size;
    c->dropout = config->classifier_dropout;
    c->num_labels = config->num_labels;
    c->problem_type = config->problem_type;
    c->drops_twice = config->kind == LS_ROBERTA;
    ls_layer_says(c, "dropout %g", c->dropout);
    c->encoder = ls_module_add(m, bases[config->kind], ls_bert_encoder_new(run, config, config->kind == LS_BERT));
    ls_module *out = ls_linear_blank(run, width, c->num_labels);
    if (config->kind == LS_ROBERTA) {
        c->dense =
            ls_module_add_at(m, "classifier.dense", ls_linear_blank(run, width, width, .activation = LS_ACT_TANH));
        c->out = ls_module_add_at(m, "classifier.out_proj", out);
        return ls_layer_done(c);
    }
    if (config->kind == LS_DISTILBERT)
        c->dense = ls_module_add(m, "pre_classifier", ls_linear_blank(run, width, width, .activation = LS_ACT_RELU));
    c->out = ls_module_add(m, "classifier", out);
    return ls_layer_done(c);
}

ls_module *ls_bert_for_sequence_classification_new_sized(ls_run *run, const char *from, const ls_bert_opts *given,
                                                         size_t opts_size)
{
    static const model_kind kind = {"ls_bert_for_sequence_classification_new",
                                    classifier_new,
                                    {{"BertForSequenceClassification", "classifier.*|bert.pooler.*"},
                                     {"DistilBertForSequenceClassification", "pre_classifier.*|classifier.*"},
                                     {"RobertaForSequenceClassification", "classifier.*"}}};
    return construct(&kind, run, from, given, opts_size);
}

static ls_problem problem_of(const classifier *c, const ls_tensor *labels)
{
    if (c->problem_type != LS_PROBLEM_AUTO) return c->problem_type;
    if (c->num_labels == 1) return LS_PROBLEM_REGRESSION;
    return ls_dtype_is_float(ls_dtype_of(labels)) ? LS_PROBLEM_MULTI_LABEL : LS_PROBLEM_SINGLE_LABEL;
}

const char *ls_bert_label(const ls_module *model, int64_t label)
{
    const classifier *c = (const classifier *)model;
    if (!model || model->forward_n != classifier_forward || label < 0 || label >= c->num_labels) return "";
    const char *name = c->labels;
    for (int64_t i = 0; i < label; i++) name += strlen(name) + 1;
    return name;
}

ls_tensor *ls_bert_classification_loss(const ls_module *model, ls_tensor *logits, ls_tensor *labels)
{
    ls_run *run = ls_run_of(logits);
    if (!model || model->forward_n != classifier_forward)
        return LS_POISON(run, LS_ERR_VALUE,
                         "ls_bert_classification_loss: %s is not a model for sequence classification",
                         model ? model->kind : "NULL");
    if (!ls_check_live(run, logits, "ls_bert_classification_loss") ||
        !ls_check_live(run, labels, "ls_bert_classification_loss"))
        return &run->poison;
    const classifier *c = (const classifier *)model;
    switch (problem_of(c, labels)) {
    case LS_PROBLEM_REGRESSION:
        if (c->num_labels == 1) labels = ls_reshape(labels, -1, 1);
        return ls_mse_loss(logits, ls_cast(labels, ls_dtype_of(logits)), LS_REDUCE_MEAN);
    case LS_PROBLEM_MULTI_LABEL: return ls_bce_with_logits(logits, ls_cast(labels, ls_dtype_of(logits)));
    default: return ls_cross_entropy(logits, ls_reshape(labels, -1));
    }
}

/* ---- question answering ---- */

typedef struct qa_head {
    ls_module module;
    ls_module *encoder, *out;
    double dropout;
} qa_head;

/* Mask logits [B,S] after the words of each sequence: their probability becomes 0 in every number type. */
static ls_tensor *without_padding(ls_tensor *logits, ls_tensor *lengths)
{
    ls_run *run = logits->run;
    ls_tensor *positions = ls_arange(run, LS_I64, ls_dim(logits, 1), 0, 1);
    ls_tensor *never = ls_full_shape(run, ls_dtype_of(logits), -1e4, LS_SCALAR);
    return ls_where(ls_lt(positions, ls_unsqueeze(lengths, 1)), logits, never);
}

static ls_outputs qa_head_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    const qa_head *a = (const qa_head *)self;
    ls_tensor *hidden = ls_forward_all_n(a->encoder, x, n).item[0];
    ls_tensor *logits = ls_forward(a->out, dropped(self, hidden, a->dropout));
    ls_tensor *start = ls_select(logits, -1, 0), *end = ls_select(logits, -1, 1);
    if (n < 2 || !x[1] || ls_ndim(x[1]) != 1) return LS_OUTPUTS(start, end);
    return LS_OUTPUTS(without_padding(start, x[1]), without_padding(end, x[1]));
}

static ls_module *qa_head_new(ls_run *run, ls_bert_config *config, const char *architecture)
{
    qa_head *a = ls_layer_new_all(run, architecture, sizeof *a, qa_head_forward);
    if (!a) return NULL;
    config->labels = NULL;
    config->num_labels = 2; /* start and end, as in Transformers */
    a->dropout = config->qa_dropout;
    if (a->dropout > 0) ls_layer_says(a, "dropout %g", a->dropout);
    a->encoder = ls_module_add(&a->module, bases[config->kind], ls_bert_encoder_new(run, config, false));
    a->out = ls_module_add(&a->module, "qa_outputs", ls_linear_blank(run, config->hidden_size, 2));
    return ls_layer_done(a);
}

ls_module *ls_bert_for_question_answering_new_sized(ls_run *run, const char *from, const ls_bert_opts *given,
                                                    size_t opts_size)
{
    static const model_kind kind = {"ls_bert_for_question_answering_new",
                                    qa_head_new,
                                    {{"BertForQuestionAnswering", "qa_outputs.*"},
                                     {"DistilBertForQuestionAnswering", "qa_outputs.*"},
                                     {"RobertaForQuestionAnswering", "qa_outputs.*"}}};
    return construct(&kind, run, from, given, opts_size);
}

/* For logits [B,S] and positions [B] or [B,1]. */
static ls_tensor *position_loss(ls_tensor *logits, ls_tensor *positions)
{
    int64_t length = ls_dim(logits, 1);
    ls_tensor *inside = ls_clamp(ls_reshape(positions, -1), 0, (double)length);
    return ls_cross_entropy(logits, inside, .ignore_index = length);
}

ls_tensor *ls_bert_span_loss(ls_tensor *start_logits, ls_tensor *end_logits, ls_tensor *starts, ls_tensor *ends)
{
    return ls_mul_scalar(ls_add(position_loss(start_logits, starts), position_loss(end_logits, ends)), 0.5);
}

/* ---- masked words ---- */

typedef struct masked_lm {
    ls_module module;
    ls_module *encoder, *dense, *norm;
    ls_tensor *words, *bias; /* [V,E], shared with the encoder; [V] */
} masked_lm;

static ls_tensor *masked_lm_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    const masked_lm *m = (const masked_lm *)self;
    ls_tensor *hidden = ls_forward_all_n(m->encoder, x, n).item[0];
    ls_tensor *y = ls_forward(m->norm, ls_forward(m->dense, hidden));
    return ls_linear(y, m->words, m->bias, LS_ACT_NONE);
}

/* Names of the parts: a norm has that name, `decoder` has the words and the bias, `bias` (NULL: none) has the bias too.
 * */
typedef struct masked_lm_names {
    const char *bias, *dense, *norm, *decoder;
} masked_lm_names;

static ls_module *masked_lm_new(ls_run *run, ls_bert_config *config, const char *architecture)
{
    static const masked_lm_names names[LS_BERT_KINDS] = {
        {"cls.predictions", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
         "cls.predictions.decoder"},
        {NULL, "vocab_transform", "vocab_layer_norm", "vocab_projector"},
        {"lm_head", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"}};
    const masked_lm_names *at = &names[config->kind];
    masked_lm *m = ls_layer_new_n(run, architecture, sizeof *m, masked_lm_forward);
    if (!m) return NULL;
    ls_module *all = &m->module;
    int64_t width = config->hidden_size;
    ls_activation activation = config->kind == LS_ROBERTA ? LS_ACT_GELU : config->activation;
    m->encoder = ls_module_add(all, bases[config->kind], ls_bert_encoder_new(run, config, false));
    m->dense = ls_module_add_at(all, at->dense, ls_linear_blank(run, width, width, .activation = activation));
    m->norm = ls_module_add_at(all, at->norm, ls_layer_norm_new(run, width, .epsilon = config->layer_norm_eps));
    ls_module *decoder = ls_module_add_at(all, at->decoder, ls_module_list_new_n(run, NULL, 0));
    if (ls_failed(run)) return ls_layer_done(m);
    m->words = ls_register_parameter(decoder, "weight", ls_bert_words(m->encoder));
    m->bias = ls_empty_shape(run, LS_F32, LS_SHAPE(config->vocab_size));
    ls_init_constant(m->bias, 0);
    if (at->bias) ls_register_parameter(ls_child(all, at->bias), "bias", m->bias);
    ls_register_parameter(decoder, "bias", m->bias);
    return ls_layer_done(m);
}

ls_module *ls_bert_for_masked_lm_new_sized(ls_run *run, const char *from, const ls_bert_opts *given, size_t opts_size)
{
    static const model_kind kind = {
        "ls_bert_for_masked_lm_new",
        masked_lm_new,
        {{"BertForMaskedLM", "cls.*"}, {"DistilBertForMaskedLM", "vocab_*"}, {"RobertaForMaskedLM", "lm_head.*"}}};
    return construct(&kind, run, from, given, opts_size);
}

ls_tensor *ls_bert_masked_lm_loss(ls_tensor *logits, ls_tensor *labels)
{
    return ls_cross_entropy(ls_reshape(logits, -1, ls_dim(logits, -1)), ls_reshape(labels, -1));
}
