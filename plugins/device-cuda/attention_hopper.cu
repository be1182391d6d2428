/* attention_hopper.cu - attention of heads of up to 128 in half types, on the tensor cores of Hopper.
 *
 * Warpgroups of 128 threads have 64 queries each and walk over keys and values, which arrive in three stages of 128, or
 * of 64 where heads have two panels. The gradients are in attention_hopper_grad.cu.
 *
 * Dropout draws 16 bits for a score, half of what the CPU draws, by seven rounds of Philox in place of ten (the kernel
 * is a twelfth faster), so it drops other scores than the CPU does; the same ones in every run with the same seed.
 * `kept` has them for the gradients, a bit set where a score is dropped: in each head, [tiles of 64 keys][queries]
 * pairs of 32-bit words; bit 4 j + i of word w is key 8 j + 4 w + i of the tile. */
#include "attention_hopper.cuh"

/* ---- Random bits ------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 7 };

/* What all threads share: which part of Philox's counters is this call's, and the bits of the threshold, lowest first,
 * as whole words. */
typedef struct drawing {
    philox_keys keys;
    uint64_t part;
    uint32_t threshold[16];
} drawing;

/* 32 bits, each set with the probability of being dropped: 32 numbers of 16 bits are compared with the threshold at
 * once, bit by bit from the lowest. */
static __device__ __forceinline__ uint32_t draw_dropped(const drawing &d, uint64_t number)
{
    uint32_t below = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint4 word = philox<ROUNDS>(d.keys, number * 4 + i, d.part);
        const uint32_t *t = d.threshold + 4 * i;
        below = (word.x & below) | (t[0] & (word.x | below));
        below = (word.y & below) | (t[1] & (word.y | below));
        below = (word.z & below) | (t[2] & (word.z | below));
        below = (word.w & below) | (t[3] & (word.w | below));
    }
    return below;
}

/* A thread's word of `kept`, from its bits and its neighbour's: of row r in even lanes, of row r + 8 in odd ones. */
static __device__ __forceinline__ uint32_t kept_word(uint32_t dropped)
{
    bool odd = threadIdx.x & 1;
    uint32_t upper = dropped & 0x33333333u, lower = dropped >> 2 & 0x33333333u;
    uint32_t other = __shfl_xor_sync(~0u, odd ? upper : lower, 1);
    return odd ? other | lower << 2 : upper | other << 2;
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

enum { FORWARD_THREADS = 256, FORWARD_ROWS = 128 };
enum { FORWARD_V = STAGES * STAGE_BYTES, FORWARD_Q = 2 * FORWARD_V, FORWARD_PANEL = FORWARD_ROWS * 128 };

/* Rows of a block that no query is in: zeros, and the logarithm of nothing. */
template <typename T> static __device__ void write_empty(const attention &a, const standing &at)
{
    head_rows<T> o = rows_of<T>(a.o, at.b, at.h, a.value_depth);
    for (int i = threadIdx.x; i < FORWARD_ROWS * 16; i += FORWARD_THREADS)
        if (at.first + (i >> 4) < a.queries && (i & 15) < o.pieces)
            *(uint4 *)(o.data + (at.first + (i >> 4)) * o.pitch + (i & 15) * 8) = make_uint4(0, 0, 0, 0);
    int row = at.first + threadIdx.x;
    if (threadIdx.x < FORWARD_ROWS && row < a.queries && a.lse.data) head_at<float>(a.lse, at.b, at.h)[row] = -INFINITY;
}

/* Block (x, y, z): 128 queries, head, batch. */
template <typename T, bool DROP, int PANELS>
static __global__ void __launch_bounds__(FORWARD_THREADS, PANELS == 1 ? 2 : 1)
    attend(const __grid_constant__ attention a, const __grid_constant__ drawing drawn)
{
    typedef tensor_core<T> core;
    extern __shared__ __align__(1024) uint8_t shared[];
    const standing at = standing_in<FORWARD_ROWS>(a);
    int64_t b = at.b, h = at.h;
    int group = at.group, warp = at.warp, lane = at.lane, first = at.first, queries = at.queries, keys = at.keys;
    if (first >= queries || keys == 0) {
        write_empty<T>(a, at);
        return;
    }
    if (a.causal && keys > first + FORWARD_ROWS) keys = first + FORWARD_ROWS;
    const int TILES = 2 / PANELS, STAGE = TILES * TILE; /* of a stage */
    int tiles = (keys + TILE - 1) / TILE, stages = (tiles + TILES - 1) / TILES;
    uint32_t at_k = shared_address(shared), at_v = at_k + FORWARD_V, at_q = at_k + FORWARD_Q;
    const head_rows<const T> k_head = rows_of<const T>(a.k, b, h, a.depth),
                             v_head = rows_of<const T>(a.v, b, h, a.value_depth);
    auto load_stage = [&](int s) {
        if (s < stages) {
            uint32_t to = (uint32_t)(s % STAGES) * STAGE_BYTES;
            load_panels<FORWARD_THREADS, STAGE, PANELS>(at_k + to, k_head, s * STAGE, keys);
            load_panels<FORWARD_THREADS, STAGE, PANELS>(at_v + to, v_head, s * STAGE, keys);
        }
        copies_end();
    };
    load_panels<FORWARD_THREADS, FORWARD_ROWS, PANELS>(at_q, rows_of<const T>(a.q, b, h, a.depth), first, queries);
    for (int s = 0; s < STAGES; s++) load_stage(s);

    float c = (float)a.scale * LOG2E, o[PANELS][32], s[32], factor0 = 1, factor1 = 1;
    float largest0 = -INFINITY, largest1 = -INFINITY, total0 = 0, total1 = 0;
    uint32_t q[16 * PANELS], p[16], dropped = 0;
    bool grown = false;
    clear(o);
    int row0 = first + group * 64 + warp * 16 + (lane >> 2); /* and row0 + 8 */
    int half = lane >> 1 & 1, drawn_row = row0 + (lane & 1) * 8;
    uint64_t drawn_first = (uint64_t)((b * a.heads + h) * gridDim.x + blockIdx.x) *
                               (uint64_t)((a.keys + TILE - 1) / TILE) * FORWARD_THREADS +
                           threadIdx.x;
    int64_t head_pairs = (b * a.heads + h) * ((a.keys + TILE - 1) / TILE) * a.queries;
    uint32_t *kept = DROP && a.kept.data && drawn_row < a.queries
                         ? (uint32_t *)a.kept.data + (head_pairs + drawn_row) * 2 + half
                         : NULL;
    copies_wait<STAGES - 1>();
    __syncthreads();
    {
        int row = group * 64 + warp * 16 + (lane & 15);
#pragma unroll
        for (int k = 0; k < 4 * PANELS; k++)
            load_square(q + k * 4, at_q + k / 4 * FORWARD_PANEL + swizzled(row, k % 4 * 2 + (lane >> 4)));
    }
    auto tile_at = [&](uint32_t base, int t) {
        return base + (uint32_t)(t / TILES % STAGES) * STAGE_BYTES + (uint32_t)(t % TILES) * TILE_BYTES;
    };
    /* s = q k^T */
    auto begin_scores = [&](int t) {
        uint32_t k_tile = tile_at(at_k, t);
        core::multiply_first(s, q, matrix_at(k_tile));
#pragma unroll
        for (int k = 1; k < 4 * PANELS; k++)
            core::multiply(s, q + k * 4, matrix_at(k_tile + k / 4 * TILE_BYTES) + k % 4 * ALONG);
        products_end();
    };
    /* o += p v */
    auto begin_values = [&](int t) {
        add_products<T>(o, p, tile_at(at_v, t), TILE_BYTES);
        products_end();
    };
    auto draw_tile = [&](int t) {
        if (!DROP) return;
        dropped = draw_dropped(drawn, drawn_first + (uint64_t)t * FORWARD_THREADS);
        if (!a.kept.data) return;
        uint32_t word = kept_word(dropped);
        if (kept) kept[(int64_t)t * a.queries * 2] = word;
    };
    /* s becomes weights; where `grown`, o must be multiplied by the factors. */
    auto weigh = [&](int t) {
        if ((t + 1) * TILE > keys || (a.causal && (t + 1) * TILE > first + group * 64)) {
            int before = t * TILE + (lane & 3) * 2, seen0 = keys - before, seen1 = seen0;
            if (a.causal) seen0 = min(seen0, row0 + 1 - before), seen1 = min(seen1, row0 + 9 - before);
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (j * 8 + (e & 1) >= (e < 2 ? seen0 : seen1)) s[j * 4 + e] = -INFINITY;
        }
        float most0 = largest0, most1 = largest1;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            most0 = fmaxf(most0, fmaxf(s[j * 4], s[j * 4 + 1]));
            most1 = fmaxf(most1, fmaxf(s[j * 4 + 2], s[j * 4 + 3]));
        }
#pragma unroll
        for (int mask = 1; mask < 4; mask *= 2) {
            most0 = fmaxf(most0, __shfl_xor_sync(~0u, most0, mask));
            most1 = fmaxf(most1, __shfl_xor_sync(~0u, most1, mask));
        }
        grown = __any_sync(~0u, most0 != largest0 || most1 != largest1);
        if (grown) {
            factor0 = exp2_fast((largest0 - most0) * c), factor1 = exp2_fast((largest1 - most1) * c);
            total0 *= factor0, total1 *= factor1;
            largest0 = most0, largest1 = most1;
        }
        float base0 = largest0 * c, base1 = largest1 * c;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float w[4];
#pragma unroll
            for (int e = 0; e < 4; e++) w[e] = exp2_fast(fmaf(s[j * 4 + e], c, e < 2 ? -base0 : -base1));
            total0 += w[0] + w[1], total1 += w[2] + w[3];
#pragma unroll
            for (int e = 0; e < 4; e++) s[j * 4 + e] = DROP && dropped & 1u << (j * 4 + e) ? 0.0f : w[e];
        }
    };
    auto pack_weights = [&]() {
#pragma unroll
        for (int j = 0; j < 16; j++) p[j] = core::pack(s[j * 2], s[j * 2 + 1]);
    };

    products_begin();
    begin_scores(0);
    draw_tile(0);
    products_wait<0>();
    settle(s);
    weigh(0);
    pack_weights();
    for (int t = 1; t < tiles; t++) {
        if (t % TILES == 0) {
            int stage = t / TILES; /* the one before the last has been read by all: its place is free */
            if (stage == 1) copies_wait<1>();
            else copies_wait<0>();
            __syncthreads();
            if (stage > 1) load_stage(stage + 1);
        }
        products_begin();
        begin_scores(t);
        begin_values(t - 1);
        draw_tile(t);
        products_wait<1>();
        settle(s);
        weigh(t);
        products_wait<0>();
        settle_all(o);
        if (grown)
#pragma unroll
            for (int j = 0; j < 32 * PANELS; j++) o[j / 32][j % 32] *= j & 2 ? factor1 : factor0;
        pack_weights();
    }
    products_begin();
    begin_values(tiles - 1);
    products_wait<0>();
    settle_all(o);
#pragma unroll
    for (int mask = 1; mask < 4; mask *= 2) {
        total0 += __shfl_xor_sync(~0u, total0, mask);
        total1 += __shfl_xor_sync(~0u, total1, mask);
    }
    bool live0 = row0 < queries, live1 = row0 + 8 < queries;
    float keep = DROP ? (float)a.drop.scale : 1.0f;
    if ((lane & 3) == 0 && a.lse.data) {
        float *lse = head_at<float>(a.lse, b, h);
        if (row0 < a.queries) lse[row0] = live0 ? (largest0 * c + log2f(total0)) * LN2 : -INFINITY;
        if (row0 + 8 < a.queries) lse[row0 + 8] = live1 ? (largest1 * c + log2f(total1)) * LN2 : -INFINITY;
    }
    store_panels<T>(at_q + group * TILE_BYTES, shared + FORWARD_Q + group * TILE_BYTES, o, live0 ? keep / total0 : 0.0f,
                    live1 ? keep / total1 : 0.0f, rows_of<T>(a.o, b, h, a.value_depth), at.mine, (int)a.queries);
}

/* ---- Launching --------------------------------------------------------------------------------------------------- */

/* Rows of whole pieces of 16 bytes, in one panel or two. */
static bool fits_panels(int64_t depth)
{
    return depth > 0 && depth <= 128 && depth % 8 == 0;
}

/* Rows without gaps that are read 16 bytes at a time. */
static bool has_rows(const attention_heads *x)
{
    return x->data && x->column == 1 && (uintptr_t)x->data % 16 == 0 && x->row % 8 == 0 && x->row <= INT32_MAX &&
           x->head % 8 == 0 && x->batch % 8 == 0;
}

/* Is `kept` large enough, and one piece? */
static bool keeps_bits(const attention *a)
{
    int64_t bytes = (a->keys + 63) / 64 * 8;
    const attention_heads *k = &a->kept;
    return k->column == 1 && k->row == bytes && (a->heads == 1 || k->head == bytes * a->queries) &&
           (a->batch == 1 || k->batch == bytes * a->queries * a->heads) && (uintptr_t)k->data % 16 == 0;
}

extern "C" bool cuda_attention_is_fast(const cuda_device *d, const attention *a, bool gradient)
{
    bool half = a->q.dtype == LS_BF16 || a->q.dtype == LS_F16;
    bool fits = d->architecture == 90 && half && fits_panels(a->depth) && fits_panels(a->value_depth) &&
                a->heads == a->key_heads && !a->mask.data && a->scale > 0 && a->keys > 0 && a->keys < 1 << 24 &&
                a->queries <= (is_wide(a) ? MOST_QUERIES / 2 : MOST_QUERIES) && has_rows(&a->q) && has_rows(&a->k) &&
                has_rows(&a->v) && has_rows(&a->o) && (!a->lse.data || a->lse.row == 1);
    if (a->drop.below) fits = fits && a->drop.scale > 0 && (!a->kept.data || keeps_bits(a));
    if (!fits || !gradient) return fits;
    return has_rows(&a->d_o) && has_rows(&a->dq) && has_rows(&a->dk) && has_rows(&a->dv) &&
           (!a->drop.below || a->kept.data);
}

static drawing drawing_of(const dropping *drop)
{
    drawing d = {};
    d.keys = drop->keys;
    d.part = drop->offset | (uint64_t)1 << 63; /* no other call has this offset, and no other operator this bit */
    uint32_t threshold = (drop->below >> 16) + (drop->below >> 15 & 1);
    if (threshold > 0xffff) threshold = 0xffff;
    for (int i = 0; i < 16; i++) d.threshold[i] = threshold >> i & 1 ? ~0u : 0;
    return d;
}

template <typename T, bool DROP, int PANELS>
static ls_status forward(cudaStream_t stream, const attention *a, ls_message *why)
{
    const size_t bytes = FORWARD_Q + PANELS * FORWARD_PANEL;
    CUDA_TRY(allow(attend<T, DROP, PANELS>, bytes, why));
    dim3 grid = blocks_of(a, a->queries, FORWARD_ROWS);
    attend<T, DROP, PANELS><<<grid, FORWARD_THREADS, bytes, stream>>>(*a, drawing_of(&a->drop));
    return CUDA_LAUNCHED(why);
}

template <typename T> static ls_status forward_of(cudaStream_t stream, const attention *a, ls_message *why)
{
    if (is_wide(a)) return a->drop.below ? forward<T, true, 2>(stream, a, why) : forward<T, false, 2>(stream, a, why);
    return a->drop.below ? forward<T, true, 1>(stream, a, why) : forward<T, false, 1>(stream, a, why);
}

extern "C" ls_status cuda_attention_fast(cuda_device *d, cudaStream_t stream, const attention *a, ls_message *why)
{
    (void)d;
    return a->q.dtype == LS_BF16 ? forward_of<bf16>(stream, a, why) : forward_of<f16>(stream, a, why);
}
