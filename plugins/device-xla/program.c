/* program.c - writes a recording down as one StableHLO function.
 *
 * Its arguments are the storages that are read before they are written, its results those that were written and live
 * on. An argument that is overwritten gives its memory to the result, one that was released to whichever can use it. */
#include <stdlib.h>
#include <string.h>

#include "cache.h"

static void set_places(const xla_device *d, xla_place *places)
{
    for (size_t m = 1; m <= d->recording.mentions; m++) {
        const xla_storage *s = xla_mentioned(d, m);
        places[m] = (xla_place){.dtype = s->dtype, .type = xla_storage_memory(s), .dims = s->dims};
        places[m].has_contents = xla_has_contents(s);
    }
}

/* The results in their dimensions in memory, as the function returns them. */
static void write_return(xla_lowering *l, const xla_program *program, shlo_value *result)
{
    size_t count = program->n_out + program->can_fail;
    for (size_t i = 0; i < program->n_out; i++) {
        xla_place *p = &l->places[program->out[i]];
        result[i] = shlo_reshape(&l->s, p->value, p->dims);
    }
    if (program->can_fail) result[program->n_out] = l->fault;
    shlo_print(&l->s, "    \"func.return\"(");
    for (size_t i = 0; i < count; i++) shlo_print(&l->s, "%s%%%d", i ? ", " : "", result[i].id);
    shlo_print(&l->s, ") : (");
    for (size_t i = 0; i < count; i++) {
        shlo_print(&l->s, i ? ", " : "");
        shlo_print_type(&l->s, result[i]);
    }
    shlo_print(&l->s, ") -> ()\n  }\n}\n");
}

/* What each of several chips has of an array: XLA derives all else, and adds what chips must exchange. */
static void write_sharding(bool is_divided, int ndim, shlo *text)
{
    shlo_print(text, "sdy.sharding = #sdy.sharding<@chips, [");
    for (int i = 0; i < ndim; i++) shlo_print(text, i ? ", {}" : is_divided ? "{\"rows\"}" : "{}");
    shlo_print(text, "]>");
}

static void write_argument(const xla_device *d, const xla_program *program, const xla_argument *in, shlo *text)
{
    const xla_storage *s = xla_mentioned(d, in->mention);
    bool several = d->team.count > 1;
    size_t k = 0;
    if (!several && !in->is_donated) return;
    shlo_print(text, " {");
    if (several) write_sharding(xla_is_divided(d, s), s->dims.n, text);
    if (several && in->is_donated) shlo_print(text, ", ");
    while (k < program->n_out && program->out[k] != in->mention) k++;
    if (in->is_donated && k < program->n_out) shlo_print(text, "tf.aliasing_output = %zu : i32", k);
    else if (in->is_donated) shlo_print(text, "jax.buffer_donor = true");
    shlo_print(text, "}");
}

static void write_result(const xla_device *d, const xla_storage *s, shlo_value result, shlo *text)
{
    shlo_print_type(text, result);
    if (d->team.count == 1) return;
    shlo_print(text, " {");
    write_sharding(s && xla_is_divided(d, s), result.dims.n, text);
    shlo_print(text, "}");
}

static void write_head(const xla_device *d, const xla_program *program, const xla_place *places,
                       const shlo_value *result, shlo *text)
{
    shlo_print(text, "module @step attributes {mhlo.num_replicas = %d : i32, mhlo.num_partitions = %d : i32} {\n",
               program->is_joint ? d->joint.count : 1, d->team.count);
    if (d->team.count > 1) shlo_print(text, "  sdy.mesh @chips = <[\"rows\"=%d]>\n", d->team.count);
    shlo_print(text, "  func.func public @main(");
    for (size_t i = 0; i < program->n_in; i++) {
        const xla_place *p = &places[program->in[i].mention];
        shlo_print(text, "%s%%%d: ", i ? ", " : "", p->argument);
        shlo_print_type(text, (shlo_value){.type = p->type, .dims = p->dims});
        write_argument(d, program, &program->in[i], text);
    }
    shlo_print(text, ") -> (");
    for (size_t i = 0; i < program->n_out + program->can_fail; i++) {
        shlo_print(text, i ? ", " : "");
        write_result(d, i < program->n_out ? xla_mentioned(d, program->out[i]) : NULL, result[i], text);
    }
    shlo_print(text, ") {\n");
}

/* Outputs of calls that their lowerings have no use for are as they were. */
static void find_results(const xla_device *d, const xla_place *places, xla_program *program)
{
    for (size_t m = 1; m <= d->recording.mentions; m++)
        if (places[m].is_written && !xla_mentioned(d, m)->is_released) program->out[program->n_out++] = m;
}

static void find_arguments(const xla_device *d, const xla_place *places, xla_program *program)
{
    for (size_t m = 1; m <= d->recording.mentions; m++) {
        if (!places[m].is_argument) continue;
        program->in[program->n_in++] = (xla_argument){m, places[m].is_written || xla_mentioned(d, m)->is_released};
        program->is_divided |= xla_is_divided(d, xla_mentioned(d, m));
    }
}

static void write_all(const xla_device *d, xla_lowering *l, xla_program *program, shlo_value *result, shlo *text)
{
    set_places(d, l->places);
    xla_reader reader = {0};
    for (xla_recorded r; xla_read(d, &reader, &r);) {
        l->call = &r.call;
        xla_lowering_of(r.call.op)(l, &r.call);
    }
    program->is_joint = l->is_joint;
    program->can_fail = l->can_fail;
    find_results(d, l->places, program);
    find_arguments(d, l->places, program);
    write_return(l, program, result);
    write_head(d, program, l->places, result, text);
    shlo_append(text, &l->s);
}

ls_status xla_program_write(const xla_device *d, xla_program *program, shlo *text, ls_message *why)
{
    size_t room = d->recording.mentions + 1;
    xla_lowering l = {.host = d->host, .places = calloc(room, sizeof *l.places)};
    l.pads_lines = strcmp(d->pjrt->platform, "tpu") == 0;
    shlo_value *result = calloc(room, sizeof *result);
    program->in = calloc(room, sizeof *program->in);
    program->out = calloc(room, sizeof *program->out);
    bool done = l.places && result && program->in && program->out;
    if (done) write_all(d, &l, program, result, text);
    done = done && !l.s.failed && !text->failed;
    free(l.s.text);
    free(l.places);
    free(result);
    return done ? LS_OK : xla_refuse(why, LS_ERR_MEMORY, "no host memory to write a program for XLA");
}
