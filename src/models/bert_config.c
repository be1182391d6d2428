/* bert_config.c - config.json of BERT and its relatives: read, override by options, write. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "models/bert.h"

enum { FILE_LIMIT = 1 << 24, REQUIRED = -1, NO_OPTION = -1 };
/* Limits on layers and labels, which are created one by one: more than anybody trains, few enough to create. */
enum { MOST = INT32_MAX, MOST_LAYERS = 1000, MOST_LABELS = 1 << 24 };

static const char *const kind_names[LS_BERT_KINDS] = {"bert", "distilbert", "roberta"};

/* A number of the configuration: its name in the file of BERT and RoBERTa, and of DistilBERT (NULL: none), where it is
 * stored, and the option that overrides it. */
typedef struct number {
    const char *name, *distilbert;
    ptrdiff_t place, option;
    double otherwise[LS_BERT_KINDS]; /* if the file lacks it or the kind has none; REQUIRED: an error */
    double base;                     /* without a file */
    double least, most;              /* valid range */
} number;

#define PLACE(name) offsetof(ls_bert_config, name), offsetof(ls_bert_opts, name)

static const number sizes[] = {
    {"vocab_size", "vocab_size", PLACE(vocab_size), {REQUIRED, REQUIRED, REQUIRED}, 30522, 1, MOST},
    {"hidden_size", "dim", PLACE(hidden_size), {REQUIRED, REQUIRED, REQUIRED}, 768, 1, MOST},
    {"num_hidden_layers", "n_layers", PLACE(num_hidden_layers), {REQUIRED, REQUIRED, REQUIRED}, 12, 1, MOST_LAYERS},
    {"num_attention_heads", "n_heads", PLACE(num_attention_heads), {REQUIRED, REQUIRED, REQUIRED}, 12, 1, MOST},
    {"intermediate_size", "hidden_dim", PLACE(intermediate_size), {REQUIRED, REQUIRED, REQUIRED}, 3072, 1, MOST},
    {"max_position_embeddings",
     "max_position_embeddings",
     PLACE(max_position_embeddings),
     {REQUIRED, REQUIRED, REQUIRED},
     512,
     1,
     MOST},
    {"type_vocab_size", NULL, PLACE(type_vocab_size), {2, 0, 2}, 2, 0, MOST},
    {"pad_token_id", "pad_token_id", offsetof(ls_bert_config, pad_token_id), NO_OPTION, {0, 0, 1}, 0, 0, MOST},
};

static const number reals[] = {
    {"hidden_dropout_prob", "dropout", PLACE(hidden_dropout_prob), {0.1, 0.1, 0.1}, 0.1, 0, 1},
    {"attention_probs_dropout_prob",
     "attention_dropout",
     PLACE(attention_probs_dropout_prob),
     {0.1, 0.1, 0.1},
     0.1,
     0,
     1},
    {"classifier_dropout",
     "seq_classif_dropout",
     PLACE(classifier_dropout),
     {LS_AUTO_REAL, 0.2, LS_AUTO_REAL},
     LS_AUTO_REAL,
     0,
     1},
    {NULL, "qa_dropout", offsetof(ls_bert_config, qa_dropout), NO_OPTION, {0, 0.1, 0}, 0, 0, 1},
    {"layer_norm_eps", NULL, PLACE(layer_norm_eps), {1e-12, 1e-12, 1e-12}, 1e-12, 0, MOST},
    {"initializer_range", "initializer_range", PLACE(initializer_range), {0.02, 0.02, 0.02}, 0.02, 0, MOST},
};

static const struct {
    const char *name;
    ls_activation activation;
} activations[] = {
    {"gelu", LS_ACT_GELU},           {"gelu_python", LS_ACT_GELU},
    {"gelu_new", LS_ACT_GELU_TANH},  {"gelu_pytorch_tanh", LS_ACT_GELU_TANH},
    {"gelu_fast", LS_ACT_GELU_TANH}, {"gelu_accurate", LS_ACT_GELU_TANH},
    {"relu", LS_ACT_RELU},           {"silu", LS_ACT_SILU},
    {"swish", LS_ACT_SILU},          {"tanh", LS_ACT_TANH},
    {"sigmoid", LS_ACT_SIGMOID},     {"linear", LS_ACT_NONE},
};

static const char *const problems[] = {NULL, "regression", "single_label_classification", "multi_label_classification"};

enum {
    SIZES = sizeof sizes / sizeof *sizes,
    REALS = sizeof reals / sizeof *reals,
    ACTIVATIONS = sizeof activations / sizeof *activations,
    PROBLEMS = sizeof problems / sizeof *problems,
};

static int64_t *size_at(ls_bert_config *config, const number *n)
{
    return (int64_t *)((char *)config + n->place);
}

static double *real_at(ls_bert_config *config, const number *n)
{
    return (double *)((char *)config + n->place);
}

static const char *name_in_file(const ls_bert_config *config, const number *n)
{
    return config->kind == LS_DISTILBERT ? n->distilbert : n->name;
}

static const char *activation_key(const ls_bert_config *config)
{
    return config->kind == LS_DISTILBERT ? "activation" : "hidden_act";
}

/* ---- the file ---- */

static bool parse(ls_run *run, const char *path, ls_bert_config *config)
{
    ls_message why = {0};
    size_t size;
    char *text = ls_file_read(path, FILE_LIMIT, &size, &why);
    if (!text) return ls_fail(&run->errors, LS_ERR_IO, "%s: %s", config->who, why.text), false;
    config->file = ls_json_read(text, size, &why);
    ls_sys_free(text);
    if (!config->file) ls_fail(&run->errors, LS_ERR_IO, "%s: %s: %s", config->who, path, why.text);
    return config->file != NULL;
}

/* Record an error about a member of the file, with its value. */
static void refuse(ls_run *run, const char *path, const ls_bert_config *config, ls_status code, const ls_json *member,
                   const char *instead)
{
    ls_json_writer w = {0};
    ls_json_put_value(&w, NULL, member);
    char *value = ls_json_take(&w, NULL);
    ls_fail(&run->errors, code, "%s: \"%s\" of %s is %.60s; %s", config->who, member->key, path,
            value ? value : "something else", instead);
    ls_sys_free(value);
}

/* A member of the file; NULL if it is missing or null, and, with an error, if it has another type. An integer is also a
 * real. */
static const ls_json *read_member(ls_run *run, const char *path, const ls_bert_config *config, const char *key,
                                  ls_json_type type)
{
    static const char *const wanted[] = {[LS_JSON_BOOL] = "expected true or false",
                                         [LS_JSON_INTEGER] = "expected an integer",
                                         [LS_JSON_REAL] = "expected a number",
                                         [LS_JSON_STRING] = "expected a string",
                                         [LS_JSON_OBJECT] = "expected an object"};
    const ls_json *given = ls_json_get(config->file, key);
    if (!given || given->type == LS_JSON_NULL) return NULL;
    if (given->type == type || (type == LS_JSON_REAL && given->type == LS_JSON_INTEGER)) return given;
    refuse(run, path, config, LS_ERR_IO, given, wanted[type]);
    return NULL;
}

static bool read_kind(ls_run *run, const char *path, ls_bert_config *config)
{
    const char *type = ls_json_text(read_member(run, path, config, "model_type", LS_JSON_STRING));
    for (int kind = 0; type && kind < LS_BERT_KINDS; kind++) {
        if (strcmp(type, kind_names[kind]) != 0) continue;
        config->kind = (ls_bert_kind)kind;
        return true;
    }
    if (type)
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                "%s: %s has model_type \"%s\"; supported are bert, distilbert and roberta", config->who, path, type);
    else if (!ls_failed(run)) ls_fail(&run->errors, LS_ERR_IO, "%s: %s lacks \"model_type\"", config->who, path);
    return false;
}

/* A number by name; `otherwise` if it is missing. False, and an error, if it is required or of another type. */
static bool read_number(ls_run *run, const char *path, ls_bert_config *config, const number *n, ls_json_type type)
{
    const char *name = name_in_file(config, n);
    const ls_json *given = name ? read_member(run, path, config, name, type) : NULL;
    double otherwise = n->otherwise[config->kind];
    if (type == LS_JSON_REAL) *real_at(config, n) = ls_json_number(given, otherwise);
    else *size_at(config, n) = ls_json_integer(given, (int64_t)otherwise);
    if (!given && otherwise == REQUIRED && !ls_failed(run))
        ls_fail(&run->errors, LS_ERR_IO, "%s: %s lacks \"%s\"", config->who, path, name);
    return !ls_failed(run);
}

/* Refuse features that these models do not support, rather than compute something else. */
static bool refuse_others(ls_run *run, const char *path, const ls_bert_config *config)
{
    static const struct {
        const char *key;
        bool known;
        const char *instead;
    } flags[] = {{"is_decoder", false, "only encoders are supported"},
                 {"add_cross_attention", false, "only encoders without it are supported"},
                 {"tie_word_embeddings", true, "they are always tied to the decoder here"}};
    static const struct {
        const char *key, *instead;
    } parts[] = {{"pruned_heads", "only layers with all their heads are supported"},
                 {"quantization_config", "only unquantized weights are supported"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const ls_json *flag = read_member(run, path, config, flags[i].key, LS_JSON_BOOL);
        if (flag && flag->boolean != flags[i].known)
            refuse(run, path, config, LS_ERR_UNSUPPORTED, flag, flags[i].instead);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const ls_json *part = read_member(run, path, config, parts[i].key, LS_JSON_OBJECT);
        if (part && part->count) refuse(run, path, config, LS_ERR_UNSUPPORTED, part, parts[i].instead);
    }
    const ls_json *positions = read_member(run, path, config, "position_embedding_type", LS_JSON_STRING);
    if (positions && strcmp(positions->text, "absolute") != 0)
        refuse(run, path, config, LS_ERR_UNSUPPORTED, positions, "only \"absolute\" is supported");
    return !ls_failed(run);
}

static bool read_labels(ls_run *run, const char *path, ls_bert_config *config)
{
    const ls_json *names = read_member(run, path, config, "id2label", LS_JSON_OBJECT);
    const ls_json *count = read_member(run, path, config, "num_labels", LS_JSON_INTEGER);
    const ls_json *problem = read_member(run, path, config, "problem_type", LS_JSON_STRING);
    config->num_labels = names ? names->count : ls_json_integer(count, 2);
    for (int i = 1; problem && i < PROBLEMS; i++)
        if (strcmp(problem->text, problems[i]) == 0) config->problem_type = (ls_problem)i;
    if (problem && !config->problem_type)
        refuse(run, path, config, LS_ERR_UNSUPPORTED, problem,
               "supported are regression, single_label_classification and multi_label_classification");
    return !ls_failed(run);
}

/* The path must be a folder or its config.json; other files beside that are a likely mistake. */
static bool is_of_weights(const char *path)
{
    static const char *const ends[] = {".safetensors", ".safetensors.index.json", ".bin", ".pt", ".pth"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (length > end && strcmp(path + length - end, ends[i]) == 0) return true;
    }
    return false;
}

static bool read_file(ls_run *run, const char *from, ls_bert_config *config)
{
    char path[4096];
    bool is_folder = ls_path_kind_of(from) == LS_PATH_FOLDER;
    if (!is_folder && is_of_weights(from)) {
        ls_fail(&run->errors, LS_ERR_VALUE,
                "%s: %s is a file of weights; give the folder it is in, which has config.json as well", config->who,
                from);
        return false;
    }
    snprintf(path, sizeof path, is_folder ? "%s/config.json" : "%s", from);
    if (!parse(run, path, config) || !read_kind(run, path, config) || !refuse_others(run, path, config)) return false;
    for (int i = 0; i < SIZES; i++)
        if (!read_number(run, path, config, &sizes[i], LS_JSON_INTEGER)) return false;
    for (int i = 0; i < REALS; i++)
        if (!read_number(run, path, config, &reals[i], LS_JSON_REAL)) return false;
    const char *act = ls_json_text(read_member(run, path, config, activation_key(config), LS_JSON_STRING));
    snprintf(config->hidden_act, sizeof config->hidden_act, "%s", act ? act : "gelu");
    return read_labels(run, path, config);
}

static void use_base(ls_bert_config *config)
{
    for (int i = 0; i < SIZES; i++) *size_at(config, &sizes[i]) = (int64_t)sizes[i].base;
    for (int i = 0; i < REALS; i++) *real_at(config, &reals[i]) = reals[i].base;
    snprintf(config->hidden_act, sizeof config->hidden_act, "gelu");
    config->num_labels = 2;
}

/* ---- options ---- */

static void apply(const ls_bert_opts *opts, ls_bert_config *config)
{
    for (int i = 0; i < SIZES; i++)
        if (sizes[i].option != NO_OPTION)
            *size_at(config, &sizes[i]) =
                ls_opts_integer(*(const int64_t *)((const char *)opts + sizes[i].option), *size_at(config, &sizes[i]));
    for (int i = 0; i < REALS; i++)
        if (reals[i].option != NO_OPTION)
            *real_at(config, &reals[i]) =
                ls_opts_real(*(const double *)((const char *)opts + reals[i].option), *real_at(config, &reals[i]));
    config->num_labels = ls_opts_integer(opts->num_labels, config->num_labels);
    config->labels = opts->labels;
    if (config->labels && opts->num_labels == LS_AUTO)
        for (config->num_labels = 0; config->labels[config->num_labels];) config->num_labels++;
    if (opts->problem_type != LS_PROBLEM_AUTO) config->problem_type = opts->problem_type;
    config->unpad = opts->unpad;
    if (opts->hidden_act) snprintf(config->hidden_act, sizeof config->hidden_act, "%s", opts->hidden_act);
    config->classifier_dropout = ls_opts_real(config->classifier_dropout, config->hidden_dropout_prob);
    if (config->kind == LS_DISTILBERT) config->type_vocab_size = 0;
}

static bool find_activation(ls_run *run, ls_bert_config *config)
{
    char known[256] = "";
    for (int i = 0; i < ACTIVATIONS; i++) {
        if (strcmp(config->hidden_act, activations[i].name) == 0) {
            config->activation = activations[i].activation;
            return true;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", activations[i].name);
    }
    ls_fail(&run->errors, LS_ERR_UNSUPPORTED, "%s: unknown hidden_act \"%s\"; supported are %s", config->who,
            config->hidden_act, known);
    return false;
}

/* Names from the file are kept if no others are given and their number is the same. */
static const ls_json *kept_labels(const ls_bert_config *config)
{
    const ls_json *names = ls_json_get(config->file, "id2label");
    bool keeps = !config->labels && names && names->type == LS_JSON_OBJECT && names->count == config->num_labels;
    return keeps ? names : NULL;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* One distinct name per label: label2id uses them as keys. */
static bool check_labels(ls_run *run, const ls_bert_config *config)
{
    int64_t count = 0;
    while (config->labels && config->labels[count]) count++;
    if (config->labels && count != config->num_labels) {
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: labels has %lld names, but num_labels is %lld", config->who,
                (long long)count, (long long)config->num_labels);
        return false;
    }
    const ls_json *kept = kept_labels(config);
    const char **names = ls_sys_alloc((size_t)(kept ? kept->count : count) * sizeof *names + 1);
    if (!names) return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for the labels", config->who), false;
    if (count) memcpy(names, config->labels, (size_t)count * sizeof *names);
    for (const ls_json *name = ls_json_first(kept); name; name = name->next)
        if (ls_json_text(name)) names[count++] = ls_json_text(name);
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int64_t i = 1; i < count && !ls_failed(run); i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            ls_fail(&run->errors, LS_ERR_VALUE, "%s: %s has \"%s\" twice; each label needs a name of its own",
                    config->who, config->labels ? "labels" : "\"id2label\" of config.json", names[i]);
    ls_sys_free(names);
    return !ls_failed(run);
}

static bool check(ls_run *run, ls_bert_config *config)
{
    for (int i = 0; i < SIZES + REALS; i++) {
        const number *n = i < SIZES ? &sizes[i] : &reals[i - SIZES];
        double value = i < SIZES ? (double)*size_at(config, n) : *real_at(config, n);
        if (value >= n->least && value <= n->most) continue;
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: %s is %.10g; must be from %g to %.10g", config->who,
                n->name ? n->name : n->distilbert, value, n->least, n->most);
        return false;
    }
    if (config->num_labels < 1 || config->num_labels > MOST_LABELS)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: num_labels is %lld; must be from 1 to %d", config->who,
                (long long)config->num_labels, MOST_LABELS);
    else if ((int)config->problem_type < 0 || (int)config->problem_type >= PROBLEMS)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: problem_type is %d; must be one of ls_problem", config->who,
                (int)config->problem_type);
    else if (config->hidden_size % config->num_attention_heads)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: hidden_size %lld cannot be divided into %lld heads", config->who,
                (long long)config->hidden_size, (long long)config->num_attention_heads);
    else if (config->pad_token_id >= config->vocab_size)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: pad_token_id %lld is outside vocab_size %lld", config->who,
                (long long)config->pad_token_id, (long long)config->vocab_size);
    return !ls_failed(run) && check_labels(run, config) && find_activation(run, config);
}

bool ls_bert_config_read(ls_run *run, const char *who, const char *from, const ls_bert_opts *opts,
                         ls_bert_config *config)
{
    *config = (ls_bert_config){.who = who};
    if (ls_failed(run)) return false;
    if (!from) use_base(config);
    else if (!read_file(run, from, config)) return false;
    apply(opts, config);
    return check(run, config);
}

/* ---- writing ---- */

const char *ls_bert_label_name(const ls_bert_config *config, int64_t label, char room[LS_BERT_LABEL_ROOM])
{
    if (config->labels) return config->labels[label];
    snprintf(room, LS_BERT_LABEL_ROOM, "%lld", (long long)label);
    const char *name = ls_json_text(ls_json_get(kept_labels(config), room));
    snprintf(room, LS_BERT_LABEL_ROOM, "LABEL_%lld", (long long)label);
    return name ? name : room;
}

static void put_labels(ls_json_writer *w, const ls_bert_config *config)
{
    if (kept_labels(config)) {
        ls_json_put_value(w, "id2label", kept_labels(config));
        ls_json_put_value(w, "label2id", ls_json_get(config->file, "label2id"));
        return;
    }
    for (int inverse = 0; inverse < 2; inverse++) {
        ls_json_put_object(w, inverse ? "label2id" : "id2label");
        for (int64_t i = 0; i < config->num_labels; i++) {
            char room[LS_BERT_LABEL_ROOM], index[24];
            const char *label = ls_bert_label_name(config, i, room);
            snprintf(index, sizeof index, "%lld", (long long)i);
            if (inverse) ls_json_put_integer(w, label, i);
            else ls_json_put_text(w, index, label);
        }
        ls_json_put_end(w);
    }
}

/* Is a member of the file written elsewhere than in copy_rest? */
static bool is_written(const ls_bert_config *config, const char *key)
{
    static const char *const others[] = {"architectures", "model_type", "problem_type",
                                         "id2label",      "label2id",   "num_labels"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key, others[i]) == 0) return true;
    if (strcmp(key, activation_key(config)) == 0) return true;
    for (int i = 0; i < SIZES + REALS; i++) {
        const char *name = name_in_file(config, i < SIZES ? &sizes[i] : &reals[i - SIZES]);
        if (name && strcmp(key, name) == 0) return true;
    }
    return false;
}

char *ls_bert_config_text(const ls_bert_config *config, const char *architecture)
{
    ls_json_writer w = {.indent = 2};
    ls_bert_config copy = *config;
    ls_json_put_object(&w, NULL);
    ls_json_put_array(&w, "architectures");
    ls_json_put_text(&w, NULL, architecture);
    ls_json_put_end(&w);
    ls_json_put_text(&w, "model_type", kind_names[config->kind]);
    for (int i = 0; i < SIZES; i++)
        if (name_in_file(config, &sizes[i]))
            ls_json_put_integer(&w, name_in_file(config, &sizes[i]), *size_at(&copy, &sizes[i]));
    for (int i = 0; i < REALS; i++)
        if (name_in_file(config, &reals[i]))
            ls_json_put_number(&w, name_in_file(config, &reals[i]), *real_at(&copy, &reals[i]));
    ls_json_put_text(&w, activation_key(config), config->hidden_act);
    if (config->problem_type) ls_json_put_text(&w, "problem_type", problems[config->problem_type]);
    put_labels(&w, config);
    for (const ls_json *m = ls_json_members(config->file); m; m = m->next)
        if (!is_written(config, m->key)) ls_json_put_value(&w, m->key, m);
    ls_json_put_end(&w);
    return ls_json_take(&w, NULL);
}
