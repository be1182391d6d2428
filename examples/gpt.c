/* gpt.c - train a small language model on any text, by bytes or by word pieces, and continue texts with it.
 *
 *     gpt --data shakespeare.txt --output_dir out
 *     gpt --output_dir out --prompt "O Romeo, " --tokens 300 --temperature 0.8 --top_k 40
 *
 * The model is a decoder like GPT-2: pre-norm, GELU, learnt positions, input and output embeddings shared. An
 * interrupted training resumes exactly with --resume_from_checkpoint latest. */
#include <lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *data, *vocabulary, *prompt;
    int64_t context, width, layers, heads, batch_size, steps, warmup, eval_every, tokens, top_k, vocab;
    double lr, weight_decay, dropout, temperature;
} options;

static bool read_flags(ls_run *run, int *argc, char ***argv, options *o)
{
    ls_flag flags[] = {
        LS_FLAG("data", &o->data, "a text file to learn from"),
        LS_FLAG("vocabulary", &o->vocabulary, "vocab.txt or model folder of BERT, to use word pieces instead of bytes"),
        LS_FLAG("context", &o->context, "tokens the model sees at once"),
        LS_FLAG("width", &o->width, "features per token"),
        LS_FLAG("layers", &o->layers, "transformer blocks"),
        LS_FLAG("heads", &o->heads, "attention heads; must divide the width"),
        LS_FLAG("dropout", &o->dropout, "dropout probability, for small texts"),
        LS_FLAG("batch_size", &o->batch_size, "text samples per step and process"),
        LS_FLAG("steps", &o->steps, "training steps"),
        LS_FLAG("warmup", &o->warmup, "steps in which the learning rate rises"),
        LS_FLAG("lr", &o->lr, "highest learning rate"),
        LS_FLAG("weight_decay", &o->weight_decay, "weight decay of matrices"),
        LS_FLAG("eval_every", &o->eval_every, "steps between evaluations and checkpoints"),
        LS_FLAG("prompt", &o->prompt, "a text to continue"),
        LS_FLAG("tokens", &o->tokens, "number of tokens to generate"),
        LS_FLAG("temperature", &o->temperature, "below 1: prefer likely tokens; 0: always the most likely"),
        LS_FLAG("top_k", &o->top_k, "choose among this many of the most likely tokens; 0: all"),
    };
    return ls_flags_read(run, argc, argv, flags, .about = "train a small language model on a text file");
}

/* ---- Text and tokens ---- */

typedef struct text {
    ls_tokenizer *pieces; /* NULL: tokens are bytes */
    int64_t count, context;
    int32_t *tokens;
} text;

static bool read_text(ls_run *run, const options *o, text *t)
{
    FILE *file = fopen(o->data, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return ls_set_error(run, LS_ERR_IO, "could not read %s", o->data), false;
    size_t size = (size_t)ftell(file);
    char *bytes = malloc(size + 1);
    rewind(file);
    bool whole = bytes && fread(bytes, 1, size, file) == size;
    fclose(file);
    const ls_encoding *e = whole && t->pieces
                               ? ls_tokenizer_encode(t->pieces, bytes, NULL, .special_tokens = false, .sizes = &size)
                               : NULL;
    t->count = e ? e->begin[1] : (int64_t)size;
    t->tokens = malloc(((size_t)t->count + 1) * sizeof *t->tokens);
    if (!whole || !t->tokens) return ls_set_error(run, LS_ERR_IO, "could not read %s into memory", o->data), false;
    for (int64_t i = 0; i < t->count; i++) t->tokens[i] = e ? e->id[i] : (unsigned char)bytes[i];
    free(bytes);
    if (t->count / 10 > o->context) return true;
    ls_set_error(run, LS_ERR_VALUE, "%s has %lld tokens; at least %lld are needed for --context %lld", o->data,
                 (long long)t->count, 10 * (long long)o->context + 10, (long long)o->context);
    return false;
}

/* The last tenth of the text is kept for evaluation. */
static int64_t kept(const text *t)
{
    return t->count / 10;
}

/* tokens [context + 1]: from a random position in the training part, or piece `index` of the evaluation part. */
static bool get_training(int64_t index, ls_sample *sample, void *user)
{
    (void)index;
    const text *t = user;
    uint64_t places = (uint64_t)(t->count - kept(t) - t->context);
    int64_t *to = ls_sample_field(sample, 0), from = (int64_t)(ls_sample_random(sample) % places);
    for (int64_t i = 0; i <= t->context; i++) to[i] = t->tokens[from + i];
    return true;
}

static bool get_kept(int64_t index, ls_sample *sample, void *user)
{
    const text *t = user;
    int64_t *to = ls_sample_field(sample, 0), from = t->count - kept(t) + index * t->context;
    for (int64_t i = 0; i <= t->context; i++) to[i] = t->tokens[from + i];
    return true;
}

/* ---- The model ---- */

typedef struct gpt {
    ls_module *words, *positions, *blocks, *norm;
} gpt;

/* tokens [B,T] -> logits [B,T,V] */
static ls_tensor *forward(ls_module *self, ls_tensor *tokens, void *user)
{
    const gpt *g = user;
    ls_tensor *position = ls_arange(ls_module_run(self), LS_I64, ls_dim(tokens, 1), 0, 1);
    ls_tensor *x = ls_add(ls_forward(g->words, tokens), ls_forward(g->positions, position));
    for (int i = 0; i < ls_child_count(g->blocks); i++) x = ls_forward(ls_child_at(g->blocks, i), x);
    return ls_linear(ls_forward(g->norm, x), ls_module_tensor(g->words, "weight"), NULL, LS_ACT_NONE);
}

static ls_module *gpt_new(ls_run *run, const options *o, gpt *g)
{
    ls_module *model = ls_module_new(run, "GPT", forward, g);
    g->words = ls_module_add(model, "words", ls_embedding_new(run, o->vocab, o->width));
    g->positions = ls_module_add(model, "positions", ls_embedding_new(run, o->context, o->width));
    g->blocks = ls_module_add(model, "blocks", ls_module_list_new_n(run, NULL, 0));
    for (int64_t i = 0; i < o->layers; i++)
        ls_module_append(g->blocks, ls_transformer_layer_new(run, o->width, o->heads, .feedforward = 4 * o->width,
                                                             .dropout = o->dropout, .activation = LS_ACT_GELU,
                                                             .norm_first = true, .causal = true));
    g->norm = ls_module_add(model, "norm", ls_layer_norm_new(run, o->width));
    ls_init_normal(ls_module_tensor(g->words, "weight"), 0, 0.02);
    ls_init_normal(ls_module_tensor(g->positions, "weight"), 0, 0.02);
    return model;
}

/* The mean loss of predicting each token from the previous ones. tokens [B,context + 1] */
static ls_tensor *loss_of(ls_module *model, ls_tensor *tokens)
{
    int64_t context = ls_dim(tokens, 1) - 1;
    ls_tensor *logits = ls_forward(model, ls_slice(tokens, 1, 0, context, 1));
    ls_tensor *next = ls_slice(tokens, 1, 1, context + 1, 1);
    return ls_cross_entropy(ls_reshape(logits, -1, ls_dim(logits, 2)), ls_reshape(next, -1));
}

/* ---- Generation ---- */

/* Sample one of the most likely tokens by probability. logits [V] */
static int64_t choose(ls_run *run, ls_tensor *logits, const options *o)
{
    if (o->temperature <= 0) return (int64_t)ls_item(ls_argmax(logits));
    int64_t vocab = ls_numel(logits), count = o->top_k > 0 && o->top_k < vocab ? o->top_k : vocab, *token;
    ls_tensor *indices, *best = ls_topk(logits, count, -1, true, &indices);
    float *chance = malloc((size_t)count * sizeof *chance);
    token = malloc((size_t)count * sizeof *token);
    ls_read(ls_softmax(ls_mul_scalar(best, 1 / o->temperature), -1), chance, (size_t)count * sizeof *chance);
    ls_read(indices, token, (size_t)count * sizeof *token);
    double rest = ls_item(ls_rand(run, LS_F32, 1));
    int64_t i = 0;
    while (i < count - 1 && (rest -= chance[i]) > 0) i++;
    int64_t chosen = ls_error(run) ? 0 : token[i];
    free(chance);
    free(token);
    return chosen;
}

/* Print the prompt and its continuation, token by token. */
static void write_on(ls_run *run, ls_module *model, const text *t, const options *o)
{
    size_t size = strlen(o->prompt);
    const ls_encoding *e = t->pieces ? ls_tokenizer_encode(t->pieces, o->prompt, NULL, .special_tokens = false) : NULL;
    int64_t count = e ? e->begin[1] : (int64_t)size, total = count + o->tokens;
    int64_t *tokens = malloc((size_t)(total + 1) * sizeof *tokens);
    for (int64_t i = 0; i < count; i++) tokens[i] = e ? e->id[i] : (unsigned char)o->prompt[i];
    if (count == 0) tokens[count++] = e ? 0 : '\n';
    ls_print(run, "%s", o->prompt);
    ls_eval(model);
    ls_no_grad(run)
    {
        for (; count < total && !ls_error(run); count++) {
            ls_mark mark = ls_scope_begin(run);
            int64_t seen = count < o->context ? count : o->context;
            ls_tensor *input = ls_from(run, LS_I64, LS_SHAPE(1, seen), tokens + count - seen);
            ls_tensor *logits = ls_select(ls_select(ls_forward(model, input), 0, 0), 0, seen - 1);
            tokens[count] = choose(run, logits, o);
            int32_t id = (int32_t)tokens[count];
            if (t->pieces) {
                const char *piece = ls_tokenizer_token(t->pieces, id);
                ls_print(run, "%s%s", strncmp(piece, "##", 2) ? " " : "", piece + (strncmp(piece, "##", 2) ? 0 : 2));
            } else ls_print(run, "%c", (char)id);
            ls_scope_end(run, mark, NULL);
        }
    }
    ls_print(run, "\n");
    free(tokens);
}

/* ---- Training ---- */

static double evaluate(ls_run *run, ls_module *model, ls_loader *loader)
{
    double sum = 0, count = 0;
    ls_eval(model);
    ls_no_grad(run)
    {
        for (ls_batch b; ls_next(loader, &b);) {
            ls_tensor *loss = ls_gather_with_repeats(run, ls_reshape(loss_of(model, b.tensor[0]), 1));
            sum += ls_item(ls_sum(loss));
            count += (double)ls_numel(loss);
        }
    }
    ls_train(model);
    return sum / count;
}

static void train(ls_run *run, const options *o, ls_module *model, text *t)
{
    ls_field piece = {.name = "tokens", .dtype = LS_I64, .shape = {o->context + 1}};
    int64_t pieces = (t->count - kept(t)) / o->context;
    ls_dataset *training = ls_dataset_new(run, .count = pieces, .get = get_training, .user = t, .fields = {piece});
    ls_dataset *others =
        ls_dataset_new(run, .count = (kept(t) - 1) / o->context, .get = get_kept, .user = t, .fields = {piece});
    ls_loader *learn = ls_loader_new(run, training, .batch = o->batch_size, .drop_last = true);
    ls_loader *check = ls_loader_new(run, others, .batch = o->batch_size);

    ls_optim *adam = ls_adamw_new(run, model, .lr = o->lr, .beta2 = 0.99, .weight_decay = o->weight_decay);
    ls_optim_add_group(adam, ls_state_matching(ls_parameters(model), "*bias|*norm*"), .weight_decay = 0);
    ls_schedule *cosine = ls_warmup_cosine_schedule_new(adam, o->warmup, o->steps);
    ls_prepare(run, model, adam, cosine, learn, check);
    int64_t per_epoch = ls_steps_per_epoch(learn);
    int epochs = per_epoch ? (int)((o->steps + per_epoch - 1) / per_epoch) : 0;
    for (int epoch; ls_epoch(run, epochs, &epoch);) {
        ls_progress *bar = ls_progress_new(run, ls_len(learn), .label = "train");
        for (ls_batch b; ls_progress_next(bar, learn, &b) && ls_optim_steps_taken(adam) < o->steps;) {
            ls_tensor *loss = loss_of(model, b.tensor[0]);
            ls_backward(run, loss);
            ls_clip_grad_norm(adam, 1.0);
            bool stepped = ls_step(adam);
            ls_schedule_step(cosine);
            ls_zero_grad(adam);

            ls_progress_show(bar, "loss", ls_item(loss));
            if (!stepped) continue; /* gradients accumulate, or were not finite */
            int64_t step = ls_optim_steps_taken(adam);
            bool stop = ls_should_stop(run);
            if (!stop && step % o->eval_every && step != o->steps) continue;
            ls_save_state(run, NULL);
            if (stop) return;
            ls_print(run, "step %lld: loss %.4f, evaluation loss %.4f\n", (long long)step, ls_item(loss),
                     evaluate(run, model, check));
        }
        ls_progress_free(bar);
    }
}

/* ---- The model file: stores sizes with the weights ---- */

static int64_t *sizes(options *o, int i)
{
    int64_t *const all[] = {&o->context, &o->width, &o->layers, &o->heads, &o->vocab, NULL};
    return all[i];
}

static const char *const size_names[] = {"context", "width", "layers", "heads", "vocab"};

static void save(ls_run *run, ls_module *model, options *o)
{
    char numbers[5][24];
    ls_metadata about[6] = {{NULL, NULL}};
    for (int i = 0; i < 5; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)*sizes(o, i));
        about[i] = (ls_metadata){size_names[i], numbers[i]};
    }
    ls_save_model(run, model, ls_project_dir(run), .metadata = about);
}

static void read_sizes(ls_run *run, options *o)
{
    const ls_contents *saved = ls_contents_read(run, ls_project_dir(run));
    for (int64_t i = 0; saved && i < saved->metadata_count; i++)
        for (int k = 0; k < 5; k++)
            if (!strcmp(saved->metadata[i].key, size_names[k])) *sizes(o, k) = atoll(saved->metadata[i].value);
}

int main(int argc, char **argv)
{
    options o = {.context = 128,
                 .width = 128,
                 .layers = 4,
                 .heads = 4,
                 .batch_size = 16,
                 .steps = 1000,
                 .warmup = 100,
                 .eval_every = 250,
                 .tokens = 300,
                 .top_k = 40,
                 .lr = 1e-3,
                 .weight_decay = 0.1,
                 .temperature = 0.8,
                 .prompt = "\n"};
    ls_run *run = ls_init(&argc, &argv, .seed = 42, .project_dir = "out", .total_limit = 2);
    if (!read_flags(run, &argc, &argv, &o)) return ls_finish(run);
    text t = {.pieces = o.vocabulary ? ls_tokenizer_new(run, o.vocabulary) : NULL};
    gpt g = {0};
    o.vocab = t.pieces ? ls_tokenizer_size(t.pieces) : 256;
    if (!o.data) read_sizes(run, &o);
    t.context = o.context;
    ls_module *model = gpt_new(run, &o, &g);
    if (!o.data) ls_load_model(run, model, ls_project_dir(run));
    else if (!ls_error(run) && read_text(run, &o, &t)) {
        train(run, &o, model, &t);
        if (ls_should_stop(run)) return ls_finish(run); /* the next start resumes from the checkpoint */
        save(run, model, &o);
    }
    if (!ls_error(run)) write_on(run, model, &t, &o);
    free(t.tokens);
    return ls_finish(run);
}
