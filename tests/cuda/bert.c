/* bert.c - the operators of a BERT-large layer on the GPU: held against plain loops in f64, and timed.
 *
 * Works on the plug-in's table alone. Results are filled with NaNs before every call. Rates stand beside those of the
 * best libraries and sketches, measured on an H200. */
#include "table.h"

/* ---- Linear layers ----------------------------------------------------------------------------------------------- */

enum { BATCH = 12, LENGTH = 384, WORDS = BATCH * LENGTH, WIDTH = 1024, HEADS = 16, SAMPLES = 2000 };

static double gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double gelu_slope(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
}

static int64_t any_of(int64_t n)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int64_t)(state % (uint64_t)n);
}

static bool holds(const tensor *t, const double *numbers)
{
    double *got = read_back(t);
    bool same = memcmp(got, numbers, (size_t)t->n * sizeof(double)) == 0;
    free(got);
    return same;
}

static void check_linear(const char *name, int rows, int n, int k, ls_dtype type, bool active, double forward_us,
                         double backward_us)
{
    char what[80];
    tensor x = empty(type, 2, rows, k), w = empty(LS_F32, 2, n, k), b = empty(LS_F32, 1, n),
           half = empty(type, 2, n, k);
    tensor y = empty(type, 2, rows, n), pre = empty(type, 2, rows, n), dy = empty(type, 2, rows, n);
    tensor dx = empty(type, 2, rows, k), dw = empty(LS_F32, 2, n, k), db = empty(LS_F32, 1, n),
           d = empty(type, 2, rows, n), again = empty(type, 2, rows, n);
    fill(&x, 0, 1), fill(&w, 0, 0.03), fill(&b, 0, 0.5), fill(&dy, 0, 1), fill(&dw, 0, 1), fill(&db, 0, 1);
    half.here = malloc((size_t)half.n * sizeof(double));
    memcpy(half.here, w.here, (size_t)half.n * sizeof(double));
    set(&half);
    ls_derived derived = {.version = 7, .half = half.x.data, .half_dtype = type, .half_version = 7};
    if (type != LS_F32) w.x.derived = &derived;
    ls_call call = {
        .op = LS_OP_linear, .n_in = 3, .n_out = 2, .in = {&x.x, &w.x, &b.x}, .out = {&y.x, active ? &pre.x : NULL}};
    call.attrs.product.compute = type;
    call.attrs.product.activation = active ? LS_ACT_GELU : LS_ACT_NONE;
    run(&call);
    double *got = read_back(&y), *before = active ? read_back(&pre) : NULL;
    difference forward = {0}, inner = {0};
    for (int i = 0; i < SAMPLES; i++) {
        int64_t r = any_of(rows), c = any_of(n);
        double sum = b.here[c];
        for (int j = 0; j < k; j++) sum += x.here[r * k + j] * half.here[c * k + j];
        compare(&forward, got[r * n + c], active ? gelu(sum) : sum);
        if (active) compare(&inner, before[r * n + c], sum);
    }
    snprintf(what, sizeof what, "%s forward", name);
    double limit = type == LS_F32 ? 2e-6 : 8e-3;
    report(what, fmax(relative(forward), relative(inner)), limit, &call, forward_us);

    ls_call grad = {.op = LS_OP_linear_grad,
                    .n_in = 4,
                    .n_out = 5,
                    .in = {&dy.x, &x.x, &w.x, active ? &pre.x : NULL},
                    .out = {&dx.x, &dw.x, &db.x, active ? &d.x : NULL, active ? &again.x : NULL}};
    grad.attrs.product = call.attrs.product;
    grad.attrs.product.accumulate = 2 | 4;
    double *slope = malloc((size_t)dy.n * sizeof(double));
    for (int64_t i = 0; i < dy.n; i++) slope[i] = active ? dy.here[i] * gelu_slope(before[i]) : dy.here[i];
    run(&grad);
    double *got_x = read_back(&dx), *got_w = read_back(&dw), *got_b = read_back(&db);
    double *got_y = read_back(&again);
    bool same = true; /* bits, where the result of the activation is kept, not made again */
    if (active) {
        ls_call kept = grad;
        kept.out[4] = NULL;
        poison(&dx), set(&dw), set(&db);
        run(&kept);
        same = holds(&y, got_y) && holds(&dx, got_x) && holds(&dw, got_w) && holds(&db, got_b);
    }
    difference ex = {0}, ew = {0}, eb = {0}, ey = {0};
    for (int64_t i = 0; active && i < again.n; i++) compare(&ey, got_y[i], gelu(before[i]));
    for (int i = 0; i < SAMPLES / 4; i++) {
        int64_t r = any_of(rows), c = any_of(k), o = any_of(n);
        double to_x = 0, to_w = dw.here[o * k + c], to_b = db.here[o];
        for (int j = 0; j < n; j++) to_x += slope[r * n + j] * half.here[(int64_t)j * k + c];
        for (int j = 0; j < rows; j++) {
            to_w += slope[(int64_t)j * n + o] * x.here[(int64_t)j * k + c];
            to_b += slope[(int64_t)j * n + o];
        }
        compare(&ex, got_x[r * k + c], to_x);
        compare(&ew, got_w[o * k + c], to_w);
        compare(&eb, got_b[o], to_b);
    }
    snprintf(what, sizeof what, "%s backward", name);
    report(what, fmax(fmax(relative(ex), relative(ey)), fmax(relative(ew), relative(eb))), limit, &grad, backward_us);
    snprintf(what, sizeof what, "%s, the same bits if it is kept", name);
    if (active) report(what, same ? 0 : INFINITY, 0, NULL, 0);
    free(got), free(got_y), free(got_x), free(got_w), free(got_b), free(slope), free(before);
    tensor *all[] = {&x, &w, &b, &half, &y, &pre, &dy, &dx, &dw, &db, &d, &again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) drop(all[i]);
}

/* The gradient of the bias of a linear layer, right behind the call that writes its dy, which may have added it up on
 * the way; and again once dy has changed since then. */
static void check_bias(const char *name, const ls_call *writer, tensor *dy, double limit)
{
    char what[80];
    int64_t rows = dy->x.dim[0], n = dy->x.dim[1];
    tensor db = empty(LS_F32, 1, (int)n);
    ls_call call = {.op = LS_OP_linear_grad, .n_in = 4, .n_out = 5, .in = {&dy->x}, .out = {NULL, NULL, &db.x}};
    call.attrs.product.compute = dy->x.dtype;
    fill(&db, 0, 1);
    difference e = {0};
    for (int turn = 0; turn < 3; turn++) { /* written, added, and of other numbers */
        call.attrs.product.accumulate = turn == 1 ? 4 : 0;
        poison(dy), set(&db);
        run(writer);
        if (turn == 2) fill(dy, 0.2, 1);
        run(&call);
        double *got = read_back(&db), *all = read_back(dy);
        for (int64_t c = 0; c < n; c++) {
            double sum = turn == 1 ? db.here[c] : 0;
            for (int64_t r = 0; r < rows; r++) sum += all[r * n + c];
            compare(&e, got[c], sum);
        }
        free(got), free(all);
    }
    snprintf(what, sizeof what, "%s, its bias", name);
    report(what, relative(e), limit, NULL, 0);
    free(dy->here), dy->here = NULL;
    drop(&db);
}

/* ---- Random bits ------------------------------------------------------------------------------------------------- */

static bool is_dropped(uint64_t seed, uint64_t offset, uint64_t element, double p)
{
    uint64_t counter = offset + element / 4;
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}, k0 = (uint32_t)seed,
             k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1, c[3] = (uint32_t)p0, c[0] = n0, c[2] = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return (c[element % 4] >> 8) * 0x1p-24 < p;
}

/* ---- Layer norm -------------------------------------------------------------------------------------------------- */

/* `shift`: bytes that x lies behind a multiple of 16. */
static void check_norm(int rows, int n, ls_dtype type, int shift, double forward_us, double backward_us)
{
    char what[80];
    tensor x = empty(type, 2, rows, n), r = empty(type, 2, rows, n), w = empty(LS_F32, 1, n), b = empty(LS_F32, 1, n);
    tensor y = empty(type, 2, rows, n), sum = empty(type, 2, rows, n), stats = empty(LS_F32, 2, 2, rows);
    tensor dy = empty(type, 2, rows, n), dx = empty(type, 2, rows, n), dr = empty(type, 2, rows, n);
    tensor dw = empty(LS_F32, 1, n), db = empty(LS_F32, 1, n), kept = empty(LS_U8, 1, (rows * n + 255) / 256 * 32);
    x.x.data = (char *)x.x.data + shift;
    fill(&x, 0, 1), fill(&r, 0.3, 1), fill(&w, 1, 0.2), fill(&b, 0, 0.2), fill(&dy, 0, 1);
    ls_call call = {.op = LS_OP_dropout_add_layer_norm,
                    .n_in = 4,
                    .n_out = 4,
                    .in = {&x.x, &r.x, &w.x, &b.x},
                    .out = {&y.x, &sum.x, &stats.x, &kept.x}};
    call.attrs.norm.epsilon = 1e-12, call.attrs.norm.groups = n, call.attrs.norm.dropout = 0.1;
    call.attrs.norm.seed = 0x123456789abcdefu, call.attrs.norm.offset = 77;
    run(&call);
    double *got = read_back(&y), *sums = read_back(&sum);
    difference e = {0}, es = {0};
    for (int i = 0; i < rows; i += 1 + rows / 50) {
        double mean = 0, var = 0;
        for (int j = 0; j < n; j++) {
            int64_t at = (int64_t)i * n + j;
            bool gone = is_dropped(call.attrs.norm.seed, 77, (uint64_t)at, 0.1);
            compare(&es, sums[at], r.here[at] + (gone ? 0 : x.here[at] / 0.9));
            mean += sums[at] / n;
        }
        for (int j = 0; j < n; j++) var += pow(sums[(int64_t)i * n + j] - mean, 2) / n;
        for (int j = 0; j < n; j++) {
            int64_t at = (int64_t)i * n + j;
            compare(&e, got[at], (sums[at] - mean) / sqrt(var + 1e-12) * w.here[j] + b.here[j]);
        }
    }
    double limit = type == LS_F32 ? 2e-6 : 8e-3;
    snprintf(what, sizeof what, "dropout + residual + norm %d x %d forward", rows, n);
    report(what, fmax(relative(e), relative(es)), limit, &call, forward_us);

    ls_call grad = {.op = LS_OP_dropout_add_layer_norm_grad,
                    .n_in = 5,
                    .n_out = 4,
                    .in = {&dy.x, &sum.x, &stats.x, &w.x, &kept.x},
                    .out = {&dx.x, &dr.x, &dw.x, &db.x},
                    .attrs = call.attrs};
    run(&grad);
    double *gx = read_back(&dx), *gr = read_back(&dr), *gw = read_back(&dw), *gb = read_back(&db),
           *st = read_back(&stats);
    difference ex = {0}, er = {0}, ew = {0};
    double *tw = calloc((size_t)n, sizeof(double)), *tb = calloc((size_t)n, sizeof(double));
    for (int i = 0; i < rows; i++) {
        double mean = st[i], rstd = st[rows + i], avg = 0, dot = 0;
        for (int j = 0; j < n; j++) {
            int64_t at = (int64_t)i * n + j;
            double xhat = (sums[at] - mean) * rstd, g = dy.here[at] * w.here[j];
            avg += g / n, dot += g * xhat / n;
            tw[j] += dy.here[at] * xhat, tb[j] += dy.here[at];
        }
        for (int j = 0; i % (1 + rows / 50) == 0 && j < n; j++) {
            int64_t at = (int64_t)i * n + j;
            double g = dy.here[at] * w.here[j], to = rstd * (g - avg - (sums[at] - mean) * rstd * dot);
            compare(&er, gr[at], to);
            compare(&ex, gx[at], is_dropped(grad.attrs.norm.seed, 77, (uint64_t)at, 0.1) ? 0 : to / 0.9);
        }
    }
    for (int j = 0; j < n; j++) compare(&ew, gw[j], tw[j]), compare(&ew, gb[j], tb[j]);
    snprintf(what, sizeof what, "dropout + residual + norm %d x %d backward", rows, n);
    report(what, fmax(relative(ew), fmax(relative(ex), relative(er))), limit, &grad, backward_us);
    snprintf(what, sizeof what, "norm %d x %d", rows, n);
    check_bias(what, &grad, &dx, limit);
    grad.attrs.norm.dropout = 0, grad.out[0] = grad.in[4] = NULL;
    check_bias(what, &grad, &dr, limit);
    free(got), free(sums), free(gx), free(gr), free(gw), free(gb), free(st), free(tw), free(tb);
    x.x.data = (char *)x.x.data - shift;
    tensor *all[] = {&x, &r, &w, &b, &y, &sum, &stats, &dy, &dx, &dr, &dw, &db, &kept};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) drop(all[i]);
}

/* ---- Sums -------------------------------------------------------------------------------------------------------- */

/* Over a batch, as the gradient of position embeddings is: many sums of few numbers. */
static void check_batch_sum(int batch, int rows, int n)
{
    tensor x = empty(LS_F32, 3, batch, rows, n), y = empty(LS_F32, 3, 1, rows, n);
    fill(&x, 0.1, 1);
    ls_call call = {.op = LS_OP_sum, .n_in = 1, .n_out = 1, .in = {&x.x}, .out = {&y.x}, .attrs.reduce.mask = 1};
    run(&call);
    double *got = read_back(&y);
    difference e = {0};
    for (int64_t i = 0; i < y.n; i++) {
        double sum = 0;
        for (int b = 0; b < batch; b++) sum += x.here[b * y.n + i];
        compare(&e, got[i], sum);
    }
    report("sum over a batch", relative(e), 1e-6, &call, 0);
    free(got);
    drop(&x), drop(&y);
}

/* ---- Optimisers -------------------------------------------------------------------------------------------------- */

/* RMSprop and Adagrad divide by the root of one moment, less the square of another if it is centered; the former may
 * have momentum besides. */
static void check_adaptive(const char *what, ls_opcode op, bool momentum, int n)
{
    bool centered = op == LS_OP_centered_rmsprop_step, rmsprop = centered || op == LS_OP_rmsprop_step;
    int last = rmsprop ? 2 + centered : 1; /* momentum, where there is any; the half copy follows */
    tensor p = empty(LS_F32, 1, n), v = empty(LS_F32, 1, n), mean = empty(LS_F32, 1, n), m = empty(LS_F32, 1, n);
    tensor g = empty(LS_F32, 1, n), half = empty(LS_BF16, 1, n);
    fill(&p, 0, 1), fill(&v, 0.5, 0.1), fill(&mean, 0, 0.1), fill(&m, 0, 0.1), fill(&g, 0, 1);
    ls_call call = {.op = op, .n_in = 1, .n_out = last + 2, .in = {&g.x}, .out = {&p.x, &v.x}};
    call.out[last + 1] = &half.x;
    if (centered) call.out[2] = &mean.x;
    if (momentum) call.out[last] = &m.x;
    if (rmsprop) {
        call.attrs.rmsprop.lr = 1e-2, call.attrs.rmsprop.alpha = 0.9, call.attrs.rmsprop.epsilon = 1e-8;
        call.attrs.rmsprop.weight_decay = 0.01, call.attrs.rmsprop.momentum = 0.9;
    } else call.attrs.adagrad.lr = 1e-2, call.attrs.adagrad.epsilon = 1e-8, call.attrs.adagrad.weight_decay = 0.01;
    run(&call);
    double *gp = read_back(&p), *gh = read_back(&half);
    difference e = {0}, eh = {0};
    for (int i = 0; i < n; i++) {
        double d = g.here[i] + 0.01 * p.here[i], vi = rmsprop ? 0.9 * v.here[i] + 0.1 * d * d : v.here[i] + d * d;
        double middle = centered ? 0.9 * mean.here[i] + 0.1 * d : 0, move = d / (sqrt(vi - middle * middle) + 1e-8);
        double to = p.here[i] - 1e-2 * (momentum ? 0.9 * m.here[i] + move : move);
        compare(&e, gp[i], to);
        compare(&eh, gh[i], to);
    }
    report(what, fmax(relative(e), relative(eh) / 1e4), 1e-6, &call, 0);
    free(gp), free(gh);
    drop(&p), drop(&v), drop(&mean), drop(&m), drop(&g), drop(&half);
}

static void check_optimisers(int n, double adam_us, double squares_us)
{
    tensor p = empty(LS_F32, 1, n), m = empty(LS_F32, 1, n), v = empty(LS_F32, 1, n), g = empty(LS_F32, 1, n);
    tensor half = empty(LS_BF16, 1, n), total = empty(LS_F32, 1, 1), found = empty(LS_F32, 1, 1);
    fill(&p, 0, 1), fill(&m, 0, 0.1), fill(&v, 0.5, 0.1), fill(&g, 0, 1), fill(&total, 0, 0), fill(&found, 0, 0);
    ls_call call = {
        .op = LS_OP_adam_step, .n_in = 2, .n_out = 4, .in = {&g.x, &found.x}, .out = {&p.x, &m.x, &v.x, &half.x}};
    call.attrs.adam.lr = 1e-2, call.attrs.adam.beta1 = 0.9, call.attrs.adam.beta2 = 0.999,
    call.attrs.adam.epsilon = 1e-8;
    call.attrs.adam.weight_decay = 0.01, call.attrs.adam.bias1 = 0.1, call.attrs.adam.bias2 = 0.001;
    call.attrs.adam.decoupled = 1;
    run(&call);
    double *gp = read_back(&p), *gh = read_back(&half), sum = 0;
    difference e = {0}, eh = {0};
    for (int i = 0; i < n; i++) {
        double mi = 0.9 * m.here[i] + 0.1 * g.here[i], vi = 0.999 * v.here[i] + 0.001 * g.here[i] * g.here[i];
        double to = p.here[i] * (1 - 1e-4) - 0.1 * mi / (sqrt(vi) / sqrt(0.001) + 1e-8);
        compare(&e, gp[i], to);
        compare(&eh, gh[i], to);
        sum += g.here[i] * g.here[i];
    }
    report("AdamW, f32 with a bf16 copy", fmax(relative(e), relative(eh) / 1e4), 1e-6, &call, adam_us);
    ls_call squares = {.op = LS_OP_sum_squares, .n_in = 1, .n_out = 1, .in = {&g.x}, .out = {&total.x}};
    run(&squares);
    double *got = read_back(&total);
    difference es = {0};
    compare(&es, got[0], sum);
    report("sum of squares", relative(es), 1e-6, &squares, squares_us);
    free(gp), free(gh), free(got);
    tensor *all[] = {&p, &m, &v, &g, &half, &total, &found};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) drop(all[i]);
}

/* ---- Attention --------------------------------------------------------------------------------------------------- */

typedef struct attention_case {
    int batch, length, depth;
    ls_dtype type;
    double p;
    bool lengths, causal;
    double forward_us, backward_us;
} attention_case;

/* Part `part` of packed rows [B,S,parts,H,D] as [B,H,S,D]. */
static ls_operand heads_of(const tensor *rows, int parts, int part, int batch, int length, int depth)
{
    ls_operand x = {.dtype = rows->x.dtype, .ndim = 4, .dim = {batch, HEADS, length, depth}};
    int64_t row = (int64_t)parts * HEADS * depth;
    x.data = (char *)rows->x.data + (size_t)(part * HEADS * depth) * size_of(x.dtype);
    x.stride[0] = row * length, x.stride[1] = depth, x.stride[2] = row, x.stride[3] = 1;
    return x;
}

typedef struct attention_data {
    const attention_case *c;
    const double *qkv, *d_o, *o, *grad; /* of the GPU's numbers, packed */
    const double *kept;                 /* its bytes, if they tell what was dropped; else NULL */
    int length;                         /* of this sequence */
} attention_data;

/* Did the GPU drop a score? On tensor cores it draws otherwise than the CPU: the bits that it kept tell. */
static bool was_dropped(const attention_data *a, int b, int h, int i, int j)
{
    int64_t s = a->c->length, head = (int64_t)b * HEADS + h;
    if (a->c->p <= 0) return false;
    if (!a->kept) return is_dropped(99, 1234567, (uint64_t)((head * s + i) * s + j), a->c->p);
    int64_t word = ((head * ((s + 63) / 64) + j / 64) * s + i) * 2 + (j >> 2 & 1), bit = 4 * (j % 64 / 8) + j % 4;
    return (int)a->kept[word * 4 + bit / 8] >> (bit % 8) & 1;
}

/* One head of one sequence, in f64; differences of o and of the gradients. */
static void check_head(const attention_data *a, int b, int h, difference *eo, difference eg[3])
{
    int s = a->c->length, d = a->c->depth, live = a->length, row = 3 * HEADS * d;
    double keep = a->c->p > 0 ? 1 / (1 - a->c->p) : 1, scale = 1 / sqrt(d);
    double *p = calloc((size_t)s * (size_t)s, sizeof *p), *gone = calloc((size_t)s * (size_t)s, sizeof *gone);
    double *to = calloc((size_t)(4 * s * d), sizeof *to), *o = to, *g[3] = {to + s * d, to + 2 * s * d, to + 3 * s * d};
    const double *q = a->qkv + (int64_t)b * s * row + h * d, *k = q + HEADS * d, *v = k + HEADS * d;
    const double *d_o = a->d_o + (int64_t)b * s * HEADS * d + h * d;
    for (int i = 0; i < live; i++) {
        double total = 0, delta = 0;
        int seen = a->c->causal ? i + 1 : live;
        for (int j = 0; j < seen; j++) {
            double dot = 0;
            for (int c = 0; c < d; c++) dot += q[i * row + c] * k[j * row + c];
            total += p[i * s + j] = exp(dot * scale);
            gone[i * s + j] = was_dropped(a, b, h, i, j) ? 0 : keep;
        }
        for (int j = 0; j < seen; j++) {
            p[i * s + j] /= total;
            for (int c = 0; c < d; c++) o[i * d + c] += p[i * s + j] * gone[i * s + j] * v[j * row + c];
        }
        for (int c = 0; c < d; c++) delta += o[i * d + c] * d_o[(int64_t)i * HEADS * d + c];
        for (int j = 0; j < seen; j++) {
            double dp = 0;
            for (int c = 0; c < d; c++) dp += d_o[(int64_t)i * HEADS * d + c] * v[j * row + c];
            double ds = p[i * s + j] * (dp * gone[i * s + j] - delta) * scale;
            for (int c = 0; c < d; c++) {
                g[0][i * d + c] += ds * k[j * row + c];
                g[1][j * d + c] += ds * q[i * row + c];
                g[2][j * d + c] += p[i * s + j] * gone[i * s + j] * d_o[(int64_t)i * HEADS * d + c];
            }
        }
    }
    for (int i = 0; i < s; i++)
        for (int c = 0; c < d; c++) {
            compare(eo, a->o[((int64_t)b * s + i) * HEADS * d + h * d + c], o[i * d + c]);
            for (int part = 0; part < 3; part++)
                compare(&eg[part], a->grad[((int64_t)b * s + i) * row + (part * HEADS + h) * d + c],
                        g[part][i * d + c]);
        }
    free(p), free(gone), free(to);
}

/* As many scores are dropped as should be, within five standard deviations. */
static void check_share(const double *bytes, int64_t n, double p)
{
    double set = 0;
    for (int64_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) set += (int)bytes[i] >> bit & 1;
    double all = 8 * (double)n;
    report("share of dropped scores", fabs(set / all - p), 5 * sqrt(p * (1 - p) / all) + 1.0 / 65536, NULL, 0);
}

static void check_attention(attention_case c)
{
    char what[80], name[60];
    tensor qkv = empty(c.type, 2, c.batch * c.length, 3 * HEADS * c.depth),
           grad = empty(c.type, 2, c.batch * c.length, 3 * HEADS * c.depth);
    tensor o = empty(c.type, 2, c.batch * c.length, HEADS * c.depth),
           d_o = empty(c.type, 2, c.batch * c.length, HEADS * c.depth);
    tensor lse = empty(LS_F32, 3, c.batch, HEADS, c.length), lengths = empty(LS_I64, 1, c.batch);
    tensor kept = empty(LS_U8, 4, c.batch, HEADS, c.length, (c.length + 63) / 64 * 8);
    fill(&qkv, 0, 1), fill(&d_o, 0, 1);
    lengths.here = malloc((size_t)c.batch * sizeof(double));
    for (int b = 0; b < c.batch; b++)
        lengths.here[b] = b == 1 ? 0 : b == 0 ? c.length : c.length / 4 + (double)any_of(3 * c.length / 4);
    set(&lengths);
    if (c.lengths) { /* what lies behind a sequence is never read */
        for (int b = 0; b < c.batch; b++)
            for (int64_t i = (int64_t)lengths.here[b] * 3 * HEADS * c.depth;
                 i < (int64_t)c.length * 3 * HEADS * c.depth; i++)
                if (i % 97 == 0) qkv.here[(int64_t)b * c.length * 3 * HEADS * c.depth + i] = NAN;
        if (c.type != LS_F16) set(&qkv);
    }
    ls_operand q = heads_of(&qkv, 3, 0, c.batch, c.length, c.depth),
               k = heads_of(&qkv, 3, 1, c.batch, c.length, c.depth);
    ls_operand v = heads_of(&qkv, 3, 2, c.batch, c.length, c.depth),
               out = heads_of(&o, 1, 0, c.batch, c.length, c.depth);
    ls_operand dq = heads_of(&grad, 3, 0, c.batch, c.length, c.depth),
               dk = heads_of(&grad, 3, 1, c.batch, c.length, c.depth);
    ls_operand dv = heads_of(&grad, 3, 2, c.batch, c.length, c.depth),
               dout = heads_of(&d_o, 1, 0, c.batch, c.length, c.depth);
    ls_call call = {.op = LS_OP_attention,
                    .n_in = 5,
                    .n_out = 3,
                    .in = {&q, &k, &v, NULL, c.lengths ? &lengths.x : NULL},
                    .out = {&out, &lse.x, c.p > 0 ? &kept.x : NULL}};
    call.attrs.attention.scale = 1 / sqrt(c.depth), call.attrs.attention.dropout = c.p;
    call.attrs.attention.seed = 99, call.attrs.attention.offset = 1234567, call.attrs.attention.causal = c.causal;
    ls_call back = {
        .op = LS_OP_attention_grad,
        .n_in = 9,
        .n_out = 3,
        .in = {&dout, &q, &k, &v, &out, &lse.x, NULL, c.p > 0 ? &kept.x : NULL, c.lengths ? &lengths.x : NULL},
        .out = {&dq, &dk, &dv},
        .attrs = call.attrs};
    run(&call);
    run(&back);
    bool fast = c.type != LS_F32 && c.depth <= 128 && c.depth % 8 == 0;
    double *got = read_back(&o), *got_grad = read_back(&grad), *bits = fast && c.p > 0 ? read_back(&kept) : NULL;
    difference eo = {0}, eg[3] = {{0}};
    static const int heads[3][2] = {{0, 0}, {1, 7}, {2, 15}};
    for (int i = 0; i < 3; i++) {
        int length = c.lengths ? (int)lengths.here[heads[i][0]] : c.length;
        attention_data a = {&c, qkv.here, d_o.here, got, got_grad, bits, length};
        check_head(&a, heads[i][0], heads[i][1], &eo, eg);
    }
    for (int i = 0; i < 3; i++) { /* the same bits every time */
        poison(&grad), poison(&o), poison(&kept);
        run(&call);
        run(&back);
        double *again = read_back(&grad);
        if (memcmp(again, got_grad, (size_t)grad.n * sizeof(double))) eg[0].most = NAN;
        free(again);
    }
    snprintf(name, sizeof name, "attention %dx%dx%dx%d %s%s%s%s", c.batch, HEADS, c.length, c.depth,
             c.type == LS_BF16  ? "bf16"
             : c.type == LS_F16 ? "f16"
                                : "f32",
             c.p > 0 ? " dropout" : "", c.lengths ? " lengths" : "", c.causal ? " causal" : "");
    double limit = c.type == LS_F32 ? 1e-5 : 1e-2;
    snprintf(what, sizeof what, "%s", name);
    report(what, relative(eo), limit, &call, c.forward_us);
    snprintf(what, sizeof what, "%s back", name);
    report(what, fmax(relative(eg[0]), fmax(relative(eg[1]), relative(eg[2]))), limit, &back, c.backward_us);
    check_bias(name, &back, &grad, limit);
    if (bits && !c.lengths && !c.causal && c.length % 64 == 0) check_share(bits, kept.n, c.p);
    free(got), free(got_grad), free(bits);
    tensor *all[] = {&qkv, &grad, &o, &d_o, &lse, &lengths, &kept};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) drop(all[i]);
}

int main(void)
{
    open_gpu();
    check_linear("qkv bf16", WORDS, 3 * WIDTH, WIDTH, LS_BF16, false, 42, 42 + 41 + 7);
    check_linear("projection bf16", WORDS, WIDTH, WIDTH, LS_BF16, false, 17, 17 + 16 + 3);
    check_linear("ffn1 with GELU bf16", WORDS, 4 * WIDTH, WIDTH, LS_BF16, true, 53 + 21, 56 + 53 + 38);
    check_linear("ffn2 bf16", WORDS, WIDTH, 4 * WIDTH, LS_BF16, false, 55, 53 + 52 + 3);
    check_linear("ffn1 with GELU f16", 256, 512, 128, LS_F16, true, 0, 0);
    check_linear("odd f32", 77, 131, 65, LS_F32, true, 0, 0);
    check_linear("odd bf16", 77, 131, 65, LS_BF16, true, 0, 0);
    check_norm(WORDS, WIDTH, LS_BF16, 0, 13.6, 20.8);
    check_norm(4 * WORDS, WIDTH, LS_BF16, 0, 42, 58);
    check_norm(333, 768, LS_F32, 0, 0, 0);
    check_norm(333, 768, LS_BF16, 2, 0, 0); /* a block per row forward, a warp backward */
    check_norm(50, 1100, LS_F16, 0, 0, 0);
    check_batch_sum(BATCH, LENGTH, WIDTH);
    check_batch_sum(13, 1, 200001);
    check_optimisers(335 * 1000 * 1000 / 8, 2430.0 / 8, 300.0 / 8);
    check_optimisers(1000003, 0, 0);
    check_adaptive("RMSprop, f32 with a bf16 copy", LS_OP_rmsprop_step, false, 1000003);
    check_adaptive("RMSprop with momentum", LS_OP_rmsprop_step, true, 1000003);
    check_adaptive("centered RMSprop", LS_OP_centered_rmsprop_step, false, 1000003);
    check_adaptive("centered RMSprop with momentum", LS_OP_centered_rmsprop_step, true, 1000003);
    check_adaptive("Adagrad, f32 with a bf16 copy", LS_OP_adagrad_step, false, 1000003);
    check_attention((attention_case){12, 384, 64, LS_BF16, 0, false, false, 28, 63});
    check_attention((attention_case){12, 384, 64, LS_BF16, 0.1, false, false, 44, 69});
    check_attention((attention_case){12, 384, 64, LS_BF16, 0.1, true, false, 28, 57});
    check_attention((attention_case){3, 384, 64, LS_F16, 0.1, false, false, 0, 0});
    check_attention((attention_case){3, 512, 64, LS_BF16, 0.1, true, true, 0, 0});
    check_attention((attention_case){3, 1000, 64, LS_BF16, 0, false, true, 0, 0});
    check_attention((attention_case){3, 200, 64, LS_BF16, 0.2, true, false, 0, 0});
    check_attention((attention_case){3, 130, 64, LS_BF16, 0.2, true, false, 0, 0});
    check_attention((attention_case){3, 357, 64, LS_BF16, 0.1, true, false, 0, 0});
    check_attention((attention_case){3, 90, 40, LS_F32, 0.2, true, true, 0, 0});
    check_attention((attention_case){12, 384, 32, LS_BF16, 0.1, false, false, 0, 0});
    check_attention((attention_case){3, 90, 32, LS_BF16, 0.2, true, false, 0, 0});
    check_attention((attention_case){3, 384, 32, LS_F16, 0.2, true, true, 0, 0});
    check_attention((attention_case){3, 200, 40, LS_BF16, 0.2, true, true, 0, 0});
    check_attention((attention_case){3, 200, 48, LS_F16, 0, false, false, 0, 0});
    check_attention((attention_case){12, 384, 128, LS_BF16, 0.1, false, false, 0, 0});
    check_attention((attention_case){3, 200, 128, LS_F16, 0.2, true, false, 0, 0});
    check_attention((attention_case){3, 512, 128, LS_BF16, 0, false, true, 0, 0});
    check_attention((attention_case){3, 130, 96, LS_BF16, 0.1, true, true, 0, 0});
    check_attention((attention_case){3, 90, 36, LS_BF16, 0.2, true, false, 0, 0});
    check_attention((attention_case){12, 384, 64, LS_F32, 0.1, false, false, 0, 0});
    gpu->stream_destroy(device, stream);
    gpu->close(device);
    printf(mistakes ? "%d WRONG\n" : "all right\n", mistakes);
    return mistakes ? 1 : 0;
}
