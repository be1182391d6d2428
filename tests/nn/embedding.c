/* embedding.c - embeddings that are added and normalised: one pass, unless somebody wants to see what is in between. */
#include <lockstep.h>

#include "check.h"
#include "nn/layers.h"

static ls_run *run;
static int calls[LS_OP_COUNT];

static ls_status counting_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    return ls_cpu_device.run(device, stream, call, why);
}

static ls_tensor *forward(int n, ls_module **embeddings, ls_tensor *const *indices, ls_module *norm)
{
    memset(calls, 0, sizeof calls);
    run->device->table.run = counting_run;
    ls_tensor *y = ls_forward_embeddings_norm(n, embeddings, indices, norm);
    run->device->table.run = ls_cpu_device.run;
    return y;
}

static void same_bits(ls_tensor *a, ls_tensor *b)
{
    float p[2 * 5 * 8], q[2 * 5 * 8];
    CHECK(ls_numel(a) <= 80 && ls_numel(b) == ls_numel(a));
    size_t bytes = sizeof *p * (size_t)ls_numel(a);
    CHECK(ls_read(a, p, bytes) && ls_read(b, q, bytes) && memcmp(p, q, bytes) == 0);
}

/* The gradient of a table after a pass whose loss sees every element differently. */
static ls_tensor *gradient_after(ls_module *embedding, ls_tensor *y)
{
    ls_tensor *table = ls_module_tensor(embedding, "weight");
    ls_clear_grad(table);
    ls_backward(run, ls_sum(ls_mul(y, ls_detach(ls_cos(y)))));
    return ls_clone(ls_grad(table));
}

static void see(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module, (void)n, (void)inputs, (void)outputs;
    ++*(int *)user;
}

static void embeddings_and_their_norm_take_one_pass(void)
{
    ls_module *part[] = {ls_embedding_new(run, 9, 8, .padding_idx = 0), ls_embedding_new(run, 5, 8),
                         ls_embedding_new(run, 2, 8)};
    ls_module *norm = ls_layer_norm_new(run, 8, .epsilon = 1e-12);
    ls_tensor *index[] = {ls_from(run, LS_I64, LS_SHAPE(2, 5), (int64_t[]){1, 0, 8, 3, 0, 2, 7, 7, 1, 0}),
                          ls_arange(run, LS_I64, 5, 0, 1), ls_zeros(run, LS_I64, 2, 5)};
    ls_tensor *one = forward(3, part, index, norm), *one_dwords = gradient_after(part[0], one);
    CHECK(calls[LS_OP_embedding_layer_norm] == 1 && calls[LS_OP_embedding] == 0 && calls[LS_OP_layer_norm] == 0);
    CHECK(ls_numel(one) == 80);
    int seen = 0;
    ls_hook *hook = ls_register_forward_hook(part[1], see, &seen);
    ls_tensor *steps = forward(3, part, index, norm), *steps_dwords = gradient_after(part[0], steps);
    CHECK(seen == 1 && calls[LS_OP_embedding_layer_norm] == 0 && calls[LS_OP_embedding] == 3);
    same_bits(one, steps);
    same_bits(one_dwords, steps_dwords);
    CHECK(ls_item(ls_norm(ls_select(one_dwords, 0, 0))) == 0 && ls_item(ls_norm(ls_select(one_dwords, 0, 7))) > 0);
    ls_hook_remove(hook);
    ls_set_recompute(norm, true);
    forward(2, part, index, norm);
    CHECK(calls[LS_OP_embedding_layer_norm] == 0 && calls[LS_OP_layer_norm] == 1);
    ls_set_recompute(norm, false);
    forward(2, part, index, norm);
    CHECK(calls[LS_OP_embedding_layer_norm] == 1);
}

static int64_t scattered; /* rows */

static ls_status watching_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    if (call->op == LS_OP_index_add) scattered += call->in[0]->dim[0];
    return ls_cpu_device.run(device, stream, call, why);
}

static void rows_for_the_positions_of_all_sequences_are_summed_first(void)
{
    ls_module *part[] = {ls_embedding_new(run, 9, 8), ls_embedding_new(run, 5, 8)}, *norm = ls_layer_norm_new(run, 8);
    ls_tensor *words = ls_from(run, LS_I64, LS_SHAPE(2, 5), (int64_t[]){1, 0, 8, 3, 0, 2, 7, 7, 1, 0});
    ls_tensor *shared = ls_arange(run, LS_I64, 5, 0, 1), *repeated = ls_contiguous(ls_expand(shared, 2, 5)), *got[2];
    for (int i = 0; i < 2; i++) {
        ls_tensor *y = ls_forward_embeddings_norm(2, part, (ls_tensor *[]){words, i ? repeated : shared}, norm);
        scattered = 0;
        run->device->table.run = watching_run;
        got[i] = gradient_after(part[1], y);
        run->device->table.run = ls_cpu_device.run;
        CHECK_MSG(scattered == 10 + (i ? 10 : 5), "%d rows are scattered", (int)scattered);
    }
    same_bits(got[0], got[1]);
}

static void errors_name_the_norm(void)
{
    ls_module *part[] = {ls_embedding_new(run, 3, 8)}, *norm = ls_layer_norm_new(run, 8);
    ls_tensor *index = ls_full(run, LS_I64, 3, 4);
    CHECK(!ls_is_valid(ls_forward_embeddings_norm(1, part, &index, norm)));
    CHECK_MSG(strstr(ls_error_message(run), "LayerNorm: embedding_layer_norm: table 0: index 3 at position 0"), "%s",
              ls_error_message(run));
    ls_clear_error(run);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(embeddings_and_their_norm_take_one_pass);
    CHECK_RUN(rows_for_the_positions_of_all_sequences_are_summed_first);
    CHECK_RUN(errors_name_the_norm);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
