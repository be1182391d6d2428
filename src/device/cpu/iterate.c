/* iterate.c - merging dimensions, cutting pieces, and buffering operands that are not contiguous. */
#include "device/cpu/iterate.h"

#include "base/parallel.h"
#include "kernels/elementwise.h"

#include <string.h>

#define PIECE 512     /* elements in a buffer: all buffers of a body together fit into L1 */
#define SHORT_ROW 128 /* shorter rows are gathered into pieces of several rows */
#define CUT 64        /* threads start at multiples of this: whole cache lines, whole random blocks */
#define ELEMENT_BYTES 8
#define BUFFER ((PIECE + SHORT_ROW) * ELEMENT_BYTES) /* a piece, plus the rest of a period, to start it at any phase */

typedef struct lane {
    char *data;
    const int64_t *stride; /* in bytes */
    size_t size;           /* of one element, in bytes */
    ls_dtype dtype, as;
    bool direct;    /* the body works on this operand's own memory */
    int64_t period; /* else, if not 0: elements repeat with this period, and are laid out once for the whole walk */
} lane;

typedef struct plan {
    ls_layout layout;
    int64_t piece; /* most elements at a time */
    bool by_row;   /* pieces end where rows end */
    bool updates;
    int lanes, outputs;
    lane lane[LS_ITERATE_OPERANDS];
    ls_iteration_body *body;
    void *arg;
    const ls_elementwise *kernels;
} plan;

int64_t ls_grain(int64_t cost)
{
    return 20 * 1000 * 1000 / cost; /* 20 us: well above the cost of starting and joining a thread of the team */
}

bool ls_all_contiguous(const ls_operand *const *operand, int count)
{
    const ls_operand *first = operand[0];
    int64_t stride = 1;
    for (int d = first->ndim - 1; d >= 0; d--) {
        int64_t size = first->dim[d];
        for (int i = 0; i < count; i++) {
            const ls_operand *o = operand[i];
            if (o->ndim != first->ndim || o->dim[d] != size || (o->stride[d] != stride && size != 1)) return false;
        }
        stride *= size;
    }
    for (int i = 1; i < count; i++) {
        if (operand[i]->ndim != first->ndim) return false;
    }
    return true;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

/* Dimensions of more than one element; operands of fewer dimensions are aligned at the last one. */
static void take_dims(ls_layout *l, const ls_operand *const *operand, int count)
{
    const ls_operand *shape = operand[0];
    for (int d = 0; d < shape->ndim; d++) {
        l->count *= shape->dim[d];
        if (shape->dim[d] == 1) continue;
        l->dim[l->ndim] = shape->dim[d];
        for (int i = 0; i < count; i++) {
            const ls_operand *o = operand[i];
            int own = d - (shape->ndim - o->ndim);
            bool broadcast = own < 0 || o->dim[own] == 1;
            l->stride[i][l->ndim] = broadcast ? 0 : o->stride[own] * (int64_t)ls_dtype_size(o->dtype);
        }
        l->ndim++;
    }
}

static void swap(int64_t *a, int64_t *b)
{
    int64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Largest stride of the first operand first, whatever the order of dimensions: channels-last becomes contiguous. */
static void sort_dims(ls_layout *l, int count)
{
    for (int end = 1; end < l->ndim; end++) {
        for (int d = end; d > 0 && l->stride[0][d] > l->stride[0][d - 1]; d--) {
            swap(&l->dim[d], &l->dim[d - 1]);
            for (int i = 0; i < count; i++) swap(&l->stride[i][d], &l->stride[i][d - 1]);
        }
    }
}

static void merge_dims(ls_layout *l, int count)
{
    int last = 0; /* dimensions 0 .. last are done */
    for (int d = 1; d < l->ndim; d++) {
        bool alike = true;
        for (int i = 0; i < count && alike; i++) alike = l->stride[i][last] == l->stride[i][d] * l->dim[d];
        if (alike) l->dim[last] *= l->dim[d];
        else l->dim[++last] = l->dim[d];
        for (int i = 0; i < count; i++) l->stride[i][last] = l->stride[i][d];
    }
    l->ndim = last + 1;
}

ls_layout ls_layout_of(const ls_operand *const *operand, int count, bool in_order)
{
    ls_layout l;
    l.ndim = 0;
    l.count = 1;
    take_dims(&l, operand, count);
    if (l.ndim == 0) { /* a single element */
        l.ndim = 1;
        l.dim[0] = 1;
        for (int i = 0; i < count; i++) l.stride[i][0] = 0;
        return l;
    }
    if (!in_order) sort_dims(&l, count);
    merge_dims(&l, count);
    return l;
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static bool is_contiguous(const plan *p, const lane *l)
{
    int64_t stride = (int64_t)l->size;
    for (int d = p->layout.ndim - 1; d >= 0; d--) {
        if (l->stride[d] != stride && p->layout.dim[d] != 1) return false;
        stride *= p->layout.dim[d];
    }
    return true;
}

/* Number of elements after which an input repeats because it is broadcast, over all but the innermost dimension or
 * all. */
static int64_t period_of(const plan *p, const lane *l)
{
    int inner = p->layout.ndim - 1;
    for (int d = 0; d < inner; d++) {
        if (l->stride[d] != 0) return 0;
    }
    if (l->stride[inner] == 0) return 1;
    return p->by_row ? 0 : p->layout.dim[inner];
}

static void choose_pieces(plan *p)
{
    int inner = p->layout.ndim - 1;
    p->by_row = p->layout.ndim == 1 || p->layout.dim[inner] >= SHORT_ROW;
    bool all_direct = true;
    for (int i = 0; i < p->lanes; i++) {
        lane *l = &p->lane[i];
        bool whole_rows = l->stride[inner] == (int64_t)l->size || p->layout.dim[inner] == 1;
        l->direct = l->dtype == l->as && (p->by_row ? whole_rows : is_contiguous(p, l));
        l->period = l->direct || i < p->outputs ? 0 : period_of(p, l);
        all_direct &= l->direct;
    }
    p->piece = all_direct ? p->layout.count : PIECE;
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

typedef struct position {
    int64_t at[LS_MAX_DIMS];
} position;

static position position_of(const plan *p, int64_t index)
{
    position here;
    for (int d = p->layout.ndim - 1; d >= 0; d--) {
        here.at[d] = index % p->layout.dim[d];
        index /= p->layout.dim[d];
    }
    return here;
}

static void advance(const plan *p, position *here, int64_t n)
{
    here->at[p->layout.ndim - 1] += n;
    for (int d = p->layout.ndim - 1; d > 0 && here->at[d] >= p->layout.dim[d]; d--) {
        here->at[d - 1] += here->at[d] / p->layout.dim[d];
        here->at[d] %= p->layout.dim[d];
    }
}

static char *address(const plan *p, const lane *l, const position *here)
{
    char *data = l->data;
    for (int d = 0; d < p->layout.ndim; d++) data += here->at[d] * l->stride[d];
    return data;
}

/* Fill with n copies of one element, at least eight at a time. */
static void fill(char *to, const char *element, int64_t n, size_t size)
{
    char pattern[64];
    for (size_t at = 0; at < sizeof pattern; at += size) memcpy(pattern + at, element, size);
    size_t bytes = (size_t)n * size, at = 0;
    for (; at + sizeof pattern <= bytes; at += sizeof pattern) memcpy(to + at, pattern, sizeof pattern);
    memcpy(to + at, pattern, bytes - at);
}

/* n elements of `size` bytes with strides in bytes. */
static void copy_strided(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, size_t size)
{
#define LS_SIZE(bytes)                                                                                                 \
    case bytes:                                                                                                        \
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, bytes);                     \
        break;
    if (to_stride == (int64_t)size && from_stride == (int64_t)size) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    if (to_stride == (int64_t)size && from_stride == 0 && n >= 16) {
        fill(to, from, n, size);
        return;
    }
    switch (size) {
        LS_SIZE(1)
        LS_SIZE(2)
        LS_SIZE(4)
        LS_SIZE(8)
    }
#undef LS_SIZE
}

/* Copy the n elements starting at `here` to or from a contiguous buffer. */
static void move(const plan *p, const lane *l, position here, int64_t n, char *buffer, bool write)
{
    int inner = p->layout.ndim - 1;
    int64_t stride = l->stride[inner], unit = (int64_t)l->size;
    while (n) {
        int64_t row = p->layout.dim[inner] - here.at[inner], take = row < n ? row : n;
        char *data = address(p, l, &here);
        if (write) copy_strided(data, stride, buffer, unit, take, l->size);
        else copy_strided(buffer, unit, data, stride, take, l->size);
        buffer += take * unit;
        advance(p, &here, take);
        n -= take;
    }
}

static void convert(const plan *p, ls_dtype to_dtype, void *to, ls_dtype from_dtype, const void *from, int64_t n)
{
    p->kernels->convert[from_dtype][to_dtype](n, (void *[]){to, (void *)from}, NULL);
}

/* Are the n elements starting at `here` contiguous? */
static bool is_plain(const plan *p, const lane *l, const position *here, int64_t n)
{
    int inner = p->layout.ndim - 1;
    return l->stride[inner] == (int64_t)l->size && here->at[inner] + n <= p->layout.dim[inner];
}

/* An input for the body: gathered, converted. */
static void load(const plan *p, const lane *l, const position *here, int64_t n, char *buffer)
{
    _Alignas(64) char raw[PIECE * ELEMENT_BYTES];
    if (l->dtype == l->as) {
        move(p, l, *here, n, buffer, false);
    } else if (is_plain(p, l, here, n)) {
        convert(p, l->as, buffer, l->dtype, address(p, l, here), n);
    } else {
        move(p, l, *here, n, raw, false);
        convert(p, l->as, buffer, l->dtype, raw, n);
    }
}

/* An output of the body: converted, scattered. */
static void store(const plan *p, const lane *l, const position *here, int64_t n, char *buffer)
{
    _Alignas(64) char raw[PIECE * ELEMENT_BYTES];
    if (l->dtype == l->as) {
        move(p, l, *here, n, buffer, true);
    } else if (is_plain(p, l, here, n)) {
        convert(p, l->dtype, address(p, l, here), l->as, buffer, n);
    } else {
        convert(p, l->dtype, raw, l->as, buffer, n);
        move(p, l, *here, n, raw, true);
    }
}

/* Repeat one period of an input. */
static void repeat(const plan *p, const lane *l, char *buffer)
{
    const position start = {{0}};
    size_t size = ls_dtype_size(l->as), bytes = (size_t)l->period * size;
    load(p, l, &start, l->period, buffer);
    for (size_t limit = (size_t)(PIECE + l->period) * size; bytes < limit; bytes *= 2)
        memcpy(buffer + bytes, buffer, bytes < limit - bytes ? bytes : limit - bytes);
}

/* Does the buffer of an input still hold what the next piece needs, the element that a whole row repeats? */
static bool still_holds(const plan *p, int i, bool has_piece_before, const position *here)
{
    int inner = p->layout.ndim - 1;
    return i >= p->outputs && p->by_row && p->lane[i].stride[inner] == 0 && has_piece_before && here->at[inner] != 0;
}

static void run_elements(const plan *p, int64_t begin, int64_t end)
{
    _Alignas(64) char buffers[LS_ITERATE_OPERANDS][BUFFER];
    void *pointer[LS_ITERATE_OPERANDS];
    position here = position_of(p, begin);
    for (int i = 0; i < p->lanes; i++) {
        pointer[i] = buffers[i];
        if (p->lane[i].period) repeat(p, &p->lane[i], buffers[i]);
    }
    for (int64_t index = begin; index < end;) {
        int64_t row = p->layout.dim[p->layout.ndim - 1] - here.at[p->layout.ndim - 1];
        int64_t n = end - index;
        if (n > p->piece) n = p->piece;
        if (p->by_row && n > row) n = row;
        for (int i = 0; i < p->lanes; i++) {
            const lane *l = &p->lane[i];
            if (l->direct) pointer[i] = address(p, l, &here);
            else if (l->period) pointer[i] = buffers[i] + index % l->period * (int64_t)ls_dtype_size(l->as);
            else if (still_holds(p, i, index > begin, &here)) continue;
            else if (i >= p->outputs || p->updates) load(p, l, &here, n, buffers[i]);
        }
        p->body(p->arg, index, n, pointer);
        for (int i = 0; i < p->outputs; i++) {
            if (!p->lane[i].direct) store(p, &p->lane[i], &here, n, buffers[i]);
        }
        advance(p, &here, n);
        index += n;
    }
}

static void run_cuts(void *arg, int64_t begin, int64_t end)
{
    const plan *p = arg;
    run_elements(p, begin * CUT, end * CUT < p->layout.count ? end * CUT : p->layout.count);
}

void ls_iterate(const ls_iteration *walk, ls_iteration_body *body, void *arg)
{
    plan p;
    p.layout = ls_layout_of(walk->operand, walk->count, walk->in_order);
    if (p.layout.count == 0) return;
    p.lanes = walk->count;
    p.outputs = walk->outputs;
    p.updates = walk->updates;
    p.body = body;
    p.arg = arg;
    p.kernels = ls_elementwise_kernels();
    for (int i = 0; i < walk->count; i++) {
        const ls_operand *o = walk->operand[i];
        p.lane[i] = (lane){.data = o->data,
                           .stride = p.layout.stride[i],
                           .size = ls_dtype_size(o->dtype),
                           .dtype = o->dtype,
                           .as = walk->as[i] ? walk->as[i] : o->dtype};
    }
    choose_pieces(&p);
    if (walk->grain == 0 || p.layout.count < 2 * walk->grain) run_elements(&p, 0, p.layout.count);
    else ls_parallel_for((p.layout.count + CUT - 1) / CUT, walk->grain / CUT + 1, run_cuts, &p);
}
