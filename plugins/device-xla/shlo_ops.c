/* shlo_ops.c - the operations, each a line of the text. */
#include "shlo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static shlo_value emit(shlo *s, const char *op, const shlo_value *in, int n_in, shlo_value out)
{
    shlo_begin(s, op, in, n_in, &out, 1);
    shlo_end(s, in, n_in, &out, 1);
    return out;
}

/* ---- constants ---- */

/* A single number that is repeated: as a constant of many elements the compiler would compute with it at length. */
static shlo_value constant(shlo *s, shlo_type type, const char *text, shlo_dims dims)
{
    shlo_value out = {.type = type, .dims = SHLO_SCALAR};
    shlo_begin(s, "constant", NULL, 0, &out, 1);
    shlo_print(s, " {value = dense<%s> : ", text);
    shlo_print_type(s, out);
    shlo_print(s, "}");
    shlo_end(s, NULL, 0, &out, 1);
    return shlo_stretch(s, out, dims);
}

shlo_value shlo_integer(shlo *s, shlo_type type, int64_t number, shlo_dims dims)
{
    char text[40];
    if (type == SHLO_I1) snprintf(text, sizeof text, "%s", number ? "true" : "false");
    else if (type == SHLO_U64) snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    else snprintf(text, sizeof text, "%lld", (long long)number);
    return constant(s, type, text, dims);
}

/* Floating numbers are written as their bits: nothing is rounded on the way. */
shlo_value shlo_number(shlo *s, shlo_type type, double number, shlo_dims dims)
{
    char text[40];
    if (!shlo_is_float(type)) return shlo_integer(s, type, (int64_t)number, dims);
    if (type == SHLO_F64) {
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        snprintf(text, sizeof text, "0x%016llX", (unsigned long long)bits);
        return constant(s, type, text, dims);
    }
    float narrow = (float)number;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    snprintf(text, sizeof text, "0x%08X", bits);
    return shlo_convert(s, constant(s, SHLO_F32, text, dims), type);
}

/* The bytes of a number in memory, as digits. */
static void print_bytes(shlo *s, const void *number, size_t bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    char text[2 * sizeof(double) + 1] = {0};
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = ((const uint8_t *)number)[i];
        text[2 * i] = digits[byte >> 4];
        text[2 * i + 1] = digits[byte & 15];
    }
    shlo_append(s, &(shlo){.text = text, .used = 2 * bytes});
}

shlo_value shlo_numbers(shlo *s, shlo_type type, const double *numbers, shlo_dims dims)
{
    shlo_value out = {.type = type, .dims = dims};
    shlo_begin(s, "constant", NULL, 0, &out, 1);
    shlo_print(s, " {value = dense<\"0x");
    for (int64_t i = 0; i < shlo_numel(dims); i++) {
        float narrow = (float)numbers[i];
        int64_t whole = (int64_t)numbers[i];
        if (type == SHLO_F64) print_bytes(s, &numbers[i], sizeof numbers[i]);
        else if (type == SHLO_I64) print_bytes(s, &whole, sizeof whole);
        else print_bytes(s, &narrow, sizeof narrow);
    }
    shlo_print(s, "\"> : ");
    shlo_print_type(s, out);
    shlo_print(s, "}");
    shlo_end(s, NULL, 0, &out, 1);
    return out;
}

shlo_value shlo_iota(shlo *s, shlo_type type, shlo_dims dims, int dim)
{
    shlo_value out = {.type = type, .dims = dims};
    shlo_begin(s, "iota", NULL, 0, &out, 1);
    shlo_print(s, " {iota_dimension = %d : i64}", dim);
    shlo_end(s, NULL, 0, &out, 1);
    return out;
}

/* ---- element by element ---- */

static shlo_dims common_dims(shlo_dims a, shlo_dims b)
{
    shlo_dims longer = a.n >= b.n ? a : b, shorter = a.n >= b.n ? b : a;
    for (int i = 0; i < shorter.n; i++) {
        int64_t *at = &longer.at[longer.n - shorter.n + i];
        if (*at == 1) *at = shorter.at[i];
    }
    return longer;
}

static void stretch_both(shlo *s, shlo_value *a, shlo_value *b)
{
    shlo_dims dims = common_dims(a->dims, b->dims);
    *a = shlo_stretch(s, *a, dims);
    *b = shlo_stretch(s, *b, dims);
}

shlo_value shlo_unary(shlo *s, const char *op, shlo_value x)
{
    return emit(s, op, &x, 1, x);
}

shlo_value shlo_unary_to_bool(shlo *s, const char *op, shlo_value x)
{
    return emit(s, op, &x, 1, (shlo_value){.type = SHLO_I1, .dims = x.dims});
}

shlo_value shlo_binary(shlo *s, const char *op, shlo_value a, shlo_value b)
{
    stretch_both(s, &a, &b);
    return emit(s, op, (shlo_value[]){a, b}, 2, a);
}

/* A constant is hidden from the compiler, which would multiply by its reciprocal. */
shlo_value shlo_div(shlo *s, shlo_value a, shlo_value b)
{
    if (b.is_constant && shlo_is_float(b.type)) {
        b = emit(s, "optimization_barrier", &b, 1, b);
        b.is_constant = false;
    }
    return shlo_binary(s, "divide", a, b);
}

/* Named in full: where both sides are constants and it is missing, XLA compares integers as if they had no sign. */
static const char *comparison_type(shlo_type type)
{
    if (shlo_is_float(type)) return "FLOAT";
    return type == SHLO_I8 || type == SHLO_I32 || type == SHLO_I64 ? "SIGNED" : "UNSIGNED";
}

shlo_value shlo_compare(shlo *s, const char *direction, shlo_value a, shlo_value b)
{
    stretch_both(s, &a, &b);
    shlo_value in[] = {a, b}, out = {.type = SHLO_I1, .dims = a.dims};
    shlo_begin(s, "compare", in, 2, &out, 1);
    shlo_print(s,
               " {comparison_direction = #stablehlo<comparison_direction %s>, "
               "compare_type = #stablehlo<comparison_type %s>}",
               direction, comparison_type(a.type));
    shlo_end(s, in, 2, &out, 1);
    return out;
}

shlo_value shlo_select(shlo *s, shlo_value condition, shlo_value a, shlo_value b)
{
    stretch_both(s, &a, &b);
    stretch_both(s, &condition, &a);
    b = shlo_stretch(s, b, a.dims);
    return emit(s, "select", (shlo_value[]){condition, a, b}, 3, a);
}

shlo_value shlo_convert(shlo *s, shlo_value x, shlo_type type)
{
    if (x.type == type) return x;
    if (type == SHLO_I1) return shlo_compare_with(s, "NE", x, 0);
    return emit(s, "convert", &x, 1, (shlo_value){.type = type, .dims = x.dims});
}

shlo_value shlo_bitcast(shlo *s, shlo_value x, shlo_type type)
{
    if (x.type == type) return x;
    shlo_value out = {.type = type, .dims = x.dims};
    size_t from = shlo_size(x.type), to = shlo_size(type);
    if (from > to) out.dims.at[out.dims.n++] = (int64_t)(from / to);
    if (from < to) out.dims.n--;
    return emit(s, "bitcast_convert", &x, 1, out);
}

/* ---- shapes ---- */

shlo_value shlo_reshape(shlo *s, shlo_value x, shlo_dims dims)
{
    if (shlo_same_dims(x.dims, dims)) return x;
    return emit(s, "reshape", &x, 1, (shlo_value){.type = x.type, .dims = dims});
}

/* An operation of one operand with one list among its attributes. */
static shlo_value emit_with(shlo *s, const char *op, shlo_value x, shlo_value out, const char *name, shlo_dims list)
{
    shlo_begin(s, op, &x, 1, &out, 1);
    shlo_print(s, " {%s = ", name);
    shlo_print_array(s, list);
    shlo_print(s, "}");
    shlo_end(s, &x, 1, &out, 1);
    return out;
}

shlo_value shlo_transpose(shlo *s, shlo_value x, const int *order)
{
    shlo_value out = x;
    shlo_dims list = {.n = x.dims.n};
    bool moved = false;
    for (int i = 0; i < x.dims.n; i++) {
        list.at[i] = order[i];
        out.dims.at[i] = x.dims.at[order[i]];
        moved |= order[i] != i;
    }
    return moved ? emit_with(s, "transpose", x, out, "permutation", list) : x;
}

shlo_value shlo_broadcast(shlo *s, shlo_value x, shlo_dims dims, const int *map)
{
    shlo_dims list = {.n = x.dims.n};
    for (int i = 0; i < x.dims.n; i++) list.at[i] = map[i];
    return emit_with(s, "broadcast_in_dim", x, (shlo_value){.type = x.type, .dims = dims}, "broadcast_dimensions",
                     list);
}

shlo_value shlo_stretch(shlo *s, shlo_value x, shlo_dims dims)
{
    int map[SHLO_MAX_DIMS];
    if (shlo_same_dims(x.dims, dims)) return x;
    for (int i = 0; i < x.dims.n; i++) map[i] = dims.n - x.dims.n + i;
    return shlo_broadcast(s, x, dims, map);
}

shlo_value shlo_slice(shlo *s, shlo_value x, shlo_dims first, shlo_dims limit, shlo_dims step)
{
    shlo_value out = x;
    for (int i = 0; i < x.dims.n; i++)
        out.dims.at[i] = limit.at[i] > first.at[i] ? (limit.at[i] - first.at[i] + step.at[i] - 1) / step.at[i] : 0;
    if (shlo_same_dims(out.dims, x.dims)) return x;
    shlo_begin(s, "slice", &x, 1, &out, 1);
    shlo_print(s, " {start_indices = ");
    shlo_print_array(s, first);
    shlo_print(s, ", limit_indices = ");
    shlo_print_array(s, limit);
    shlo_print(s, ", strides = ");
    shlo_print_array(s, step);
    shlo_print(s, "}");
    shlo_end(s, &x, 1, &out, 1);
    return out;
}

shlo_value shlo_pad(shlo *s, shlo_value x, shlo_value with, shlo_dims before, shlo_dims after, shlo_dims between)
{
    shlo_value in[] = {x, with}, out = x;
    for (int i = 0; i < x.dims.n; i++) {
        int64_t gaps = x.dims.at[i] > 0 ? (x.dims.at[i] - 1) * between.at[i] : 0;
        out.dims.at[i] = before.at[i] + x.dims.at[i] + gaps + after.at[i];
    }
    shlo_begin(s, "pad", in, 2, &out, 1);
    shlo_print(s, " {edge_padding_low = ");
    shlo_print_array(s, before);
    shlo_print(s, ", edge_padding_high = ");
    shlo_print_array(s, after);
    shlo_print(s, ", interior_padding = ");
    shlo_print_array(s, between);
    shlo_print(s, "}");
    shlo_end(s, in, 2, &out, 1);
    return out;
}

shlo_value shlo_concat(shlo *s, const shlo_value *parts, int count, int dim)
{
    shlo_value out = parts[0];
    if (count == 1) return out;
    for (int i = 1; i < count; i++) out.dims.at[dim] += parts[i].dims.at[dim];
    shlo_begin(s, "concatenate", parts, count, &out, 1);
    shlo_print(s, " {dimension = %d : i64}", dim);
    shlo_end(s, parts, count, &out, 1);
    return out;
}

shlo_value shlo_update(shlo *s, shlo_value x, shlo_value part, shlo_dims first)
{
    shlo_value in[2 + SHLO_MAX_DIMS] = {x, part};
    for (int i = 0; i < x.dims.n; i++) in[2 + i] = shlo_integer(s, SHLO_I64, first.at[i], SHLO_SCALAR);
    return emit(s, "dynamic_update_slice", in, 2 + x.dims.n, x);
}

/* The dimensions of a mask. */
static shlo_dims listed(uint32_t mask, int n)
{
    shlo_dims list = {.n = 0};
    for (int i = 0; i < n; i++)
        if (mask >> i & 1) list.at[list.n++] = i;
    return list;
}

shlo_value shlo_reverse(shlo *s, shlo_value x, uint32_t dims)
{
    return emit_with(s, "reverse", x, x, "dimensions", listed(dims, x.dims.n));
}

/* ---- along dimensions ---- */

/* What leaves the other operand of an operation as it is. */
static shlo_value neutral(shlo *s, const char *op, shlo_type type)
{
    bool is_max = strcmp(op, "maximum") == 0, is_min = strcmp(op, "minimum") == 0;
    if (strcmp(op, "and") == 0) return shlo_number(s, type, 1, SHLO_SCALAR);
    if (!is_max && !is_min) return shlo_number(s, type, 0, SHLO_SCALAR);
    if (shlo_is_float(type)) return shlo_number(s, type, is_max ? -INFINITY : INFINITY, SHLO_SCALAR);
    switch (type) {
    case SHLO_I8: return shlo_integer(s, type, is_max ? INT8_MIN : INT8_MAX, SHLO_SCALAR);
    case SHLO_I32: return shlo_integer(s, type, is_max ? INT32_MIN : INT32_MAX, SHLO_SCALAR);
    case SHLO_I64: return shlo_integer(s, type, is_max ? INT64_MIN : INT64_MAX, SHLO_SCALAR);
    case SHLO_U8: return shlo_integer(s, type, is_max ? 0 : UINT8_MAX, SHLO_SCALAR);
    default: return shlo_integer(s, type, is_max ? 0 : -1, SHLO_SCALAR);
    }
}

shlo_value shlo_reduce(shlo *s, const char *op, shlo_value x, uint32_t mask)
{
    shlo_value in[] = {x, neutral(s, op, x.type)}, out = {.type = x.type};
    shlo_dims kept = x.dims;
    for (int i = 0; i < x.dims.n; i++) {
        if (mask >> i & 1) kept.at[i] = 1;
        else out.dims.at[out.dims.n++] = x.dims.at[i];
    }
    if (out.dims.n == x.dims.n) return x;
    shlo_begin(s, "reduce", in, 2, &out, 1);
    shlo_print(s, " ");
    shlo_print_region(s, op, x.type);
    shlo_print(s, " {dimensions = ");
    shlo_print_array(s, listed(mask, x.dims.n));
    shlo_print(s, "}");
    shlo_end(s, in, 2, &out, 1);
    return shlo_reshape(s, out, kept);
}

shlo_value shlo_sum_windows(shlo *s, shlo_value x, const shlo_window *w, shlo_dims dims)
{
    shlo_value in[] = {x, shlo_number(s, x.type, 0, SHLO_SCALAR)}, out = {.type = x.type, .dims = dims};
    shlo_begin(s, "reduce_window", in, 2, &out, 1);
    shlo_print(s, " ");
    shlo_print_region(s, "add", x.type);
    shlo_print(s, " {window_dimensions = ");
    shlo_print_array(s, w->size);
    shlo_print(s, ", window_strides = ");
    shlo_print_array(s, w->stride);
    shlo_print(s, ", base_dilations = ");
    shlo_print_array(s, w->spread);
    shlo_print(s, ", padding = dense<[");
    for (int i = 0; i < x.dims.n; i++)
        shlo_print(s, "%s[%lld, %lld]", i ? ", " : "", (long long)w->before.at[i], (long long)w->after.at[i]);
    shlo_print(s, "]> : tensor<%dx2xi64>}", x.dims.n);
    shlo_end(s, in, 2, &out, 1);
    return out;
}

/* ---- by index ---- */

/* "[0, 1, 4]": the dimensions below n but for `count` of them from `first` on. */
static void print_dims_but(shlo *s, int n, int first, int count)
{
    bool any = false;
    shlo_print(s, "[");
    for (int i = 0; i < n; i++) {
        if (i >= first && i < first + count) continue;
        shlo_print(s, "%s%d", any ? ", " : "", i);
        any = true;
    }
    shlo_print(s, "]");
}

static shlo_dims taken_dims(shlo_dims table, shlo_dims index, int dim)
{
    shlo_dims dims = {.n = 0};
    for (int i = 0; i < dim; i++) dims.at[dims.n++] = table.at[i];
    for (int i = 0; i < index.n; i++) dims.at[dims.n++] = index.at[i];
    for (int i = dim + 1; i < table.n; i++) dims.at[dims.n++] = table.at[i];
    return dims;
}

shlo_value shlo_take(shlo *s, shlo_value table, shlo_value index, int dim)
{
    shlo_value in[] = {table, index}, out = {.type = table.type, .dims = taken_dims(table.dims, index.dims, dim)};
    shlo_dims sizes = table.dims;
    sizes.at[dim] = 1;
    shlo_begin(s, "gather", in, 2, &out, 1);
    shlo_print(s, " {dimension_numbers = #stablehlo.gather<offset_dims = ");
    print_dims_but(s, out.dims.n, dim, index.dims.n);
    shlo_print(s, ", collapsed_slice_dims = [%d], start_index_map = [%d], index_vector_dim = %d>, slice_sizes = ", dim,
               dim, index.dims.n);
    shlo_print_array(s, sizes);
    shlo_print(s, ", indices_are_sorted = false}");
    shlo_end(s, in, 2, &out, 1);
    return out;
}

/* A region that gives the second of two numbers. */
static void print_replacement(shlo *s, shlo_type type)
{
    shlo_value one = {.type = type, .dims = SHLO_SCALAR};
    shlo_print(s, "({ ^bb0(%%a: ");
    shlo_print_type(s, one);
    shlo_print(s, ", %%b: ");
    shlo_print_type(s, one);
    shlo_print(s, "): \"stablehlo.return\"(%%b) : (");
    shlo_print_type(s, one);
    shlo_print(s, ") -> () })");
}

shlo_value shlo_put(shlo *s, shlo_value table, shlo_value index, shlo_value slices, int dim, const char *op)
{
    shlo_value in[] = {table, index, slices}, out = table;
    shlo_begin(s, "scatter", in, 3, &out, 1);
    shlo_print(s, " ");
    if (op) shlo_print_region(s, op, table.type);
    else print_replacement(s, table.type);
    shlo_print(s, " {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = ");
    print_dims_but(s, slices.dims.n, dim, index.dims.n);
    shlo_print(s,
               ", inserted_window_dims = [%d], scatter_dims_to_operand_dims = [%d], index_vector_dim = %d>, "
               "indices_are_sorted = false, unique_indices = false}",
               dim, dim, index.dims.n);
    shlo_end(s, in, 3, &out, 1);
    return out;
}

/* ---- products ---- */

static bool contains(shlo_dims list, int number)
{
    for (int i = 0; i < list.n; i++)
        if (list.at[i] == number) return true;
    return false;
}

static void print_list(shlo *s, const char *name, shlo_dims list)
{
    shlo_print(s, "%s = [", name);
    for (int i = 0; i < list.n; i++) shlo_print(s, "%s%lld", i ? ", " : "", (long long)list.at[i]);
    shlo_print(s, "]");
}

/* f32 stays f32: TPUs would otherwise round operands to bf16. */
static void print_precision(shlo *s, shlo_type type)
{
    const char *precision = type == SHLO_F32 ? "HIGHEST" : "DEFAULT";
    shlo_print(s, ", precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]}", precision, precision);
}

shlo_value shlo_dot(shlo *s, shlo_value a, shlo_value b, const shlo_dot_dims *which, shlo_type type)
{
    shlo_value in[] = {a, b}, out = {.type = type};
    for (int i = 0; i < which->batch_a.n; i++) out.dims.at[out.dims.n++] = a.dims.at[which->batch_a.at[i]];
    for (int i = 0; i < a.dims.n; i++)
        if (!contains(which->batch_a, i) && !contains(which->sum_a, i)) out.dims.at[out.dims.n++] = a.dims.at[i];
    for (int i = 0; i < b.dims.n; i++)
        if (!contains(which->batch_b, i) && !contains(which->sum_b, i)) out.dims.at[out.dims.n++] = b.dims.at[i];
    shlo_begin(s, "dot_general", in, 2, &out, 1);
    shlo_print(s, " {dot_dimension_numbers = #stablehlo.dot<");
    print_list(s, "lhs_batching_dimensions", which->batch_a);
    print_list(s, ", rhs_batching_dimensions", which->batch_b);
    print_list(s, ", lhs_contracting_dimensions", which->sum_a);
    print_list(s, ", rhs_contracting_dimensions", which->sum_b);
    shlo_print(s, ">");
    print_precision(s, a.type);
    shlo_end(s, in, 2, &out, 1);
    return out;
}

static void print_pair(shlo *s, const char *name, const int64_t pair[2])
{
    shlo_print(s, ", %s = array<i64: %lld, %lld>", name, (long long)pair[0], (long long)pair[1]);
}

shlo_value shlo_convolve(shlo *s, shlo_value x, shlo_value kernel, const shlo_conv *how, shlo_value out)
{
    shlo_value in[] = {x, kernel};
    shlo_begin(s, "convolution", in, 2, &out, 1);
    shlo_print(s, " {dimension_numbers = #stablehlo.conv<%s>", how->layout);
    print_pair(s, "window_strides", how->stride);
    shlo_print(s, ", padding = dense<[[%lld, %lld], [%lld, %lld]]> : tensor<2x2xi64>", (long long)how->before[0],
               (long long)how->after[0], (long long)how->before[1], (long long)how->after[1]);
    print_pair(s, "lhs_dilation", how->spread);
    print_pair(s, "rhs_dilation", how->dilation);
    shlo_print(s, ", feature_group_count = %lld : i64, batch_group_count = %lld : i64", (long long)how->groups,
               (long long)how->batch_groups);
    print_precision(s, x.type);
    shlo_end(s, in, 2, &out, 1);
    return out;
}
