/* bert_encoder.c - the encoder of BERT and its relatives, which differ in names and in how positions are counted.
 *
 * Modules that only add a level to names ("attention.output.") have no forward function: a layer runs its parts
 * itself. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "device/facts.h"
#include "models/bert.h"
#include "nn/packing.h"
#include "ops/op.h"

/* ---- names ---- */

/* Paths of the parts of a layer, in the order of their parameters. */
typedef struct part_names {
    const char *layers; /* in the encoder */
    const char *query, *key, *value, *out, *norm1, *up, *down, *norm2;
} part_names;

static const part_names bert_names = {
    .layers = "encoder.layer",
    .query = "attention.self.query",
    .key = "attention.self.key",
    .value = "attention.self.value",
    .out = "attention.output.dense",
    .norm1 = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .norm2 = "output.LayerNorm",
};

static const part_names distilbert_names = {
    .layers = "transformer.layer",
    .query = "attention.q_lin",
    .key = "attention.k_lin",
    .value = "attention.v_lin",
    .out = "attention.out_lin",
    .norm1 = "sa_layer_norm",
    .up = "ffn.lin1",
    .down = "ffn.lin2",
    .norm2 = "output_layer_norm",
};

/* The child of that name; a new list if there is none. */
static ls_module *level(ls_module *module, const char *name, size_t length)
{
    for (int i = 0; i < module->child_count; i++)
        if (strncmp(module->children[i].name, name, length) == 0 && !module->children[i].name[length])
            return module->children[i].module;
    char copy[64];
    snprintf(copy, sizeof copy, "%.*s", (int)length, name);
    return ls_module_add(module, copy, ls_module_list_new_n(module->object.run, NULL, 0));
}

ls_module *ls_module_add_at(ls_module *module, const char *path, ls_module *child)
{
    for (const char *dot; module && (dot = strchr(path, '.')); path = dot + 1)
        module = level(module, path, (size_t)(dot - path));
    return ls_module_add(module, path, child);
}

/* ---- embeddings ---- */

enum { WORDS, POSITIONS, TYPES };

typedef struct embeddings {
    ls_module module;
    ls_module *table[LS_MAX_EMBEDDING_TABLES], *norm;
    int tables; /* 2 without token types */
    double dropout;
    int64_t padding;     /* the padding token */
    bool counts_padding; /* positions count all tokens, from 0; else only words, from padding + 1 */
} embeddings;

/* Rows of the position table: [S], or [B,S] if they depend on the words. */
static ls_tensor *positions_of(const embeddings *e, ls_tensor *ids)
{
    ls_run *run = ids->run;
    if (e->counts_padding) return ls_arange(run, LS_I64, ls_dim(ids, 1), 0, 1);
    ls_tensor *padding = ls_full_shape(run, LS_I64, (double)e->padding, LS_SCALAR);
    ls_tensor *is_word = ls_cast(ls_ne(ids, padding), LS_I64);
    return ls_add(ls_mul(ls_cumsum(is_word, 1), is_word), padding);
}

/* The same for packed words, [T]. Their ids are still [B,S]. */
static ls_tensor *packed_positions(const embeddings *e, ls_tensor *ids, const ls_packing *packing)
{
    return e->counts_padding ? packing->positions : ls_pack(positions_of(e, ids), packing);
}

/* Inputs: ids [B,S], types (or NULL); or, for packed words, ids [T], types and rows of positions. */
static ls_tensor *embeddings_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    embeddings *e = (embeddings *)self;
    ls_run *run = self->object.run;
    ls_tensor *ids = x[0];
    ls_tensor *types = n > 1 && x[1] ? x[1] : ls_full_shape(run, LS_I64, 0, LS_SHAPE(1));
    ls_tensor *index[] = {ids, n > 2 ? x[2] : positions_of(e, ids), types};
    bool failed = ls_failed(run);
    ls_tensor *y = ls_forward_embeddings_norm(e->tables, e->table, index, e->norm);
    if (!failed && run->errors.code == LS_ERR_VALUE)
        ls_fail_more(&run->errors,
                     "; tables of %s: 0 by input_ids (vocab_size), 1 by position (max_position_embeddings)%s",
                     self->kind, e->tables > TYPES ? ", 2 by token_type_ids (type_vocab_size)" : "");
    if (!ls_failed(run)) y = op_as(y, op_half_type(run, ls_dtype_of(y))); /* once, not in every product */
    return self->training && e->dropout > 0 ? ls_dropout(y, e->dropout) : y;
}

static ls_module *embeddings_new(ls_run *run, const ls_bert_config *c)
{
    embeddings *e = ls_layer_new_n(run, "BertEmbeddings", sizeof *e, embeddings_forward);
    if (!e) return NULL;
    ls_module *m = &e->module;
    bool roberta = c->kind == LS_ROBERTA;
    int64_t width = c->hidden_size, rows = c->max_position_embeddings;
    e->counts_padding = !roberta;
    e->padding = c->pad_token_id;
    e->dropout = c->hidden_dropout_prob;
    ls_layer_says(e, "dropout %g", e->dropout);
    e->table[WORDS] = ls_module_add(m, "word_embeddings",
                                    ls_embedding_blank(run, c->vocab_size, width, .padding_idx = c->pad_token_id));
    e->table[POSITIONS] =
        ls_module_add(m, "position_embeddings",
                      ls_embedding_blank(run, rows, width, .padding_idx = roberta ? e->padding : LS_NO_ROW));
    e->tables = c->type_vocab_size ? 3 : 2;
    if (c->type_vocab_size)
        e->table[TYPES] = ls_module_add(m, "token_type_embeddings", ls_embedding_blank(run, c->type_vocab_size, width));
    e->norm = ls_module_add(m, "LayerNorm", ls_layer_norm_new(run, width, .epsilon = c->layer_norm_eps));
    return ls_layer_done(e);
}

/* ---- a layer ---- */

typedef struct layer {
    ls_module module;
    ls_module *query, *key, *value, *out, *norm1, *up, *down, *norm2;
    int64_t heads;
    double dropout;     /* in attention */
    bool keeps_between; /* on a device: see feed_forward() */
} layer;

/* Attention of x: [B,S,E], or packed words [T,E]. */
static ls_tensor *attend(const layer *l, ls_tensor *x, const ls_packing *packing, const ls_attention_opts *opts)
{
    ls_tensor *qkv = ls_forward_linears(3, (ls_module *[]){l->query, l->key, l->value}, x), *mixed;
    if (qkv) {
        if (packing->rows) qkv = ls_unpack(qkv, packing);
        mixed = ls_self_attention_sized(qkv, l->heads, opts, LS_OPTS_SIZE(ls_attention_opts));
    } else {
        ls_tensor *q = ls_forward(l->query, x), *k = ls_forward(l->key, x), *v = ls_forward(l->value, x);
        if (packing->rows) q = ls_unpack(q, packing), k = ls_unpack(k, packing), v = ls_unpack(v, packing);
        mixed = ls_attend(l->heads, q, k, v, opts);
    }
    return packing->rows ? ls_pack(mixed, packing) : mixed;
}

/* What lies between the two linear layers is the largest tensor of a layer, and can be made again in the backward pass.
 * The host keeps it nowhere. Devices, whose passes take as long as the memory they move, pay for every layer that makes
 * it again, so only the first of every three does. */
enum { MAKES_AGAIN = 3 };

static ls_tensor *feed_forward(const layer *l, ls_tensor *x)
{
    bool keeps = l->keeps_between && !ls_device_is_host(l->module.object.run->device);
    return keeps ? ls_forward(l->down, ls_forward(l->up, x)) : ls_forward_feed_forward(l->up, l->down, x);
}

/* Inputs: x [B,S,E]; x and a bool mask; x and integer lengths; or packed x [T,E], lengths, rows and slots. */
static ls_tensor *layer_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    const layer *l = (const layer *)self;
    ls_attention_opts opts = ls_attention_by(n > 1 ? x[1] : NULL, self->training ? l->dropout : 0, false);
    ls_packing packing = {.rows = n > 2 ? x[2] : NULL, .slots = n > 3 ? x[3] : NULL};
    ls_tensor *mixed = attend(l, x[0], &packing, &opts);
    ls_tensor *y = ls_forward(l->norm1, ls_forward(l->out, mixed), x[0]);
    return ls_forward(l->norm2, feed_forward(l, y), y);
}

static ls_module *norm_new(ls_run *run, const ls_bert_config *c)
{
    return ls_layer_norm_new(run, c->hidden_size, .epsilon = c->layer_norm_eps, .dropout = c->hidden_dropout_prob);
}

static ls_module *layer_new(ls_run *run, const ls_bert_config *c, const part_names *names, int64_t number)
{
    layer *l = ls_layer_new_n(run, "BertLayer", sizeof *l, layer_forward);
    if (!l) return NULL;
    ls_module *m = &l->module;
    int64_t width = c->hidden_size, wide = c->intermediate_size;
    l->heads = c->num_attention_heads;
    l->dropout = c->attention_probs_dropout_prob;
    l->keeps_between = number % MAKES_AGAIN != 0;
    ls_layer_says(l, "heads %lld dropout %g", (long long)l->heads, l->dropout);
    l->query = ls_module_add_at(m, names->query, ls_linear_blank(run, width, width));
    l->key = ls_module_add_at(m, names->key, ls_linear_blank(run, width, width));
    l->value = ls_module_add_at(m, names->value, ls_linear_blank(run, width, width));
    l->out = ls_module_add_at(m, names->out, ls_linear_blank(run, width, width));
    l->norm1 = ls_module_add_at(m, names->norm1, norm_new(run, c));
    l->up = ls_module_add_at(m, names->up, ls_linear_blank(run, width, wide, .activation = c->activation));
    l->down = ls_module_add_at(m, names->down, ls_linear_blank(run, wide, width));
    l->norm2 = ls_module_add_at(m, names->norm2, norm_new(run, c));
    return ls_layer_done(l);
}

/* ---- encoder ---- */

typedef struct encoder {
    ls_module module;
    ls_module *embeddings, *layers, *pooler; /* pooler: NULL: none */
    int64_t longest;                         /* longest sequence */
    int64_t padding;                         /* the padding token */
    bool unpad;
    bool looked; /* checked for padding without a mask */
} encoder;

static bool check_ids(const encoder *e, ls_tensor *ids)
{
    ls_run *run = e->module.object.run;
    if (!ls_check_live(run, ids, e->module.kind)) return false;
    if (ls_ndim(ids) != 2)
        ls_fail(&run->errors, LS_ERR_SHAPE, "input_ids is %s; expected [batch,length]", OP_TEXT(ids));
    else if (ls_dim(ids, 1) > e->longest)
        ls_fail(&run->errors, LS_ERR_SHAPE, "sequences of %lld tokens; the model's max_position_embeddings allows %lld",
                (long long)ls_dim(ids, 1), (long long)e->longest);
    return !ls_failed(run);
}

static bool has_word(ls_tensor *ids, int64_t word)
{
    int64_t count = ls_numel(ids);
    ls_dtype type = ls_dtype_of(ids);
    size_t width = ls_dtype_size(type), bytes = (size_t)count * width;
    char *read = type == LS_I64 || type == LS_I32 ? ls_sys_alloc(bytes + 1) : NULL;
    bool found = false;
    for (int64_t i = 0; read && (i || ls_read(ids, read, bytes)) && i < count && !found; i++)
        found = (type == LS_I64 ? ((const int64_t *)(const void *)read)[i]
                                : ((const int32_t *)(const void *)read)[i]) == word;
    ls_sys_free(read);
    return found;
}

/* Padding that is not masked changes the results of the words. Checked in the first pass only, if that does not wait
 * for a device. */
static void warn_of_padding(encoder *e, ls_tensor *ids)
{
    if (e->looked || !ls_device_is_host(ids->storage->device)) return;
    e->looked = true;
    if (has_word(ids, e->padding))
        ls_log_of_job(LS_LOG_WARN,
                      "%s: input_ids contain pad_token_id %lld, but there is no mask, so words attend to padding; pass "
                      "attention_mask, or lengths, as the second input",
                      e->module.kind, (long long)e->padding);
}

/* A mask [B,S] as attention takes it, bool [B,1,1,S]; lengths [B] unchanged. NULL (and an error) for others. */
static ls_tensor *usable_mask(ls_run *run, ls_tensor *ids, ls_tensor *mask)
{
    bool is_lengths = ls_ndim(mask) == 1 && ls_dim(mask, 0) == ls_dim(ids, 0);
    bool is_mask = ls_shape_equal(ls_shape_of(mask), ls_shape_of(ids));
    if (is_lengths) return mask;
    if (!is_mask) {
        ls_fail(&run->errors, LS_ERR_SHAPE, "the second input is %s; expected a mask %s or lengths [%lld]",
                OP_TEXT(mask), OP_SHAPE_TEXT(ls_shape_of(ids)), (long long)ls_dim(ids, 0));
        return NULL;
    }
    if (ls_dtype_of(mask) != LS_BOOL) mask = ls_ne(mask, ls_full_shape(run, LS_I32, 0, LS_SCALAR));
    return ls_reshape(mask, ls_dim(mask, 0), 1, 1, ls_dim(mask, 1));
}

/* The last hidden state: [B,S,E], or, for packed words, [T,E]. */
static ls_tensor *encode(const encoder *e, ls_tensor *ids, ls_tensor *types, ls_tensor *mask, const ls_packing *packing)
{
    bool packed = packing->rows != NULL;
    ls_tensor *y = ls_forward_n(e->embeddings, (ls_tensor *[]){ids, types, packing->positions}, packed ? 3 : 2);
    for (int i = 0; i < e->layers->child_count; i++)
        y = ls_forward_n(e->layers->children[i].module, (ls_tensor *[]){y, mask, packing->rows, packing->slots},
                         packed ? 4
                         : mask ? 2
                                : 1);
    return y;
}

static ls_outputs encoder_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    encoder *e = (encoder *)self;
    ls_run *run = self->object.run;
    ls_tensor *ids = x[0], *mask = n > 1 ? x[1] : NULL, *types = n > 2 ? x[2] : NULL;
    if (!ls_layer_takes(self, n, 1, 3) || !check_ids(e, ids)) return LS_OUTPUTS(&run->poison);
    if (!mask) warn_of_padding(e, ids);
    if (mask && ls_check_live(run, mask, self->kind)) mask = usable_mask(run, ids, mask);
    if (types && ls_dtype_size(ls_dtype_of(types)) == 1) types = ls_cast(types, LS_I64); /* tokenizers store bytes */
    ls_packing packing = {0};
    if (e->unpad && mask && ls_ndim(mask) == 1) packing = ls_packing_of(mask, ls_dim(ids, 1));
    if (ls_failed(run)) return LS_OUTPUTS(&run->poison);
    ls_tensor *y;
    if (packing.rows) {
        packing.positions = packed_positions((const embeddings *)e->embeddings, ids, &packing);
        y = encode(e, ls_pack(ids, &packing), types ? ls_pack(types, &packing) : NULL, mask, &packing);
        y = ls_unpack_clean(y, &packing, mask);
    } else y = encode(e, ids, types, mask, &packing);
    if (!e->pooler) return LS_OUTPUTS(y);
    return LS_OUTPUTS(y, ls_forward(e->pooler, ls_select(y, 1, 0)));
}

ls_module *ls_bert_encoder_new(ls_run *run, const ls_bert_config *c, bool pooler)
{
    static const char *const kinds[] = {"BertModel", "DistilBertModel", "RobertaModel"};
    const part_names *names = c->kind == LS_DISTILBERT ? &distilbert_names : &bert_names;
    encoder *e = ls_layer_new_all(run, kinds[c->kind], sizeof *e, encoder_forward);
    if (!e) return NULL;
    ls_module *m = &e->module;
    e->longest = c->max_position_embeddings - (c->kind == LS_ROBERTA ? c->pad_token_id + 1 : 0);
    e->padding = c->pad_token_id;
    e->unpad = c->unpad;
    e->embeddings = ls_module_add(m, "embeddings", embeddings_new(run, c));
    e->layers = ls_module_add_at(m, names->layers, ls_module_list_new_n(run, NULL, 0));
    for (int64_t i = 0; i < c->num_hidden_layers && !ls_failed(run); i++)
        ls_module_append(e->layers, layer_new(run, c, names, i));
    if (pooler && c->kind != LS_DISTILBERT)
        e->pooler = ls_module_add_at(m, "pooler.dense",
                                     ls_linear_blank(run, c->hidden_size, c->hidden_size, .activation = LS_ACT_TANH));
    return ls_layer_done(e);
}

ls_tensor *ls_bert_words(const ls_module *module)
{
    return ls_module_tensor(((const encoder *)module)->embeddings, "word_embeddings.weight");
}

/* ---- initial weights ---- */

typedef struct drawing {
    const ls_bert_config *config;
    const char *patterns;
} drawing;

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static void draw_matrix(const drawing *d, const char *path, ls_tensor *weight)
{
    bool words = ends_with(path, "word_embeddings.weight"), positions = ends_with(path, "position_embeddings.weight");
    ls_init_normal(weight, 0, d->config->initializer_range);
    if (words || (positions && d->config->kind == LS_ROBERTA)) ls_embedding_clear_row(weight, d->config->pad_token_id);
}

static bool draw_member(void *user, const char *path, const ls_module_member *member)
{
    const drawing *d = user;
    if (!member->owned) return true; /* initialised by its owner */
    if (d->patterns && !ls_name_matches(d->patterns, path)) return true;
    if (ls_ndim(member->tensor) == 2) draw_matrix(d, path, member->tensor);
    return !ls_failed(member->tensor->run);
}

void ls_bert_draw(ls_module *module, const ls_bert_config *config, const char *patterns)
{
    drawing d = {config, patterns};
    ls_module_visit(module, draw_member, &d);
}
