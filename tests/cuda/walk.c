/* walk.c - offsets of elements, as kernels compute them, against those that shapes and strides give directly. */
#include "../../plugins/device-cuda/walk.h"

#include "check.h"

static uint64_t random_state = 1;

static int64_t below(int64_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)limit);
}

/* walk_to() of walk.cuh, on the host. */
static void walk_to(const cuda_walk *w, int64_t index, int count, int64_t *at)
{
    for (int n = 0; n < count; n++) at[n] = 0;
    for (int d = w->ndim - 1; d >= 0; d--) {
        int64_t quotient = index / w->dim[d];
        if (w->is_narrow && d > 0) {
            uint32_t rest = (uint32_t)index;
            quotient = (int64_t)(((uint32_t)((uint64_t)rest * w->multiplier[d] >> 32) + rest) >> w->shift[d]);
            CHECK(quotient == index / w->dim[d]);
        }
        int64_t place = d > 0 ? index - quotient * w->dim[d] : index;
        for (int n = 0; n < count; n++) at[n] += place * w->stride[n][d];
        index = quotient;
    }
}

/* The offset of element `index`, in row-major order of `shape`, in an operand that broadcasts to it. */
static int64_t offset_of(const ls_operand *shape, const ls_operand *x, int64_t index)
{
    int64_t offset = 0;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        int own = d - (shape->ndim - x->ndim);
        if (own >= 0 && x->dim[own] != 1) offset += index % shape->dim[d] * x->stride[own];
        index /= shape->dim[d];
    }
    return offset;
}

/* Some dimensions, in any order in memory, with gaps. */
static ls_operand some_operand(int ndim, const int64_t *dim)
{
    ls_operand x = {.ndim = ndim};
    int order[LS_MAX_DIMS];
    for (int d = 0; d < ndim; d++) order[d] = d;
    for (int d = ndim - 1; d > 0; d--) {
        int other = (int)below(d + 1), kept = order[d];
        if (below(2)) order[d] = order[other], order[other] = kept;
    }
    int64_t stride = 1 + below(2);
    for (int d = ndim - 1; d >= 0; d--) {
        x.dim[order[d]] = dim[order[d]];
        x.stride[order[d]] = stride;
        stride *= dim[order[d]] + (below(3) ? 0 : below(3));
    }
    return x;
}

static void elements_are_where_strides_say(void)
{
    for (int trial = 0; trial < 3000; trial++) {
        int64_t dim[LS_MAX_DIMS];
        int ndim = (int)below(6);
        for (int d = 0; d < ndim; d++) dim[d] = 1 + below(5);
        ls_operand out = some_operand(ndim, dim), a = some_operand(ndim, dim);
        int fewer = ndim ? (int)below(ndim) : 0; /* b has fewer dimensions, and some of size 1 */
        int64_t own[LS_MAX_DIMS];
        for (int d = fewer; d < ndim; d++) own[d - fewer] = below(3) ? dim[d] : 1;
        ls_operand b = some_operand(ndim - fewer, own);
        const ls_operand *operand[] = {&out, &a, &b};
        for (int in_order = 0; in_order < 2; in_order++) {
            cuda_walk w = cuda_walk_of(operand, 3, in_order);
            CHECK(w.count == cuda_numel(&out) && w.ndim >= 1);
            for (int64_t i = 0; i < w.count; i++) {
                int64_t at[3], element = i;
                walk_to(&w, i, 3, at);
                /* Out of order, the element is the one that has this place in the output. */
                while (!in_order && offset_of(&out, &out, element) != at[0]) element = (element + 1) % w.count;
                for (int n = 0; n < 3; n++) CHECK(at[n] == offset_of(&out, operand[n], element));
            }
        }
    }
}

static void memory_in_one_piece_has_one_dimension(void)
{
    ls_operand rows = cuda_dense(NULL, LS_F32, 4, (int64_t[]){2, 3, 4, 5}), pixels = rows;
    int64_t channels_last[] = {60, 1, 15, 3};
    memcpy(pixels.stride, channels_last, sizeof channels_last);
    const ls_operand *same[] = {&rows, &rows}, *last[] = {&pixels, &pixels}, *turned[] = {&pixels, &rows};
    cuda_walk w = cuda_walk_of(same, 2, true);
    CHECK(cuda_walk_is_dense(&w, 0) && cuda_walk_is_dense(&w, 1));
    w = cuda_walk_of(last, 2, false);
    CHECK(cuda_walk_is_dense(&w, 0) && cuda_walk_is_dense(&w, 1));
    w = cuda_walk_of(turned, 2, false);
    CHECK(w.ndim == 3 && !cuda_walk_is_dense(&w, 1)); /* images, pixels, channels */
    ls_operand none = cuda_dense(NULL, LS_F32, 2, (int64_t[]){3, 0});
    CHECK(cuda_walk_of((const ls_operand *[]){&none}, 1, false).count == 0);
}

static void dimensions_can_be_added_by_hand(void)
{
    for (int trial = 0; trial < 1000; trial++) {
        int64_t dim[LS_MAX_DIMS];
        int ndim = (int)below(6);
        for (int d = 0; d < ndim; d++) dim[d] = below(5);
        ls_operand a = some_operand(ndim, dim), b = some_operand(ndim, dim);
        cuda_walk built = cuda_walk_begin(), given = cuda_walk_of((const ls_operand *[]){&a, &b}, 2, true);
        for (int d = 0; d < ndim; d++)
            cuda_walk_add(&built, dim[d], (int64_t[]){a.stride[d], dim[d] == 1 ? 7 : b.stride[d]}, 2);
        CHECK(built.count == given.count && built.ndim == given.ndim);
        for (int64_t i = 0; i < built.count; i++) {
            int64_t at[2], same[2];
            walk_to(&built, i, 2, at);
            walk_to(&given, i, 2, same);
            CHECK(at[0] == same[0] && at[1] == same[1]);
        }
    }
}

static void large_indices_are_divided_exactly(void)
{
    for (int trial = 0; trial < 200000; trial++) {
        int64_t dim = 1 + below(trial % 2 ? 3000 : INT64_C(1) << 31), most = (INT64_C(1) << 31) - 1;
        cuda_walk w = {.count = most, .ndim = 1, .dim = {dim}};
        cuda_walk_prepare(&w);
        int64_t n = trial % 5 ? below(most) : most / dim * dim - trial % 2;
        uint32_t high = (uint32_t)((uint64_t)n * w.multiplier[0] >> 32);
        CHECK((high + (uint32_t)n) >> w.shift[0] == (uint32_t)(n / dim));
    }
}

static void types_are_promoted_as_in_the_library(void)
{
    for (ls_dtype a = LS_BOOL; a < LS_DTYPE_COUNT; a++)
        for (ls_dtype b = LS_BOOL; b < LS_DTYPE_COUNT; b++) {
            CHECK(cuda_promote(a, b) == ls_dtype_promote(a, b));
            CHECK(cuda_is_float(a) == ls_dtype_is_float(a));
        }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(elements_are_where_strides_say);
    CHECK_RUN(memory_in_one_piece_has_one_dimension);
    CHECK_RUN(dimensions_can_be_added_by_hand);
    CHECK_RUN(large_indices_are_divided_exactly);
    CHECK_RUN(types_are_promoted_as_in_the_library);
    return check_done();
}
