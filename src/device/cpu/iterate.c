/* iterate.c - merging dimensions, cutting pieces, and buffers for what is not contiguous. */
#include "device/cpu/iterate.h"

#include "base/parallel.h"
#include "kernels/elementwise.h"

#include <string.h>

#define PIECE 512     /* elements in a buffer: all buffers of a body together fit the first level of cache */
#define SHORT_ROW 128 /* rows below this are gathered into pieces of several rows */
#define CUT 64        /* threads start at multiples of this: whole cache lines, whole random blocks */
#define ELEMENT_BYTES 8

typedef struct lane {
    char *data;
    int64_t stride[LS_MAX_DIMS]; /* in bytes */
    size_t size;                 /* of one element, in bytes */
    ls_dtype dtype, as;
    bool direct;   /* the body works on this operand's own memory */
    bool constant; /* the same element everywhere */
} lane;

typedef struct plan {
    int ndim; /* at least 1 */
    int64_t dim[LS_MAX_DIMS];
    int64_t count, piece; /* elements; at most so many at a time */
    bool by_row;          /* pieces end where rows end */
    int lanes, outputs;
    lane lane[LS_ITERATE_OPERANDS];
    ls_walk_body *body;
    void *arg;
    const ls_elementwise *kernels;
} plan;

int64_t ls_grain(int64_t cost)
{
    return 20 * 1000 * 1000 / cost; /* 20 us: well above what it takes to start and join a thread of the team */
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

/* ---- plan --------------------------------------------------------------------------------------------------------- */

/* Dimensions of more than one element, outermost first; operands of fewer dimensions are aligned at the last one. */
static void take_dims(plan *p, const ls_walk *walk)
{
    const ls_operand *shape = walk->operand[0];
    for (int d = 0; d < shape->ndim; d++) {
        p->count *= shape->dim[d];
        if (shape->dim[d] == 1) continue;
        p->dim[p->ndim] = shape->dim[d];
        for (int i = 0; i < p->lanes; i++) {
            const ls_operand *o = walk->operand[i];
            int own = d - (shape->ndim - o->ndim);
            bool broadcast = own < 0 || o->dim[own] == 1;
            p->lane[i].stride[p->ndim] = broadcast ? 0 : o->stride[own] * (int64_t)p->lane[i].size;
        }
        p->ndim++;
    }
}

static void swap_dims(plan *p, int a, int b)
{
    int64_t size = p->dim[a];
    p->dim[a] = p->dim[b];
    p->dim[b] = size;
    for (int i = 0; i < p->lanes; i++) {
        int64_t stride = p->lane[i].stride[a];
        p->lane[i].stride[a] = p->lane[i].stride[b];
        p->lane[i].stride[b] = stride;
    }
}

/* Largest stride of the output first, whatever order the shape is told in: channels-last becomes contiguous. */
static void sort_dims(plan *p)
{
    const int64_t *stride = p->lane[0].stride;
    for (int end = 1; end < p->ndim; end++) {
        for (int d = end; d > 0 && stride[d] > stride[d - 1]; d--) swap_dims(p, d, d - 1);
    }
}

static void merge_dims(plan *p)
{
    int last = 0; /* dimensions 0 .. last are done */
    for (int d = 1; d < p->ndim; d++) {
        bool alike = true;
        for (int i = 0; i < p->lanes && alike; i++) {
            const int64_t *stride = p->lane[i].stride;
            alike = stride[last] == stride[d] * p->dim[d];
        }
        if (alike) p->dim[last] *= p->dim[d];
        else p->dim[++last] = p->dim[d];
        for (int i = 0; i < p->lanes; i++) p->lane[i].stride[last] = p->lane[i].stride[d];
    }
    if (p->ndim) {
        p->ndim = last + 1;
        return;
    }
    p->dim[0] = p->ndim = 1; /* a single element */
    for (int i = 0; i < p->lanes; i++) p->lane[i].stride[0] = 0;
}

static bool is_contiguous(const plan *p, const lane *l)
{
    int64_t stride = (int64_t)l->size;
    for (int d = p->ndim - 1; d >= 0; d--) {
        if (l->stride[d] != stride && p->dim[d] != 1) return false;
        stride *= p->dim[d];
    }
    return true;
}

static void choose_pieces(plan *p)
{
    int inner = p->ndim - 1;
    p->by_row = p->ndim == 1 || p->dim[inner] >= SHORT_ROW;
    bool all_direct = true;
    for (int i = 0; i < p->lanes; i++) {
        lane *l = &p->lane[i];
        bool whole_rows = l->stride[inner] == (int64_t)l->size || p->dim[inner] == 1;
        l->direct = l->dtype == l->as && (p->by_row ? whole_rows : is_contiguous(p, l));
        l->constant = !l->direct && i >= p->outputs;
        for (int d = 0; d < p->ndim; d++) l->constant &= l->stride[d] == 0;
        all_direct &= l->direct;
    }
    p->piece = all_direct ? p->count : PIECE;
}

/* ---- run ---------------------------------------------------------------------------------------------------------- */

typedef struct position {
    int64_t at[LS_MAX_DIMS];
} position;

static position position_of(const plan *p, int64_t index)
{
    position here;
    for (int d = p->ndim - 1; d >= 0; d--) {
        here.at[d] = index % p->dim[d];
        index /= p->dim[d];
    }
    return here;
}

static void advance(const plan *p, position *here, int64_t n)
{
    here->at[p->ndim - 1] += n;
    for (int d = p->ndim - 1; d > 0 && here->at[d] >= p->dim[d]; d--) {
        here->at[d - 1] += here->at[d] / p->dim[d];
        here->at[d] %= p->dim[d];
    }
}

static char *address(const plan *p, const lane *l, const position *here)
{
    char *data = l->data;
    for (int d = 0; d < p->ndim; d++) data += here->at[d] * l->stride[d];
    return data;
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
    switch (size) {
        LS_SIZE(1)
        LS_SIZE(2)
        LS_SIZE(4)
        LS_SIZE(8)
    }
#undef LS_SIZE
}

/* The n elements from `here` on, to or from a contiguous buffer. */
static void move(const plan *p, const lane *l, position here, int64_t n, char *buffer, bool write)
{
    int inner = p->ndim - 1;
    int64_t stride = l->stride[inner], unit = (int64_t)l->size;
    while (n) {
        int64_t row = p->dim[inner] - here.at[inner], take = row < n ? row : n;
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

/* True when the n elements from `here` on lie side by side. */
static bool is_plain(const plan *p, const lane *l, const position *here, int64_t n)
{
    int inner = p->ndim - 1;
    return l->stride[inner] == (int64_t)l->size && here->at[inner] + n <= p->dim[inner];
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

static void run_elements(const plan *p, int64_t begin, int64_t end)
{
    _Alignas(64) char buffers[LS_ITERATE_OPERANDS][PIECE * ELEMENT_BYTES];
    void *pointer[LS_ITERATE_OPERANDS];
    position here = position_of(p, begin);
    position start = {{0}};
    for (int i = 0; i < p->lanes; i++) {
        const lane *l = &p->lane[i];
        pointer[i] = buffers[i];
        if (l->constant) load(p, l, &start, p->count < PIECE ? p->count : PIECE, buffers[i]);
    }
    for (int64_t index = begin; index < end;) {
        int64_t row = p->dim[p->ndim - 1] - here.at[p->ndim - 1];
        int64_t n = end - index;
        if (n > p->piece) n = p->piece;
        if (p->by_row && n > row) n = row;
        for (int i = 0; i < p->lanes; i++) {
            const lane *l = &p->lane[i];
            if (l->direct) pointer[i] = address(p, l, &here);
            else if (i >= p->outputs && !l->constant) load(p, l, &here, n, buffers[i]);
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
    run_elements(p, begin * CUT, end * CUT < p->count ? end * CUT : p->count);
}

void ls_iterate(const ls_walk *walk, ls_walk_body *body, void *arg)
{
    plan p;
    p.ndim = 0;
    p.count = 1;
    p.lanes = walk->count;
    p.outputs = walk->outputs;
    p.body = body;
    p.arg = arg;
    p.kernels = ls_elementwise_kernels();
    for (int i = 0; i < walk->count; i++) {
        const ls_operand *o = walk->operand[i];
        p.lane[i].data = o->data;
        p.lane[i].dtype = o->dtype;
        p.lane[i].as = walk->as[i] ? walk->as[i] : o->dtype;
        p.lane[i].size = ls_dtype_size(o->dtype);
    }
    take_dims(&p, walk);
    if (p.count == 0) return;
    if (!walk->in_order) sort_dims(&p);
    merge_dims(&p);
    choose_pieces(&p);
    if (walk->grain == 0 || p.count < 2 * walk->grain) run_elements(&p, 0, p.count);
    else ls_parallel_for((p.count + CUT - 1) / CUT, walk->grain / CUT + 1, run_cuts, &p);
}
