/* window.cu - pictures [N,C,H,W] whose pixels are each computed from a window of another picture: pooling, resizing and
 * their gradients.
 *
 * Along an axis, output o sees some adjacent inputs (every `dilation`-th, for maxima) with weights; a weight of a pixel
 * is the product of those along both axes. A gradient goes through the inputs: each gathers from the outputs that saw
 * it, in a fixed order.
 *
 * A block takes lines of the picture that is written, so that what depends on the row alone is computed once for many
 * pixels. Threads take eight channels of a pixel where they are adjacent in all operands, else one; of the gradient of
 * a maximum four pixels, since they look at the same outputs. */
#include "eight.cuh"

enum { THREADS = 256 };

/* ---- windows along one axis ---- */

typedef enum window_kind { WINDOW_POOL, WINDOW_ADAPTIVE, WINDOW_NEAREST, WINDOW_BILINEAR } window_kind;

/* Sizes are below 2^30, so that arithmetic of places fits into 32 bits. */
struct axis {
    int kind, in, out;
    int kernel, stride, padding, dilation; /* pools */
    bool count_padding;
    double step, shift; /* resizing: position of output o is step * (o + shift) - shift */
};

/* Inputs first, first + 1, ..., with the weight of the first and of each of the others. W: what is computed in. */
template <typename W> struct span {
    int first, count;
    W lead, rest;
};

static __device__ __forceinline__ int ceil_div(int a, int b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* Products of two sizes. */
static __device__ __forceinline__ int scaled(int a, int64_t times, int over)
{
    return (int)(a * times / over);
}
static __device__ __forceinline__ int scaled_up(int a, int64_t times, int over)
{
    return (int)((a * times + over - 1) / over);
}

static __device__ __forceinline__ double position(const axis &a, int o, double)
{
    return fma(a.step, (double)o + a.shift, -a.shift);
}
static __device__ __forceinline__ float position(const axis &a, int o, float)
{
    return fmaf((float)a.step, (float)o + (float)a.shift, -(float)a.shift);
}

/* A window may reach past the padding, where the caller rounded the output size up: that part never counts. */
template <typename W> static __device__ __forceinline__ span<W> pool_span(const axis &a, int o)
{
    int start = o * a.stride - a.padding, end = min(start + a.kernel, a.in + a.padding);
    int first = max(start, 0), last = min(end, a.in);
    W weight = (W)1 / (W)(a.count_padding ? end - start : last - first);
    return {first, max(last - first, 0), weight, weight};
}

/* Bins that tile the input; adjacent ones share an input where the sizes do not divide. */
template <typename W> static __device__ __forceinline__ span<W> adaptive_span(const axis &a, int o)
{
    int first = scaled(o, a.in, a.out), end = scaled_up(o + 1, a.in, a.out);
    W weight = (W)1 / (W)(end - first);
    return {first, end - first, weight, weight};
}

/* Sizes that stay the same or double are taken literally, even if the user's factor was not exactly 1 or 2. */
template <typename W> static __device__ __forceinline__ span<W> nearest_span(const axis &a, int o)
{
    int at = (int)floorf((float)position(a, o, (W)0));
    if (a.out == a.in) at = o;
    if (a.out == 2 * a.in) at = o / 2;
    return {min(at, a.in - 1), 1, 1, 0};
}

template <typename W> static __device__ __forceinline__ span<W> bilinear_span(const axis &a, int o)
{
    W at = a.in == a.out ? (W)o : max(position(a, o, (W)0), (W)0);
    int first = min((int)at, a.in - 1);
    W second = min(at - (W)first, (W)1);
    if (second == 0 || first == a.in - 1) return {first, 1, 1, 0};
    return {first, 2, 1 - second, second};
}

template <typename W> static __device__ __forceinline__ span<W> span_of(const axis &a, int o)
{
    switch (a.kind) {
    case WINDOW_POOL: return pool_span<W>(a, o);
    case WINDOW_ADAPTIVE: return adaptive_span<W>(a, o);
    case WINDOW_NEAREST: return nearest_span<W>(a, o);
    default: return bilinear_span<W>(a, o);
    }
}

/* The first output whose window begins at input i or later. */
template <typename W> static __device__ int first_from(const axis &a, int i)
{
    int low = 0, high = a.out;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (span_of<W>(a, middle).first < i) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Outputs [from, to) among which are all that see input i. */
template <typename W> static __device__ __forceinline__ void outputs_of(const axis &a, int i, int *from, int *to)
{
    switch (a.kind) {
    case WINDOW_POOL: {
        int at = i + a.padding, reach = (a.kernel - 1) * a.dilation;
        *from = max(ceil_div(at - reach, a.stride), 0);
        *to = min(at / a.stride + 1, a.out);
        break;
    }
    case WINDOW_ADAPTIVE:
        *from = scaled(i, a.out, a.in);
        *to = scaled_up(i + 1, a.out, a.in);
        break;
    default: *from = first_from<W>(a, i - 1); *to = first_from<W>(a, i + 1);
    }
}

/* ---- operands ---- */

/* Strides of a picture. */
struct strides {
    int64_t item, channel, row, column;
};

static strides strides_of(const ls_operand *x)
{
    strides s = {0, 0, 0, 0};
    if (x) s.item = x->stride[0], s.channel = x->stride[1], s.row = x->stride[2], s.column = x->stride[3];
    return s;
}

static __device__ __forceinline__ int64_t offset(const strides &s, int64_t item, int64_t channel, int64_t row,
                                                 int64_t column)
{
    return item * s.item + channel * s.channel + row * s.row + column * s.column;
}

/* y is made of x: forward, or dx of dy. `where`: positions of maxima, of the smaller picture. */
struct windows {
    axis down, across;
    const void *x;
    void *y;
    int32_t *where;
    strides of_x, of_y, of_where;
    int64_t items; /* of y, and the rest */
    int channels, height, width;
    bool channels_inside; /* threads beside each other take neighbouring channels */
};

/* What of y a thread works on: the upper left pixel of a square of SIDE x SIDE, and the first of GROUP channels. */
struct spot {
    int64_t item;
    int channel, row, column;
};

/* Squares beside and above each other. */
static __host__ __device__ __forceinline__ int squares(int pixels, int side)
{
    return (pixels + side - 1) / side;
}

/* A line: squares of one row, of all channels where they lie inside, else of one. */
template <int GROUP, int SIDE> static __host__ __device__ __forceinline__ int64_t lines_of(const windows &w)
{
    return w.items * squares(w.height, SIDE) * (w.channels_inside ? 1 : w.channels / GROUP);
}
template <int GROUP, int SIDE> static __host__ __device__ __forceinline__ int64_t line_length(const windows &w)
{
    return squares(w.width, SIDE) * (int64_t)(w.channels_inside ? w.channels / GROUP : 1);
}

template <int GROUP, int SIDE> static __device__ __forceinline__ spot line_start(const windows &w, int64_t line)
{
    int rows = squares(w.height, SIDE), groups = w.channels_inside ? 1 : w.channels / GROUP;
    spot s;
    s.row = (int)(line % rows) * SIDE, line /= rows;
    s.channel = (int)(line % groups) * GROUP;
    s.item = line / groups;
    s.column = 0;
    return s;
}

template <int GROUP, int SIDE> static __device__ __forceinline__ void along_line(const windows &w, unsigned i, spot *s)
{
    unsigned groups = (unsigned)(w.channels / GROUP), column = w.channels_inside ? i / groups : i;
    s->column = (int)column * SIDE;
    if (w.channels_inside) s->channel = (int)(i - column * groups) * GROUP;
}

/* One number or eight. */
template <typename T, int GROUP> struct numbers {
    eight<T> at;
    __device__ __forceinline__ void load(const T *from, bool there = true)
    {
        at.template load<true>(from, there ? 8 : 0);
    }
    __device__ __forceinline__ void store(T *to)
    {
        at.template store<true>(to, 8);
    }
};
template <typename T> struct numbers<T, 1> {
    struct {
        T element[1];
    } at;
    __device__ __forceinline__ void load(const T *from, bool there = true)
    {
        at.element[0] = there ? *from : as<T>(0.0f);
    }
    __device__ __forceinline__ void store(T *to)
    {
        *to = at.element[0];
    }
};

/* Lines of a block, and spots of a thread in a line. */
#define EACH_LINE(s, GROUP, SIDE)                                                                                      \
    for (int64_t line = blockIdx.x, lines = lines_of<GROUP, SIDE>(w); line < lines; line += gridDim.x)                 \
        if (spot s = line_start<GROUP, SIDE>(w, line); true)
#define EACH_SPOT(s, GROUP, SIDE)                                                                                      \
    for (unsigned i = threadIdx.x, length = (unsigned)line_length<GROUP, SIDE>(w); i < length; i += blockDim.x)        \
        if (along_line<GROUP, SIDE>(w, i, &s); true)

/* ---- sums ---- */

enum {
    TABLED = 512, /* columns that are computed once for all lines of a block */
    PAIR = 2,     /* rows, and columns, of inputs that are loaded at once */
};

/* What sees what across: spans of the outputs, and for gradients the outputs that see an input. */
template <typename W> struct across_table {
    span<W> output[TABLED];
    int2 input[TABLED]; /* from, to */
};

static __device__ __forceinline__ bool is_tabled(const axis &a)
{
    return a.in <= TABLED && a.out <= TABLED;
}

template <typename W>
static __device__ __forceinline__ void fill_table(const axis &a, bool inputs, across_table<W> *table)
{
    for (int o = threadIdx.x; o < a.out; o += blockDim.x) table->output[o] = span_of<W>(a, o);
    for (int i = threadIdx.x; inputs && i < a.in; i += blockDim.x)
        outputs_of<W>(a, i, &table->input[i].x, &table->input[i].y);
    __syncthreads();
}

template <typename T, int GROUP> __global__ void __launch_bounds__(THREADS) window_sum(windows w)
{
    typedef typename wide<T>::type W;
    __shared__ across_table<W> table;
    bool tabled = is_tabled(w.across);
    if (tabled) fill_table(w.across, false, &table);
    EACH_LINE(s, GROUP, 1)
    {
        span<W> down = span_of<W>(w.down, s.row);
        EACH_SPOT(s, GROUP, 1)
        {
            span<W> across = tabled ? table.output[s.column] : span_of<W>(w.across, s.column);
            const T *x = (const T *)w.x + offset(w.of_x, s.item, s.channel, down.first, across.first);
            W sum[GROUP] = {};
            int rows = across.count > PAIR ? 1 : PAIR; /* at once, so that inputs are added in their order */
            for (int top = 0; top < down.count; top += rows) {
                for (int left = 0; left < across.count; left += PAIR) {
                    numbers<T, GROUP> seen[PAIR * PAIR];
                    bool there[PAIR * PAIR];
#pragma unroll
                    for (int u = 0; u < PAIR * PAIR; u++) {
                        int r = top + u / PAIR, c = left + u % PAIR;
                        there[u] = u / PAIR < rows && r < down.count && c < across.count;
                        seen[u].load(x + r * w.of_x.row + c * w.of_x.column, there[u]);
                    }
#pragma unroll
                    for (int u = 0; u < PAIR * PAIR; u++) {
                        if (!there[u]) continue;
                        int r = top + u / PAIR, c = left + u % PAIR;
                        W weight = (r ? down.rest : down.lead) * (c ? across.rest : across.lead);
#pragma unroll
                        for (int k = 0; k < GROUP; k++) sum[k] += weight * as<W>(seen[u].at.element[k]);
                    }
                }
            }
            numbers<T, GROUP> y;
#pragma unroll
            for (int k = 0; k < GROUP; k++) y.at.element[k] = as<T>(sum[k]);
            y.store((T *)w.y + offset(w.of_y, s.item, s.channel, s.row, s.column));
        }
    }
}

template <typename T, int GROUP> __global__ void __launch_bounds__(THREADS) window_sum_grad(windows w)
{
    typedef typename wide<T>::type W;
    __shared__ across_table<W> table;
    bool tabled = is_tabled(w.across);
    if (tabled) fill_table(w.across, true, &table);
    EACH_LINE(s, GROUP, 1)
    {
        int top, bottom;
        outputs_of<W>(w.down, s.row, &top, &bottom);
        span<W> topmost = {};
        if (top < bottom) topmost = span_of<W>(w.down, top);
        EACH_SPOT(s, GROUP, 1)
        {
            int2 see_it;
            if (tabled) see_it = table.input[s.column];
            else outputs_of<W>(w.across, s.column, &see_it.x, &see_it.y);
            W sum[GROUP] = {};
            for (int row = top; row < bottom; row++) {
                span<W> down = row == top ? topmost : span_of<W>(w.down, row);
                int r = s.row - down.first;
                if (r < 0 || r >= down.count) continue;
                for (int column = see_it.x; column < see_it.y; column++) {
                    span<W> across = tabled ? table.output[column] : span_of<W>(w.across, column);
                    int c = s.column - across.first;
                    if (c < 0 || c >= across.count) continue;
                    W weight = (r ? down.rest : down.lead) * (c ? across.rest : across.lead);
                    numbers<T, GROUP> dy;
                    dy.load((const T *)w.x + offset(w.of_x, s.item, s.channel, row, column));
#pragma unroll
                    for (int k = 0; k < GROUP; k++) sum[k] += weight * as<W>(dy.at.element[k]);
                }
            }
            numbers<T, GROUP> dx;
#pragma unroll
            for (int k = 0; k < GROUP; k++) dx.at.element[k] = as<T>(sum[k]);
            dx.store((T *)w.y + offset(w.of_y, s.item, s.channel, s.row, s.column));
        }
    }
}

/* ---- maxima ---- */

enum { TOGETHER = 3, SIDE = 2 }; /* columns loaded at once; pixels of a gradient that a thread takes, squared */

/* NaN where one of them is. */
static __device__ __forceinline__ float larger(float a, float b)
{
    float larger_one;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger_one) : "f"(a), "f"(b));
    return larger_one;
}
static __device__ __forceinline__ double larger(double a, double b)
{
    return a > b || a != a ? a : b;
}

/* The largest so far, and WHERE it is: the first of equals; the last NaN where there is one. */
template <typename T, int GROUP, bool WHERE> struct maximum {
    typedef typename wide<T>::type W;
    W best[GROUP];
    int32_t at[GROUP]; /* of no use without WHERE */
    bool any;

    __device__ __forceinline__ maximum() : any(false)
    {
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            best[k] = -(W)INFINITY;
            if constexpr (WHERE) at[k] = -1;
        }
    }
    __device__ __forceinline__ void look_at(const numbers<T, GROUP> &x, int32_t here)
    {
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            W value = as<W>(x.at.element[k]);
            if constexpr (WHERE) {
                bool better = value > best[k] || value != value;
                at[k] = better || !any ? here : at[k];
                best[k] = better ? value : best[k];
            } else {
                best[k] = larger(value, best[k]);
            }
        }
        any = true;
    }
};

template <typename T, int GROUP, bool WHERE> __global__ void __launch_bounds__(THREADS, 4) window_max(windows w)
{
    EACH_LINE(s, GROUP, 1)
    {
        int top = s.row * w.down.stride - w.down.padding;
        EACH_SPOT(s, GROUP, 1)
        {
            int left = s.column * w.across.stride - w.across.padding;
            maximum<T, GROUP, WHERE> found;
            for (int r = 0; r < w.down.kernel; r++) {
                int row = top + r * w.down.dilation;
                if (row < 0 || row >= w.down.in) continue;
                const T *line_of_x = (const T *)w.x + offset(w.of_x, s.item, s.channel, row, 0);
                for (int c = 0; c < w.across.kernel; c += TOGETHER) {
                    numbers<T, GROUP> seen[TOGETHER];
                    bool there[TOGETHER];
#pragma unroll
                    for (int u = 0; u < TOGETHER; u++) {
                        int column = left + (c + u) * w.across.dilation;
                        there[u] = c + u < w.across.kernel && column >= 0 && column < w.across.in;
                        seen[u].load(line_of_x + column * w.of_x.column, there[u]);
                    }
#pragma unroll
                    for (int u = 0; u < TOGETHER; u++)
                        if (there[u]) found.look_at(seen[u], row * w.across.in + left + (c + u) * w.across.dilation);
                }
            }
            numbers<T, GROUP> y;
#pragma unroll
            for (int k = 0; k < GROUP; k++) y.at.element[k] = as<T>(found.best[k]);
            y.store((T *)w.y + offset(w.of_y, s.item, s.channel, s.row, s.column));
            if constexpr (WHERE) {
                numbers<int32_t, GROUP> at;
#pragma unroll
                for (int k = 0; k < GROUP; k++) at.at.element[k] = found.at[k];
                at.store(w.where + offset(w.of_where, s.item, s.channel, s.row, s.column));
            }
        }
    }
}

/* Outputs that see any of SIDE inputs from i on, of `inputs`. */
static __device__ __forceinline__ void outputs_of_side(const axis &a, int i, int inputs, int *from, int *to)
{
    int unused;
    outputs_of<float>(a, i, from, &unused);
    outputs_of<float>(a, min(i + SIDE, inputs) - 1, &unused, to);
}

/* An output that does not see a pixel has its maximum elsewhere. */
template <typename T, int GROUP> __global__ void __launch_bounds__(THREADS, 2) window_max_grad(windows w)
{
    typedef typename wide<T>::type W;
    enum { SQUARE = SIDE * SIDE };
    EACH_LINE(s, GROUP, SIDE)
    {
        int top, bottom;
        outputs_of_side(w.down, s.row, w.height, &top, &bottom);
        EACH_SPOT(s, GROUP, SIDE)
        {
            int left, right;
            outputs_of_side(w.across, s.column, w.width, &left, &right);
            int down = right - left > SIDE ? 1 : SIDE; /* rows at once, so that outputs are added in their order */
            W sum[SQUARE][GROUP] = {};
            for (int row = top; row < bottom; row += down) {
                for (int column = left; column < right; column += SIDE) {
                    numbers<T, GROUP> dy[SQUARE];
                    numbers<int32_t, GROUP> at[SQUARE];
#pragma unroll
                    for (int u = 0; u < SQUARE; u++) {
                        int r = row + u / SIDE, c = column + u % SIDE;
                        bool there = u / SIDE < down && r < bottom && c < right;
                        dy[u].load((const T *)w.x + offset(w.of_x, s.item, s.channel, r, c), there);
                        at[u].load(w.where + offset(w.of_where, s.item, s.channel, r, c), there);
                    }
#pragma unroll
                    for (int i = 0; i < SQUARE * SQUARE; i++) {
                        int pixel = i / SQUARE, u = i % SQUARE;
                        int32_t here = (s.row + pixel / SIDE) * w.width + s.column + pixel % SIDE;
#pragma unroll
                        for (int k = 0; k < GROUP; k++)
                            sum[pixel][k] += at[u].at.element[k] == here ? as<W>(dy[u].at.element[k]) : 0;
                    }
                }
            }
#pragma unroll
            for (int pixel = 0; pixel < SQUARE; pixel++) {
                int row = s.row + pixel / SIDE, column = s.column + pixel % SIDE;
                if (row >= w.height || column >= w.width) continue;
                numbers<T, GROUP> dx;
#pragma unroll
                for (int k = 0; k < GROUP; k++) dx.at.element[k] = as<T>(sum[pixel][k]);
                dx.store((T *)w.y + offset(w.of_y, s.item, s.channel, row, column));
            }
        }
    }
}

/* ---- launches ---- */

static bool channels_adjacent(const ls_operand *x)
{
    return !x || x->stride[1] == 1 || x->dim[1] == 1;
}

/* Do eight channels start at a multiple of 16 bytes everywhere? */
static bool by_eights(const ls_operand *x)
{
    if (!x) return true;
    if (x->dim[1] % 8 || x->stride[1] != 1 || !can_load_eight(x->data) || x->dtype == LS_F64) return false;
    for (int i = 0; i < 4; i++)
        if (i != 1 && x->dim[i] > 1 && x->stride[i] % 8) return false;
    return true;
}

enum window_work { SUM, SUM_GRAD, MAX, MAX_GRAD };

template <typename T, int GROUP>
static void launch(const cuda_device *d, cudaStream_t stream, window_work work, const windows &w)
{
    bool squares = work == MAX_GRAD;
    int64_t lines = squares ? lines_of<GROUP, SIDE>(w) : lines_of<GROUP, 1>(w), most = 64 * (int64_t)d->processors;
    int64_t length = squares ? line_length<GROUP, SIDE>(w) : line_length<GROUP, 1>(w);
    unsigned grid = (unsigned)(lines < most ? lines : most);
    unsigned threads = (unsigned)(length < THREADS ? (length + 31) / 32 * 32 : (int64_t)THREADS);
    if (work == SUM) window_sum<T, GROUP><<<grid, threads, 0, stream>>>(w);
    else if (work == SUM_GRAD) window_sum_grad<T, GROUP><<<grid, threads, 0, stream>>>(w);
    else if (work == MAX && w.where) window_max<T, GROUP, true><<<grid, threads, 0, stream>>>(w);
    else if (work == MAX) window_max<T, GROUP, false><<<grid, threads, 0, stream>>>(w);
    else window_max_grad<T, GROUP><<<grid, threads, 0, stream>>>(w);
}

/* axes: kind, and for pools and resizing their numbers; sizes are filled in here. */
static ls_status run(cuda_device *d, cudaStream_t stream, const ls_call *call, window_work work, const axis axes[2],
                     const ls_operand *where, ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    if (!cuda_numel(y)) return LS_OK;
    bool gradient = work == SUM_GRAD || work == MAX_GRAD;
    const ls_operand *picture = gradient ? y : x, *seen = gradient ? x : y;
    for (int i = 1; i < 4; i++)
        if (x->dim[i] >= 1 << 30 || y->dim[i] >= 1 << 30) return cuda_on_host(d, stream, call, why);
    if (y->dim[1] * y->dim[3] > INT32_MAX) return cuda_on_host(d, stream, call, why); /* a line is counted in 32 bits */
    if (picture->dim[2] * picture->dim[3] > INT32_MAX && where)
        return cuda_refuse(why, LS_ERR_UNSUPPORTED, "more than 2^31 - 1 pixels in a picture");
    windows w = {};
    w.down = axes[0], w.across = axes[1];
    w.down.in = (int)picture->dim[2], w.across.in = (int)picture->dim[3];
    w.down.out = (int)seen->dim[2], w.across.out = (int)seen->dim[3];
    w.x = x->data, w.y = y->data, w.where = where ? (int32_t *)where->data : NULL;
    w.of_x = strides_of(x), w.of_y = strides_of(y), w.of_where = strides_of(where);
    w.items = y->dim[0], w.channels = (int)y->dim[1], w.height = (int)y->dim[2], w.width = (int)y->dim[3];
    w.channels_inside = channels_adjacent(x) && channels_adjacent(y) && channels_adjacent(where);
    bool eights = by_eights(x) && by_eights(y) && by_eights(where);
    switch (y->dtype) {
    case LS_F16: (eights ? launch<f16, 8> : launch<f16, 1>)(d, stream, work, w); break;
    case LS_BF16: (eights ? launch<bf16, 8> : launch<bf16, 1>)(d, stream, work, w); break;
    case LS_F32: (eights ? launch<float, 8> : launch<float, 1>)(d, stream, work, w); break;
    case LS_F64: launch<double, 1>(d, stream, work, w); break;
    default: return cuda_refuse(why, LS_ERR_UNSUPPORTED, "no kernel for this number type");
    }
    return CUDA_LAUNCHED(why);
}

/* ---- the rows ---- */

static void pool_axes(const ls_call *call, axis axes[2])
{
    const ls_window *window = &call->attrs.pool.window;
    for (int i = 0; i < 2; i++) {
        axes[i] = {};
        axes[i].kind = WINDOW_POOL;
        axes[i].kernel = (int)window->kernel[i], axes[i].stride = (int)window->stride[i];
        axes[i].padding = (int)window->padding[i], axes[i].dilation = (int)window->dilation[i];
        axes[i].count_padding = call->attrs.pool.count_include_pad;
    }
}

extern "C" ls_status cuda_max_pool2d(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    axis axes[2];
    pool_axes(call, axes);
    return run(d, stream, call, MAX, axes, call->n_out > 1 ? call->out[1] : NULL, why);
}

extern "C" ls_status cuda_max_pool2d_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    axis axes[2];
    pool_axes(call, axes);
    return run(d, stream, call, MAX_GRAD, axes, call->in[1], why);
}

extern "C" ls_status cuda_avg_pool2d(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    axis axes[2];
    pool_axes(call, axes);
    return run(d, stream, call, SUM, axes, NULL, why);
}

extern "C" ls_status cuda_avg_pool2d_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    axis axes[2];
    pool_axes(call, axes);
    return run(d, stream, call, SUM_GRAD, axes, NULL, why);
}

static ls_status adaptive(cuda_device *d, cudaStream_t stream, const ls_call *call, window_work work, ls_message *why)
{
    axis axes[2] = {};
    axes[0].kind = axes[1].kind = WINDOW_ADAPTIVE;
    return run(d, stream, call, work, axes, NULL, why);
}

extern "C" ls_status cuda_adaptive_avg_pool2d(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return adaptive(d, stream, call, SUM, why);
}

extern "C" ls_status cuda_adaptive_avg_pool2d_grad(cuda_device *d, cudaStream_t stream, const ls_call *call,
                                                   ls_message *why)
{
    return adaptive(d, stream, call, SUM_GRAD, why);
}

static ls_status resize(cuda_device *d, cudaStream_t stream, const ls_call *call, window_work work, ls_message *why)
{
    axis axes[2] = {};
    bool bilinear = call->attrs.interpolate.bilinear, corners = bilinear && call->attrs.interpolate.align_corners;
    const ls_operand *picture = work == SUM ? call->in[0] : call->out[0];
    const ls_operand *resized = work == SUM ? call->out[0] : call->in[0];
    for (int i = 0; i < 2; i++) {
        int64_t in = picture->dim[2 + i], out = resized->dim[2 + i];
        axes[i].kind = bilinear ? WINDOW_BILINEAR : WINDOW_NEAREST;
        axes[i].step = call->attrs.interpolate.scale[i];
        if (corners) axes[i].step = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
        axes[i].shift = bilinear && !corners ? 0.5 : 0;
    }
    return run(d, stream, call, work, axes, NULL, why);
}

extern "C" ls_status cuda_interpolate(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return resize(d, stream, call, SUM, why);
}

extern "C" ls_status cuda_interpolate_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return resize(d, stream, call, SUM_GRAD, why);
}
