/* conv.c - conv2d and its gradients against plain loops in double: strides, padding, dilation, groups, depthwise, both
 * memory orders of images and weights, all types, every ISA, one worker and two; and packed weights. */
#include "base/config.h"
#include "base/cpus.h"
#include "base/memory.h"
#include "operands.h"

#include <sys/mman.h>
#include <unistd.h>

static const int nchw[] = {0, 1, 2, 3}, nhwc[] = {0, 2, 3, 1};

typedef struct conv_case {
    int64_t n, c, o, h, w, groups;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
} conv_case;

static const conv_case cases[] = {
    {2, 3, 5, 9, 10, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},   /* few channels: kernel rows joined */
    {1, 3, 8, 15, 13, 1, {7, 7}, {2, 2}, {3, 3}, {1, 1}},  /* the stem */
    {2, 20, 17, 6, 7, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},  /* channels not a multiple of anything */
    {1, 16, 24, 8, 9, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},  /* phases */
    {1, 18, 16, 7, 7, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},  /* 1x1 */
    {2, 16, 19, 7, 8, 1, {1, 1}, {2, 2}, {0, 0}, {1, 1}},  /* 1x1 that skips pixels: phases without taps */
    {1, 17, 16, 9, 11, 1, {3, 2}, {1, 2}, {2, 1}, {2, 3}}, /* dilation, all sides different */
    {1, 16, 16, 11, 9, 1, {3, 3}, {2, 3}, {2, 2}, {2, 2}}, /* stride and dilation with a common factor */
    {2, 12, 18, 6, 6, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}},  /* groups */
    {1, 6, 12, 6, 6, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}},   /* two outputs per channel */
    {2, 37, 37, 7, 6, 37, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, /* depthwise */
    {1, 20, 20, 9, 9, 20, {5, 3}, {2, 2}, {2, 1}, {1, 2}}, /* depthwise with everything */
    {1, 4, 4, 3, 3, 1, {3, 3}, {1, 1}, {3, 3}, {1, 1}},    /* padding beyond the kernel: rows of nothing */
    {0, 4, 4, 3, 3, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},    /* no images */
};

typedef struct conv_tensors {
    const conv_case *what;
    int64_t out[2];
    operand x, w, y, bias;
} conv_tensors;

static conv_tensors conv_new(const conv_case *what, ls_dtype type, ls_dtype w_type, ls_dtype y_type, int orders)
{
    conv_tensors t = {.what = what};
    for (int d = 0; d < 2; d++) {
        int64_t span = what->dilation[d] * (what->kernel[d] - 1) + 1, in = d ? what->w : what->h;
        t.out[d] = (in + 2 * what->padding[d] - span) / what->stride[d] + 1;
    }
    t.x = operand_coarse(type, LS_SHAPE(what->n, what->c, what->h, what->w), orders & 1 ? nchw : nhwc, 1);
    t.w = operand_coarse(w_type, LS_SHAPE(what->o, what->c / what->groups, what->kernel[0], what->kernel[1]),
                         orders & 2 ? nchw : nhwc, 1);
    t.y = operand_coarse(y_type, LS_SHAPE(what->n, what->o, t.out[0], t.out[1]), orders & 4 ? nchw : nhwc, 1);
    t.bias = operand_coarse(LS_F32, LS_SHAPE(what->o), (int[]){0}, 1 + (orders & 1));
    return t;
}

static void conv_free(conv_tensors *t)
{
    operand_free(&t->x);
    operand_free(&t->w);
    operand_free(&t->y);
    operand_free(&t->bias);
}

/* Calls `visit` for every product of the convolution, with positions in x, w and y. */
static void each_product(const conv_tensors *t, void (*visit)(void *, int64_t x, int64_t w, int64_t y), void *arg)
{
    const conv_case *k = t->what;
    int64_t group_c = k->c / k->groups, group_o = k->o / k->groups;
    for (int64_t n = 0; n < k->n; n++)
        for (int64_t o = 0; o < k->o; o++)
            for (int64_t i = 0; i < t->out[0]; i++)
                for (int64_t j = 0; j < t->out[1]; j++)
                    for (int64_t kh = 0; kh < k->kernel[0]; kh++)
                        for (int64_t kw = 0; kw < k->kernel[1]; kw++) {
                            int64_t h = i * k->stride[0] - k->padding[0] + kh * k->dilation[0];
                            int64_t w = j * k->stride[1] - k->padding[1] + kw * k->dilation[1];
                            if (h < 0 || h >= k->h || w < 0 || w >= k->w) continue;
                            for (int64_t c = 0; c < group_c; c++)
                                visit(arg, offset_at(&t->x.view, n, o / group_o * group_c + c, h, w),
                                      offset_at(&t->w.view, o, c, kh, kw), offset_at(&t->y.view, n, o, i, j));
                        }
}

/* The expected value of one of the three tensors, given the other two; and the magnitude of what was summed, for
 * tolerances. */
typedef struct expectation {
    const conv_tensors *t;
    int which; /* 0: y, 1: x, 2: w */
    double *sum, *size;
} expectation;

static void add_product(void *arg, int64_t x, int64_t w, int64_t y)
{
    expectation *e = arg;
    const ls_operand *px = &e->t->x.view, *pw = &e->t->w.view, *py = &e->t->y.view;
    double term = e->which == 0   ? get_at(px, x) * get_at(pw, w)
                  : e->which == 1 ? get_at(py, y) * get_at(pw, w)
                                  : get_at(px, x) * get_at(py, y);
    int64_t at = e->which == 0 ? y : e->which == 1 ? x : w;
    e->sum[at] += term;
    e->size[at] += fabs(term);
}

static ls_window window_of(const conv_case *k)
{
    return (ls_window){{k->kernel[0], k->kernel[1]},
                       {k->stride[0], k->stride[1]},
                       {k->padding[0], k->padding[1]},
                       {k->dilation[0], k->dilation[1]},
                       k->groups};
}

static const ls_opcode ops[] = {LS_OP_conv2d, LS_OP_conv2d_dinput, LS_OP_conv2d_dweight};

static void check_conv(conv_tensors *t, int which, ls_dtype compute, bool accumulate, bool has_bias)
{
    const ls_operand *out = which == 0 ? &t->y.view : which == 1 ? &t->x.view : &t->w.view;
    const ls_operand *first = which == 0 ? &t->x.view : &t->y.view, *second = which == 2 ? &t->x.view : &t->w.view;
    int64_t count = out->dim[0] * out->dim[1] * out->dim[2] * out->dim[3], n = count ? 1 : 0;
    for (int d = 0; d < 4 && count; d++) n += (out->dim[d] - 1) * out->stride[d]; /* with gaps, which must not change */
    expectation e = {t, which, calloc((size_t)n + 1, sizeof(double)), calloc((size_t)n + 1, sizeof(double))};
    for (int64_t i = 0; i < n; i++) e.sum[i] = get_at(out, i);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = offset_of(out, i), o = i / (out->dim[2] * out->dim[3]) % out->dim[1];
        if (!accumulate) e.sum[at] = 0;
        if (has_bias) e.sum[at] += get_at(&t->bias.view, o * t->bias.view.stride[0]);
        e.size[at] = 1 + fabs(e.sum[at]);
    }
    each_product(t, add_product, &e);
    const conv_case *k = t->what;
    ls_call call = {.op = ops[which],
                    .n_in = which == 0 ? 3 : 2,
                    .n_out = 1,
                    .in = {first, second, has_bias ? &t->bias.view : NULL},
                    .out = {out}};
    call.attrs.conv.window = window_of(k);
    call.attrs.conv.accumulate = accumulate;
    call.attrs.conv.compute = compute;
    run(&call);
    double unit = out->dtype == LS_BF16 ? 0x1p-8 : out->dtype == LS_F16 ? 0x1p-11 : 0;
    unit += compute == LS_F64 && out->dtype == LS_F64 ? 1e-14 : 2e-6;
    for (int64_t i = 0; i < n; i++) {
        double got = get_at(out, i);
        CHECK_MSG(fabs(got - e.sum[i]) <= unit * e.size[i], "case %d, tensor %d: element %d is %g, not %g",
                  (int)(k - cases), which, (int)i, got, e.sum[i]);
    }
    free(e.sum);
    free(e.size);
}

/* With NaN. */
static void fill_scratch(void *arg, ls_worker worker)
{
    const size_t bytes = 256 << 10;
    (void)arg;
    for (int slot = 0; slot < LS_SCRATCH_LASTING; slot++) memset(ls_scratch(worker, slot, bytes), 0xff, bytes);
}

/* A copy of a tensor that memory which cannot be read follows. */
typedef struct fenced {
    ls_operand *view;
    void *own;
    char *pages;
    size_t bytes;
} fenced;

static fenced fence(ls_operand *view)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)numel(view) * ls_dtype_size(view->dtype);
    size_t room = (bytes + page - 1) / page * page;
    fenced f = {view, view->data, NULL, room + page};
    f.pages = mmap(NULL, f.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(f.pages != MAP_FAILED && mprotect(f.pages + room, page, PROT_NONE) == 0);
    view->data = memcpy(f.pages + room - bytes, f.own, bytes);
    return f;
}

static void unfence(fenced f)
{
    f.view->data = f.own;
    munmap(f.pages, f.bytes);
}

static void all_cases_in_all_orders(void)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int orders = 0; orders < 8; orders++)
            for (int which = 0; which < 3; which++) {
                conv_tensors t = conv_new(&cases[c], LS_F32, LS_F32, LS_F32, orders);
                check_conv(&t, which, LS_F32, orders & 1, which == 0 && orders & 2);
                conv_free(&t);
            }
}

static void all_types(void)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int type = 0; type < 4; type++)
            for (int which = 0; which < 3; which++) {
                ls_dtype half = float_types[type];
                conv_tensors t = conv_new(&cases[c], half, half, half, 2 * (type & 1));
                check_conv(&t, which, half, false, false);
                conv_free(&t);
                t = conv_new(&cases[c], half, LS_F32, half, 5);
                check_conv(&t, which, half, true, which == 0);
                conv_free(&t);
            }
}

/* Enough pixels for several tasks, blocks of k and parts of sums. */
static void larger_images(void)
{
    static const conv_case large[] = {{1, 16, 16, 48, 48, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                      {1, 128, 20, 9, 9, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                      {2, 20, 36, 42, 43, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                      {3, 28, 30, 34, 35, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                      {1, 150, 136, 10, 10, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, /* blocks of weights */
                                      {1, 260, 690, 4, 5, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},   /* the same */
                                      {1, 140, 130, 12, 13, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                      {1, 3, 32, 40, 50, 1, {7, 7}, {2, 2}, {3, 3}, {1, 1}}};
    for (size_t c = 0; c < sizeof large / sizeof *large; c++)
        for (int which = 0; which < 3; which++) {
            conv_tensors t = conv_new(&large[c], LS_BF16, LS_F32, LS_BF16, 2);
            check_conv(&t, which, LS_BF16, false, false);
            conv_free(&t);
        }
}

/* Pixels multiplied in place: whole images and bands of one, borders of every width, kernel rows as one line, and rows
 * of points that end in the middle of a tile or are whole runs. */
static void pixels_in_place(void)
{
    static const conv_case direct[] = {
        {3, 32, 40, 19, 17, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, {2, 64, 33, 45, 22, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        {1, 32, 32, 30, 31, 1, {3, 3}, {1, 1}, {2, 2}, {2, 2}}, {5, 64, 100, 7, 7, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
        {2, 32, 64, 12, 41, 1, {5, 2}, {3, 1}, {0, 3}, {1, 1}}, {2, 64, 64, 13, 12, 2, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {2, 8, 32, 33, 35, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},  {3, 32, 40, 9, 14, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {1, 32, 32, 40, 28, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, {2, 32, 33, 14, 27, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        {1, 3, 64, 23, 30, 1, {7, 7}, {2, 2}, {3, 3}, {1, 1}},  {3, 256, 64, 9, 7, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}}};
    for (size_t c = 0; c < sizeof direct / sizeof *direct; c++)
        for (int which = 0; which < 3; which++)
            for (int variant = 0; variant < 4; variant++) {
                ls_dtype type = variant & 1 ? LS_BF16 : LS_F32;
                conv_tensors t = conv_new(&direct[c], type, LS_F32, type, 2);
                check_conv(&t, which, type, variant & 2, which == 0 && variant & 2);
                conv_free(&t);
            }
}

/* Pixels of one tap that may be packed, for kernels of large products: borders, strides, groups, and a batch that is
 * too small for that. */
static void large_pixels_of_one_tap(void)
{
    static const conv_case packed[] = {{2, 130, 140, 9, 8, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                       {3, 130, 129, 12, 11, 1, {1, 1}, {2, 2}, {1, 1}, {1, 1}},
                                       {1, 257, 260, 12, 11, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                       {2, 260, 280, 9, 8, 2, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                       {1, 257, 260, 5, 5, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}}};
    for (size_t c = 0; c < sizeof packed / sizeof *packed; c++)
        for (int which = 0; which < 3; which++) {
            bool more = c % 2; /* added to what is there, and with a bias */
            conv_tensors t = conv_new(&packed[c], LS_F32, LS_F32, LS_F32, 2);
            check_conv(&t, which, LS_F32, more, which == 0 && more);
            conv_free(&t);
        }
}

/* Move all numbers of a tensor to or from `numbers`, in the order of its dimensions. */
static void move_numbers(const ls_operand *o, double *numbers, bool back)
{
    for (int64_t n = 0; n < numel(o); n++) {
        int64_t offset = 0;
        for (int64_t d = o->ndim - 1, left = n; d >= 0; left /= o->dim[d--]) offset += left % o->dim[d] * o->stride[d];
        if (back) set_at(o, offset, numbers[n]);
        else numbers[n] = get_at(o, offset);
    }
}

/* Pixels at distances at which they drive each other out of a small L1: spread there, and packed where there are many
 * columns; images of fewer points than a tile has, groups, copies. L1 does not change a bit. */
static void pixels_that_meet_in_l1(void)
{
    static const conv_case some[] = {{2, 1024, 40, 9, 13, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                     {1, 1024, 33, 2, 3, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                     {1, 2032, 34, 3, 9, 2, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                     {1, 2048, 34, 3, 9, 2, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                     {2, 35, 1024, 3, 5, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                     {1, 1024, 770, 1, 3, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                     {1, 512, 33, 3, 12, 1, {1, 2}, {1, 2}, {0, 1}, {1, 1}}};
    const size_t count = sizeof some / sizeof *some;
    for (size_t c = 0; c < count; c++)
        for (int variant = 0; variant < (c + 1 == count ? 8 : 4); variant++) {
            ls_dtype type = variant & 4 ? LS_BF16 : LS_F32;
            int which = variant & 1;
            conv_tensors t = conv_new(&some[c], type, LS_F32, type, 2);
            const ls_operand *out = which ? &t.x.view : &t.y.view;
            size_t bytes = (size_t)numel(out) * sizeof(double);
            double *before = malloc(bytes), *small = malloc(bytes), *large = malloc(bytes);
            move_numbers(out, before, false);
            ls_cpus_pretend_l1(32 << 10);
            check_conv(&t, which, type, variant & 2, !which && variant & 2);
            move_numbers(out, small, false);
            move_numbers(out, before, true);
            ls_cpus_pretend_l1(48 << 10);
            check_conv(&t, which, type, variant & 2, !which && variant & 2);
            move_numbers(out, large, false);
            CHECK(!memcmp(small, large, bytes));
            ls_cpus_pretend_l1(-1);
            free(before);
            free(small);
            free(large);
            conv_free(&t);
        }
}

/* Products of terms: images of odd sizes and of one row, borders of every width and of none, channels that are not
 * whole vectors or panels, several blocks of tiles and strips of columns, parts of tiles, groups; kernels of other
 * sizes of which a phase has 3 x 3 taps; strides of two, whose last tiles may exist in part, and of two in one
 * dimension only. Nothing beyond the images is read, and nothing that was left in memory is seen. */
static void products_of_terms(void)
{
    static const conv_case some[] = {{2, 32, 40, 9, 7, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {1, 37, 35, 6, 10, 1, {3, 3}, {1, 1}, {0, 0}, {1, 1}},
                                     {3, 33, 90, 1, 20, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {1, 130, 32, 8, 8, 1, {3, 3}, {1, 1}, {2, 0}, {1, 1}},
                                     {2, 64, 66, 5, 6, 2, {3, 3}, {1, 1}, {1, 2}, {1, 1}},
                                     {1, 32, 32, 26, 27, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {1, 32, 32, 16, 14, 1, {5, 5}, {2, 2}, {2, 2}, {1, 1}},
                                     {1, 32, 36, 12, 11, 1, {3, 3}, {2, 2}, {2, 2}, {2, 2}},
                                     {40, 40, 34, 3, 4, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {150, 32, 33, 4, 3, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {2, 32, 40, 8, 26, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                     {1, 37, 35, 9, 14, 1, {3, 3}, {2, 2}, {0, 0}, {1, 1}},
                                     {3, 33, 90, 1, 24, 1, {3, 3}, {2, 2}, {2, 2}, {1, 1}},
                                     {1, 130, 32, 7, 9, 1, {3, 3}, {2, 2}, {1, 2}, {1, 1}},
                                     {2, 64, 66, 8, 7, 2, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                     {1, 32, 32, 54, 53, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                     {40, 40, 34, 4, 3, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                     {1, 32, 33, 8, 8, 1, {3, 3}, {2, 1}, {1, 1}, {1, 1}},
                                     {1, 33, 32, 8, 9, 1, {3, 3}, {1, 2}, {1, 0}, {1, 1}},
                                     {17, 32, 33, 15, 16, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}}};
    for (size_t c = 0; c < sizeof some / sizeof *some; c++)
        for (int which = 0; which < 3; which++) {
            int orders = (3 * (int)c + which) % 8;
            conv_tensors t = conv_new(&some[c], LS_F32, LS_F32, LS_F32, orders);
            fenced x = fence(&t.x.view), w = fence(&t.w.view), y = fence(&t.y.view);
            ls_parallel(fill_scratch, NULL, ls_parallel_width());
            check_conv(&t, which, LS_F32, orders & 1, which == 0 && orders & 2);
            unfence(x);
            unfence(w);
            unfence(y);
            conv_free(&t);
        }
}

/* All three results of a case, with so many workers. The caller frees them. */
static void results_of(const conv_tensors *t, int workers, float *result[3])
{
    const conv_case *k = t->what;
    const ls_operand *view[] = {&t->y.view, &t->x.view, &t->w.view};
    ls_parallel_set_width(workers);
    for (int which = 0; which < 3; which++) {
        ls_operand out = *view[which];
        out.data = result[which] = malloc((size_t)numel(&out) * sizeof(float));
        ls_call call = {.op = ops[which], .n_in = which == 0 ? 3 : 2, .n_out = 1, .out = {&out}};
        call.in[0] = which == 0 ? &t->x.view : &t->y.view;
        call.in[1] = which == 2 ? &t->x.view : &t->w.view;
        call.attrs.conv.window = window_of(k);
        run(&call);
    }
    ls_parallel_set_width(0);
}

/* Neither on the number of workers, each of whom sums over parts of the tiles alone or, if these are three, together
 * with the others, nor, but for the gradient of the weights, on the other images of a batch. */
static void check_company(const conv_case *several)
{
    const int64_t before = several->n - 1; /* images before the last */
    conv_case last = *several;
    last.n = 1;
    conv_tensors t = conv_new(several, LS_F32, LS_F32, LS_F32, 0), of_last = t;
    const ls_operand *view[] = {&t.y.view, &t.x.view, &t.w.view};
    float *one[3], *more[3], *alone[3];
    results_of(&t, 1, one);
    for (int workers = 2; workers <= 4; workers++) {
        results_of(&t, workers, more);
        for (int which = 0; which < 3; which++) {
            CHECK(memcmp(one[which], more[which], (size_t)numel(view[which]) * sizeof(float)) == 0);
            free(more[which]);
        }
    }
    of_last.what = &last;
    of_last.x.view.dim[0] = of_last.y.view.dim[0] = 1;
    of_last.x.view.data = (float *)t.x.view.data + before * t.x.view.stride[0];
    of_last.y.view.data = (float *)t.y.view.data + before * t.y.view.stride[0];
    results_of(&of_last, 1, alone);
    for (int which = 0; which < 3; which++) {
        int64_t image = view[which]->stride[0];
        if (which < 2) CHECK(memcmp(one[which] + before * image, alone[which], (size_t)image * sizeof(float)) == 0);
        free(one[which]);
        free(alone[which]);
    }
    conv_free(&t);
}

static void products_of_terms_do_not_depend_on_company(void)
{
    check_company(&(conv_case){30, 33, 70, 15, 17, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
    check_company(&(conv_case){5, 33, 70, 16, 19, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}});
}

static void large_pixels_do_not_depend_on_company(void)
{
    check_company(&(conv_case){3, 257, 260, 13, 12, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}});
}

/* Does a convolution whose kernel is one tap copy the bits of the pixels that this tap sees? */
static bool copies(const conv_tensors *t, int64_t tap)
{
    const conv_case *k = t->what;
    float *result[3];
    bool same = true;
    results_of(t, 2, result);
    ls_operand y = t->y.view;
    y.data = result[0];
    for (int64_t i = 0; i < t->out[0] * t->out[1]; i++)
        for (int64_t c = 0; c < k->c; c++) {
            int64_t h = i / t->out[1], w = i % t->out[1];
            int64_t seen[] = {h * k->stride[0] - k->padding[0] + tap, w * k->stride[1] - k->padding[1] + tap};
            same = same && get_at(&y, offset_at(&y, 0, c, h, w)) ==
                               get_at(&t->x.view, offset_at(&t->x.view, 0, c, seen[0], seen[1]));
        }
    for (int i = 0; i < 3; i++) free(result[i]);
    return same;
}

/* Tap by tap, a kernel that copies pixels copies their bits, large ones beside small ones too. */
static void check_turned_off(const conv_case *copying, int64_t tap)
{
    conv_tensors t = conv_new(copying, LS_F32, LS_F32, LS_F32, 0);
    for (int64_t i = 0; i < numel(&t.x.view); i++) set_at(&t.x.view, i, i % 7 ? 1e-3 + 1e-6 * (double)i : 1e6);
    for (int64_t i = 0; i < numel(&t.w.view); i++) set_at(&t.w.view, i, 0);
    for (int64_t c = 0; c < copying->c; c++) set_at(&t.w.view, offset_at(&t.w.view, c, c, tap, tap), 1);
    for (int off = 0; off < 2; off++) {
        ls_parallel_stop();
        if (off) setenv("LOCKSTEP_WINOGRAD", "0", 1);
        else unsetenv("LOCKSTEP_WINOGRAD");
        ls_config_reload();
        CHECK(copies(&t, tap) == off);
    }
    unsetenv("LOCKSTEP_WINOGRAD");
    ls_parallel_stop();
    ls_config_reload();
    conv_free(&t);
}

static void products_of_terms_can_be_turned_off(void)
{
    check_turned_off(&(conv_case){1, 32, 32, 6, 6, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, 1);
    check_turned_off(&(conv_case){1, 32, 32, 9, 9, 1, {3, 3}, {2, 2}, {0, 0}, {1, 1}}, 0);
}

/* Weights from pixels in place: parts of the points, chunks of a part, blocks of weights, and channels that are not
 * whole panels, each of which counts once. */
static void weights_from_pixels_in_place(void)
{
    static const conv_case some[] = {{2, 33, 14, 50, 47, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {2, 96, 40, 50, 47, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                     {1, 70, 300, 9, 8, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {2, 35, 40, 14, 15, 1, {3, 2}, {2, 3}, {2, 1}, {2, 1}},
                                     {1, 32, 13, 2, 1, 1, {5, 5}, {1, 1}, {4, 4}, {2, 2}},
                                     /* few channels: numbers under a row of taps for one tile or several, outputs for
                                      * half a tile or several, parts that begin and end within images */
                                     {2, 3, 40, 45, 50, 1, {7, 7}, {2, 2}, {3, 3}, {1, 1}},
                                     {9, 3, 16, 28, 31, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {2, 3, 24, 28, 31, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                     {3, 15, 64, 12, 10, 1, {2, 3}, {2, 1}, {0, 2}, {2, 1}},
                                     {2, 24, 45, 20, 17, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                     {2, 1, 16, 3, 2, 1, {5, 5}, {1, 1}, {4, 4}, {1, 1}},
                                     {2, 7, 33, 13, 9, 1, {3, 1}, {1, 1}, {5, 0}, {3, 2}},
                                     {2, 3, 14, 21, 19, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                     {1, 2, 15, 9, 8, 1, {3, 2}, {1, 3}, {2, 1}, {2, 1}},
                                     {2, 5, 33, 14, 40, 1, {1, 4}, {1, 2}, {0, 2}, {1, 2}}};
    for (size_t c = 0; c < sizeof some / sizeof *some; c++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            conv_tensors t = conv_new(&some[c], LS_F32, LS_F32, LS_F32, 2);
            check_conv(&t, 2, LS_F32, accumulate, false);
            conv_free(&t);
        }
}

/* Points that end in the middle of a step of k: taps must not see what is beyond them in memory. */
static void nan_in_scratch_memory_is_not_seen(void)
{
    static const conv_case few[] = {{1, 32, 32, 5, 6, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                    {4, 31, 31, 5, 16, 1, {2, 2}, {1, 1}, {2, 2}, {2, 2}},
                                    {2, 64, 33, 5, 3, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
                                    {1, 40, 35, 9, 7, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}}};
    for (size_t c = 0; c < sizeof few / sizeof *few; c++)
        for (int which = 0; which < 3; which++) {
            conv_tensors t = conv_new(&few[c], LS_BF16, LS_F32, LS_BF16, 2);
            ls_parallel(fill_scratch, NULL, ls_parallel_width());
            check_conv(&t, which, LS_BF16, false, false);
            conv_free(&t);
        }
}

/* Weights of strided convolutions, whose taps see phases of x: sides that differ, phases without taps, strides and
 * dilations with a common factor, borders beyond a stride, several chunks and blocks of weights. */
static void weights_by_phases(void)
{
    static const conv_case strided[] = {
        {2, 32, 32, 30, 31, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}}, {3, 64, 32, 27, 28, 1, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
        {2, 30, 60, 25, 40, 1, {3, 3}, {1, 2}, {1, 1}, {1, 1}}, {1, 32, 31, 41, 26, 1, {5, 2}, {2, 1}, {0, 1}, {1, 2}},
        {1, 32, 64, 40, 41, 1, {3, 3}, {2, 2}, {2, 2}, {2, 2}}, {1, 62, 32, 44, 39, 1, {4, 5}, {2, 2}, {3, 0}, {1, 1}},
        {1, 32, 32, 64, 20, 1, {7, 1}, {4, 1}, {3, 0}, {1, 1}}, {1, 96, 192, 28, 28, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        {1, 32, 32, 40, 50, 1, {3, 3}, {1, 3}, {1, 1}, {1, 1}}, {1, 32, 32, 24, 26, 1, {3, 2}, {2, 2}, {1, 3}, {3, 3}}};
    for (size_t c = 0; c < sizeof strided / sizeof *strided; c++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            conv_tensors t = conv_new(&strided[c], LS_BF16, LS_F32, LS_BF16, 2);
            ls_parallel(fill_scratch, NULL, ls_parallel_width());
            check_conv(&t, 2, LS_BF16, accumulate, false);
            conv_free(&t);
        }
}

/* Images of one row that are cut out of longer ones: the next one does not follow. */
static void images_of_one_row_with_gaps(void)
{
    static const conv_case row = {3, 40, 36, 1, 8, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
    for (int variant = 0; variant < 12; variant++) {
        ls_dtype type = variant & 1 ? LS_BF16 : LS_F32;
        conv_tensors t = conv_new(&row, type, LS_F32, type, 2);
        operand *wide = variant & 2 ? &t.y : &t.x;
        int64_t channels = wide->view.dim[1];
        operand_free(wide);
        *wide = operand_coarse(type, LS_SHAPE(row.n, channels, row.h, row.w + 1), nhwc, 1);
        wide->view.dim[3] = row.w;
        check_conv(&t, variant / 4, type, false, false);
        wide->view.dim[3] = row.w + 1;
        conv_free(&t);
    }
}

/* One pixel that stands for all. */
static void images_of_the_same_pixel(void)
{
    static const conv_case same = {2, 40, 33, 5, 6, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
    for (int which = 0; which < 3; which += 2) {
        conv_tensors t = conv_new(&same, LS_F32, LS_F32, LS_F32, 2);
        ls_operand all = t.x.view;
        for (int d = 0; d < 4; d++) t.x.view.stride[d] = d == 1;
        check_conv(&t, which, LS_F32, false, false);
        t.x.view = all;
        conv_free(&t);
    }
}

/* Nothing is read after the last channel of the last group. */
static void groups_end_with_the_image(void)
{
    static const conv_case grouped = {2, 64, 64, 5, 3, 2, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
    conv_tensors t = conv_new(&grouped, LS_BF16, LS_F32, LS_BF16, 2);
    fenced x = fence(&t.x.view);
    check_conv(&t, 0, LS_BF16, false, false);
    check_conv(&t, 2, LS_BF16, false, false);
    unfence(x);
    conv_free(&t);
}

/* Nor after the last pixel of either image, where panels of channels would exceed it. */
static void gradients_of_weights_end_with_the_images(void)
{
    static const conv_case odd[] = {{2, 45, 40, 5, 6, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                    {2, 3, 40, 5, 6, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}}};
    for (size_t c = 0; c < sizeof odd / sizeof *odd; c++) {
        conv_tensors t = conv_new(&odd[c], LS_F32, LS_F32, LS_F32, 2);
        fenced x = fence(&t.x.view), y = fence(&t.y.view);
        check_conv(&t, 2, LS_F32, false, false);
        check_conv(&t, 2, LS_F32, true, false);
        unfence(x);
        unfence(y);
        conv_free(&t);
    }
}

static void check_packed_weights(const conv_case *what, ls_dtype type)
{
    ls_derived derived = {0};
    conv_tensors t = conv_new(what, type, LS_F32, type, 2);
    t.w.view.derived = &derived;
    uint64_t calls = 0;
    for (int step = 0; step < 8; step++) {
        check_conv(&t, 0, type, false, false);
        check_conv(&t, 1, type, false, false);
        if (step == 3) calls = ls_sys_calls();
        if (step % 2 == 0) continue; /* used again: kept */
        for (int64_t i = 0; i < numel(&t.w.view); i += 7) set_at(&t.w.view, i, coarse_noise((uint64_t)step, i));
        derived.version++;
    }
    CHECK(ls_sys_calls() == calls);
    derived.release(derived.form);
    conv_free(&t);
}

static void packed_weights(void)
{
    static const conv_case by_terms[] = {{1, 32, 34, 6, 6, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                         {1, 32, 34, 8, 8, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}}};
    check_packed_weights(&cases[3], LS_BF16);
    check_packed_weights(&by_terms[0], LS_F32);
    check_packed_weights(&by_terms[1], LS_F32);
}

/* Weights that begin where others do, and have some of their taps: neither are terms taken for as many taps, nor these
 * for others. */
static void packed_weights_of_a_part(void)
{
    static const conv_case turns[] = {
        {1, 32, 34, 8, 8, 1, {5, 5}, {1, 1}, {0, 0}, {1, 1}}, {1, 32, 34, 8, 8, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
        {1, 32, 34, 8, 8, 1, {4, 4}, {1, 1}, {0, 0}, {1, 1}}, {1, 32, 34, 8, 8, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {1, 32, 34, 8, 8, 1, {2, 3}, {1, 1}, {0, 0}, {1, 1}}, {1, 32, 34, 8, 8, 1, {3, 2}, {1, 1}, {0, 0}, {1, 1}}};
    enum { TURNS = sizeof turns / sizeof *turns };
    ls_derived derived = {.version = 1};
    conv_tensors t[TURNS];
    for (int i = 0; i < TURNS; i++) t[i] = conv_new(&turns[i], LS_F32, LS_F32, LS_F32, 2);
    ls_operand whole = t[0].w.view;
    operand own[TURNS];
    for (int i = 0; i < TURNS; i++) own[i] = t[i].w;
    for (int step = 0; step < 3 * TURNS; step++) {
        conv_tensors *turn = &t[step % TURNS];
        turn->w.view = whole;
        for (int d = 2; d < 4; d++) turn->w.view.dim[d] = turn->what->kernel[d - 2];
        turn->w.view.derived = &derived;
        check_conv(turn, 0, LS_F32, false, false);
        check_conv(turn, 1, LS_F32, false, false);
    }
    derived.release(derived.form);
    for (int i = 0; i < TURNS; i++) {
        t[i].w = own[i];
        conv_free(&t[i]);
    }
}

/* The same weights with and without stride, by terms and by taps, in turn: none takes what another has packed. */
static void packed_weights_of_several_strides(void)
{
    static const conv_case turns[] = {{1, 32, 34, 8, 8, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                      {1, 32, 34, 8, 8, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                      {1, 32, 34, 8, 8, 1, {3, 3}, {1, 2}, {1, 1}, {1, 1}}};
    enum { TURNS = sizeof turns / sizeof *turns };
    ls_derived derived = {0};
    conv_tensors t[TURNS];
    for (int i = 0; i < TURNS; i++) t[i] = conv_new(&turns[i], LS_F32, LS_F32, LS_F32, 2);
    operand own[TURNS];
    for (int i = 0; i < TURNS; i++) own[i] = t[i].w;
    own[0].view.derived = &derived;
    for (int i = 0; i < TURNS; i++) t[i].w = own[0];
    for (int step = 0; step < 3 * 2 * TURNS; step++) {
        check_conv(&t[step % TURNS], 0, LS_F32, false, false);
        check_conv(&t[step % TURNS], 1, LS_F32, false, false);
        if (step % (3 * TURNS) != 3 * TURNS - 1) continue; /* used again, and kept by all */
        for (int64_t i = 0; i < numel(&own[0].view); i += 7) set_at(&own[0].view, i, coarse_noise((uint64_t)step, i));
        derived.version++;
    }
    derived.release(derived.form);
    for (int i = 0; i < TURNS; i++) {
        t[i].w = own[i];
        conv_free(&t[i]);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_ISAS(all_cases_in_all_orders);
    CHECK_RUN_ISAS(all_types);
    CHECK_RUN_ISAS_SLOW(larger_images);
    CHECK_RUN_ISAS_SLOW(pixels_in_place);
    CHECK_RUN_ISAS_SLOW(large_pixels_of_one_tap);
    CHECK_RUN_ISAS_SLOW(large_pixels_do_not_depend_on_company);
    CHECK_RUN_ISAS(pixels_that_meet_in_l1);
    CHECK_RUN_ISAS_SLOW(products_of_terms);
    CHECK_RUN_ISAS(products_of_terms_do_not_depend_on_company);
    CHECK_RUN(products_of_terms_can_be_turned_off);
    CHECK_RUN_ISAS(weights_from_pixels_in_place);
    CHECK_RUN_ISAS(nan_in_scratch_memory_is_not_seen);
    CHECK_RUN_ISAS_SLOW(weights_by_phases);
    CHECK_RUN_ISAS(images_of_one_row_with_gaps);
    CHECK_RUN_ISAS(images_of_the_same_pixel);
    CHECK_RUN_ISAS(groups_end_with_the_image);
    CHECK_RUN_ISAS(gradients_of_weights_end_with_the_images);
    CHECK_RUN_ISAS(packed_weights);
    CHECK_RUN_ISAS(packed_weights_of_several_strides);
    CHECK_RUN_ISAS(packed_weights_of_a_part);
    return check_done();
}
