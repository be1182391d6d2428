/* copy.cu - copies between types and layouts.
 *
 * Copies within a type move units of up to 16 bytes: rows that are contiguous on both sides are divided into the
 * largest units that fit. If the two sides are contiguous along different dimensions (transposes, channels first to
 * channels last), tiles pass through shared memory, so that both sides are accessed in whole cache lines. Conversions
 * between f32 and half types are as fast; those of other types work element by element. */
#include "any.cuh"
#include "walk.cuh"

enum { BLOCK = 256, TILE = 64, TILE_ROWS = 8 };

/* ---- element by element ---- */

typedef struct copy_args {
    cuda_walk walk; /* to, from */
    void *to;
    const void *from;
    int32_t to_dtype, from_dtype;
} copy_args;

template <typename Unit> static __global__ void __launch_bounds__(BLOCK) copy_units(const __grid_constant__ copy_args a)
{
    CUDA_EACH(i, a.walk.count)
    {
        int64_t at[2];
        walk_to(a.walk, i, at);
        ((Unit *)a.to)[at[0]] = ((const Unit *)a.from)[at[1]];
    }
}

static __global__ void __launch_bounds__(BLOCK) convert_each(const __grid_constant__ copy_args a)
{
    CUDA_EACH(i, a.walk.count)
    {
        int64_t at[2];
        walk_to(a.walk, i, at);
        convert_any(a.to_dtype, a.to, at[0], a.from_dtype, a.from, at[1]);
    }
}

/* Between f32 and half types; is_dense: both sides are contiguous and aligned to 16 bytes. */
template <bool is_dense>
static __global__ void __launch_bounds__(BLOCK) convert_float(const __grid_constant__ copy_args a)
{
    int64_t groups = is_dense ? a.walk.count / 8 : 0;
    CUDA_EACH(g, groups)
    {
        float x[8];
        load8(a.from_dtype, a.from, g * 8, x);
        store8(a.to_dtype, a.to, g * 8, x);
    }
    CUDA_EACH(i, a.walk.count - groups * 8)
    {
        int64_t at[2] = {i + groups * 8, i + groups * 8};
        if (!is_dense) walk_to(a.walk, i, at);
        store_as<float>(a.to_dtype, a.to, at[0], load_as<float>(a.from_dtype, a.from, at[1]));
    }
}

/* ---- tiles ---- */

/* `to` is contiguous along the dimension of size `down`, `from` along that of size `across`; others are the rest. */
typedef struct turn_args {
    void *to;
    const void *from;
    int32_t to_dtype, from_dtype;
    int64_t down, across, to_across, from_down; /* sizes; strides in elements */
    int64_t tiles_down, tiles_across, tiles;
    int32_t rest;
    int64_t rest_dim[LS_MAX_DIMS], rest_to[LS_MAX_DIMS], rest_from[LS_MAX_DIMS];
} turn_args;

struct as_float {
}; /* f32 and half types, converted on the way */

template <typename Unit> struct turned {
    typedef Unit type;
    static __device__ __forceinline__ Unit load(const turn_args &a, int64_t i)
    {
        return ((const Unit *)a.from)[i];
    }
    static __device__ __forceinline__ void store(const turn_args &a, int64_t i, Unit x)
    {
        ((Unit *)a.to)[i] = x;
    }
};
template <> struct turned<as_float> {
    typedef float type;
    static __device__ __forceinline__ float load(const turn_args &a, int64_t i)
    {
        return load_as<float>(a.from_dtype, a.from, i);
    }
    static __device__ __forceinline__ void store(const turn_args &a, int64_t i, float x)
    {
        store_as<float>(a.to_dtype, a.to, i, x);
    }
};

/* Where tile `number` begins. */
typedef struct tile_place {
    int64_t down, across, to, from;
} tile_place;

static __device__ __forceinline__ tile_place place_of(const turn_args &a, int64_t number)
{
    tile_place p;
    p.down = number % a.tiles_down * TILE;
    int64_t rest = number / a.tiles_down;
    p.across = rest % a.tiles_across * TILE;
    rest /= a.tiles_across;
    p.to = p.down + p.across * a.to_across;
    p.from = p.down * a.from_down + p.across;
    for (int d = a.rest - 1; d >= 0; d--) {
        int64_t place = rest % a.rest_dim[d];
        rest /= a.rest_dim[d];
        p.to += place * a.rest_to[d];
        p.from += place * a.rest_from[d];
    }
    return p;
}

template <typename Unit>
static __global__ void __launch_bounds__(32 * TILE_ROWS) turn_tiles(const __grid_constant__ turn_args a)
{
    typedef typename turned<Unit>::type element;
    __shared__ element tile[TILE][TILE + 1];
    for (int64_t number = blockIdx.x; number < a.tiles; number += gridDim.x) {
        tile_place p = place_of(a, number);
        bool is_whole = p.down + TILE <= a.down && p.across + TILE <= a.across;
        if (is_whole) { /* all loads are issued before the first is used */
            element held[TILE / TILE_ROWS][2];
#pragma unroll
            for (int k = 0; k < TILE / TILE_ROWS; k++)
                for (int c = 0; c < 2; c++) {
                    int64_t row = threadIdx.y + k * TILE_ROWS;
                    held[k][c] = turned<Unit>::load(a, p.from + row * a.from_down + threadIdx.x + 32 * c);
                }
#pragma unroll
            for (int k = 0; k < TILE / TILE_ROWS; k++)
                for (int c = 0; c < 2; c++) tile[threadIdx.y + k * TILE_ROWS][threadIdx.x + 32 * c] = held[k][c];
        } else {
            for (int j = threadIdx.y; j < TILE && p.down + j < a.down; j += TILE_ROWS)
                for (int i = threadIdx.x; i < TILE && p.across + i < a.across; i += 32)
                    tile[j][i] = turned<Unit>::load(a, p.from + j * a.from_down + i);
        }
        __syncthreads();
        for (int j = threadIdx.y; j < TILE && p.across + j < a.across; j += TILE_ROWS)
            for (int i = threadIdx.x; i < TILE && p.down + i < a.down; i += 32)
                turned<Unit>::store(a, p.to + j * a.to_across + i, tile[i][j]);
        __syncthreads();
    }
}

/* The same for elements of two bytes, loaded and stored in pairs: sizes and strides are even. */
static __global__ void __launch_bounds__(32 * TILE_ROWS) turn_pairs(const __grid_constant__ turn_args a)
{
    __shared__ uint32_t tile[TILE][TILE / 2 + 1]; /* pairs along `across` */
    int lane = threadIdx.x;
    for (int64_t number = blockIdx.x; number < a.tiles; number += gridDim.x) {
        tile_place p = place_of(a, number);
        uint32_t held[TILE / TILE_ROWS];
#pragma unroll
        for (int k = 0; k < TILE / TILE_ROWS; k++) {
            int64_t row = threadIdx.y + k * TILE_ROWS;
            bool is_there = p.down + row < a.down && p.across + 2 * lane < a.across;
            const uint16_t *from = (const uint16_t *)a.from + p.from + row * a.from_down + 2 * lane;
            held[k] = is_there ? *(const uint32_t *)from : 0;
        }
#pragma unroll
        for (int k = 0; k < TILE / TILE_ROWS; k++) tile[threadIdx.y + k * TILE_ROWS][lane] = held[k];
        __syncthreads();
        for (int j = threadIdx.y; j < TILE && p.across + j < a.across; j += TILE_ROWS) {
            if (p.down + 2 * lane >= a.down) continue;
            uint32_t low = tile[2 * lane][j / 2], high = tile[2 * lane + 1][j / 2];
            uint32_t pair = j % 2 ? low >> 16 | (high & 0xffff0000u) : (low & 0xffffu) | high << 16;
            *(uint32_t *)((uint16_t *)a.to + p.to + j * a.to_across + 2 * lane) = pair;
        }
        __syncthreads();
    }
}

static bool goes_in_pairs(const turn_args *a)
{
    int64_t odd = a->down | a->across | a->to_across | a->from_down;
    for (int d = 0; d < a->rest; d++) odd |= a->rest_to[d] | a->rest_from[d];
    return odd % 2 == 0 && cuda_aligned(a->to, 4) && cuda_aligned(a->from, 4);
}

/* Describe the copy as a transpose; false: it is none, or a side is too short for tiles. */
static bool turn_of(const copy_args *copy, turn_args *turn)
{
    const cuda_walk *w = &copy->walk;
    int down = w->ndim - 1, across = -1;
    for (int d = 0; d < down; d++)
        if (w->stride[1][d] == 1) across = d;
    if (across < 0 || w->stride[0][down] != 1 || w->stride[1][down] == 1 || w->dim[down] < 8 || w->dim[across] < 8)
        return false;
    memset(turn, 0, sizeof *turn);
    turn->to = copy->to, turn->from = copy->from;
    turn->to_dtype = copy->to_dtype, turn->from_dtype = copy->from_dtype;
    turn->down = w->dim[down], turn->across = w->dim[across];
    turn->to_across = w->stride[0][across], turn->from_down = w->stride[1][down];
    turn->tiles_down = (turn->down + TILE - 1) / TILE;
    turn->tiles_across = (turn->across + TILE - 1) / TILE;
    turn->tiles = turn->tiles_down * turn->tiles_across * (w->count / (turn->down * turn->across));
    for (int d = 0; d < w->ndim; d++) {
        if (d == down || d == across) continue;
        turn->rest_dim[turn->rest] = w->dim[d];
        turn->rest_to[turn->rest] = w->stride[0][d];
        turn->rest_from[turn->rest++] = w->stride[1][d];
    }
    return true;
}

/* ---- the choice ---- */

/* Divide rows that are contiguous on both sides into units; returns the size of a unit in bytes. */
static size_t widen(copy_args *a, size_t size)
{
    cuda_walk *w = &a->walk;
    int last = w->ndim - 1;
    if (w->stride[0][last] != 1 || w->stride[1][last] != 1) return size;
    size_t unit = 16;
    for (; unit > size; unit /= 2) {
        int64_t elements = (int64_t)(unit / size);
        bool fits = w->dim[last] % elements == 0 && cuda_aligned(a->to, unit) && cuda_aligned(a->from, unit);
        for (int d = 0; d < last; d++) fits &= w->stride[0][d] % elements == 0 && w->stride[1][d] % elements == 0;
        if (fits) break;
    }
    int64_t elements = (int64_t)(unit / size);
    for (int d = 0; d < last; d++) w->stride[0][d] /= elements, w->stride[1][d] /= elements;
    w->dim[last] /= elements;
    w->count /= elements;
    cuda_walk_prepare(w);
    return unit;
}

static void copy_same(const cuda_device *d, cudaStream_t stream, copy_args *a, size_t size)
{
    turn_args turn;
    if (turn_of(a, &turn)) {
        unsigned blocks = cuda_blocks(d, turn.tiles, 1);
        dim3 block(32, TILE_ROWS);
        if (size == 1) turn_tiles<uint8_t><<<blocks, block, 0, stream>>>(turn);
        else if (size == 2 && goes_in_pairs(&turn)) turn_pairs<<<blocks, block, 0, stream>>>(turn);
        else if (size == 2) turn_tiles<uint16_t><<<blocks, block, 0, stream>>>(turn);
        else if (size == 4) turn_tiles<uint32_t><<<blocks, block, 0, stream>>>(turn);
        else turn_tiles<uint64_t><<<blocks, block, 0, stream>>>(turn);
        return;
    }
    size_t unit = widen(a, size);
    unsigned blocks = cuda_blocks(d, a->walk.count, BLOCK);
    if (unit == 1) copy_units<uint8_t><<<blocks, BLOCK, 0, stream>>>(*a);
    else if (unit == 2) copy_units<uint16_t><<<blocks, BLOCK, 0, stream>>>(*a);
    else if (unit == 4) copy_units<uint32_t><<<blocks, BLOCK, 0, stream>>>(*a);
    else if (unit == 8) copy_units<uint64_t><<<blocks, BLOCK, 0, stream>>>(*a);
    else copy_units<uint4><<<blocks, BLOCK, 0, stream>>>(*a);
}

static void copy_float(const cuda_device *d, cudaStream_t stream, const copy_args *a)
{
    turn_args turn;
    bool is_dense = cuda_walk_is_dense(&a->walk, 0) && cuda_walk_is_dense(&a->walk, 1) && cuda_aligned(a->to, 16) &&
                    cuda_aligned(a->from, 16);
    if (is_dense) convert_float<true><<<cuda_blocks(d, a->walk.count / 8 + 1, BLOCK), BLOCK, 0, stream>>>(*a);
    else if (turn_of(a, &turn))
        turn_tiles<as_float><<<cuda_blocks(d, turn.tiles, 1), dim3(32, TILE_ROWS), 0, stream>>>(turn);
    else convert_float<false><<<cuda_blocks(d, a->walk.count, BLOCK), BLOCK, 0, stream>>>(*a);
}

static bool is_short_float(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_F16 || dtype == LS_BF16;
}

ls_status cuda_convert(cuda_device *d, cudaStream_t stream, const ls_operand *from, const ls_operand *to,
                       ls_message *why)
{
    const ls_operand *operand[] = {to, from};
    copy_args a = {};
    a.walk = cuda_walk_of(operand, 2, false);
    a.to = to->data, a.from = from->data, a.to_dtype = to->dtype, a.from_dtype = from->dtype;
    if (a.walk.count == 0) return LS_OK;
    size_t size = d->host->dtype_size(to->dtype);
    if (to->dtype == from->dtype && cuda_walk_is_dense(&a.walk, 0) && cuda_walk_is_dense(&a.walk, 1))
        return cuda_check(
            cudaMemcpyAsync(to->data, from->data, (size_t)a.walk.count * size, cudaMemcpyDeviceToDevice, stream),
            "copy on the device", why);
    if (to->dtype == from->dtype) copy_same(d, stream, &a, size);
    else if (is_short_float(to->dtype) && is_short_float(from->dtype)) copy_float(d, stream, &a);
    else convert_each<<<cuda_blocks(d, a.walk.count, BLOCK), BLOCK, 0, stream>>>(a);
    return CUDA_LAUNCHED(why);
}

/* in: x  out: y, any types and layouts; x broadcasts to the shape of y. */
ls_status cuda_copy(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return cuda_convert(d, stream, call->in[0], call->out[0], why);
}
