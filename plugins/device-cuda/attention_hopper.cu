/* attention_hopper.cu - attention of heads of 64 in half types, on the tensor cores of Hopper: forward, and gradients
 * without atomics, so that every run gives the same bits.
 *
 * Warpgroups of 128 threads have 64 rows each. Forward and the gradient of queries walk over keys and values, which
 * arrive in three stages of 128; the gradient of keys and values walks over queries. Scores are computed again in both
 * gradients: two more products of seven, but no block needs the sums of another.
 *
 * Dropout draws 16 bits for a score, half of what the CPU draws, so it drops other scores than the CPU does; the same
 * ones in every run with the same seed. `kept` has them for the gradients, a bit set where a score is dropped: in each
 * head, [tiles of 64 keys][queries] pairs of 32-bit words; bit 4 j + i of word w is key 8 j + 4 w + i of the tile. */
#include "attention.h"
#include "wgmma.cuh"

enum {
    TILE = 64,
    TILE_BYTES = TILE * 128,
    STAGE = 2 * TILE, /* keys that arrive together */
    STAGES = 3,
    STAGE_BYTES = STAGE * 128,
};

#define LOG2E 1.44269504088896341f
#define LN2 0.69314718055994531f

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

template <typename T> static __device__ __forceinline__ T *head_at(const attention_heads &x, int64_t b, int64_t h)
{
    return (T *)x.data + b * x.batch + h * x.head;
}

/* Rows [first, first + count) of a head to shared memory, by THREADS threads; zeros from `limit` on. */
template <int THREADS, typename T>
static __device__ __forceinline__ void load_rows(uint32_t to, const T *head, int64_t pitch, int first, int count,
                                                 int limit)
{
    for (int i = threadIdx.x; i < count * 8; i += THREADS) {
        int row = i >> 3, piece = i & 7;
        bool inside = first + row < limit;
        copy_16(to + swizzled(row, piece), head + (inside ? first + row : 0) * pitch + piece * 8, inside);
    }
}

/* 64 rows of sums, scaled, to memory: through the warp's 16 rows of shared memory, so that whole rows are written. Rows
 * from `limit` on do not exist. */
template <typename T>
static __device__ __forceinline__ void store_rows(uint32_t shared, const uint8_t *generic, const float (&d)[32],
                                                  float scale0, float scale1, T *head, int64_t pitch, int first,
                                                  int limit)
{
    typedef tensor_core<T> core;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, mine = warp * 16 + (lane & 15);
#pragma unroll
    for (int k = 0; k < 4; k++)
        store_square(shared + swizzled(mine, k * 2 + (lane >> 4)), core::pack(d[k * 8] * scale0, d[k * 8 + 1] * scale0),
                     core::pack(d[k * 8 + 2] * scale1, d[k * 8 + 3] * scale1),
                     core::pack(d[k * 8 + 4] * scale0, d[k * 8 + 5] * scale0),
                     core::pack(d[k * 8 + 6] * scale1, d[k * 8 + 7] * scale1));
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int row = warp * 16 + k * 4 + (lane >> 3), piece = lane & 7;
        if (first + row < limit)
            *(uint4 *)(head + (first + row) * pitch + piece * 8) = *(const uint4 *)(generic + swizzled(row, piece));
    }
    __syncwarp();
}

/* ---- Random bits ------------------------------------------------------------------------------------------------- */

/* What all threads share: the keys of Philox's rounds, which part of its counters is this call's, and the bits of the
 * threshold, lowest first, as whole words. */
typedef struct drawing {
    uint32_t key[20], part[2];
    uint32_t threshold[16];
} drawing;

static __device__ __forceinline__ uint4 draw(const drawing &d, uint64_t counter)
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = d.part[0], c3 = d.part[1];
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ d.key[2 * round],
                 n2 = (uint32_t)(p0 >> 32) ^ c3 ^ d.key[2 * round + 1];
        c1 = (uint32_t)p1, c3 = (uint32_t)p0;
        c0 = n0, c2 = n2;
    }
    return make_uint4(c0, c1, c2, c3);
}

/* 32 bits, each set with the probability of being dropped: 32 numbers of 16 bits are compared with the threshold at
 * once, bit by bit from the lowest. */
static __device__ __forceinline__ uint32_t draw_dropped(const drawing &d, uint64_t number)
{
    uint32_t below = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint4 word = draw(d, number * 4 + i);
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

/* From the words of rows r and r + 8: bit 4 j + e is set where number 4 j + e of the thread is dropped. */
static __device__ __forceinline__ uint32_t dropped_numbers(uint32_t upper, uint32_t lower)
{
    int shift = threadIdx.x & 1 ? 2 : 0;
    return (upper >> shift & 0x33333333u) | (lower >> shift & 0x33333333u) << 2;
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

enum { FORWARD_THREADS = 256, FORWARD_ROWS = 128 };
enum { FORWARD_V = STAGES * STAGE_BYTES, FORWARD_Q = 2 * FORWARD_V, FORWARD_BYTES = FORWARD_Q + FORWARD_ROWS * 128 };

/* Rows of a block that no query is in: zeros, and the logarithm of nothing. */
template <typename T> static __device__ void write_empty(const attention &a, int64_t b, int64_t h, int first)
{
    T *o = head_at<T>(a.o, b, h);
    for (int i = threadIdx.x; i < FORWARD_ROWS * 8; i += FORWARD_THREADS)
        if (first + (i >> 3) < a.queries)
            *(uint4 *)(o + (first + (i >> 3)) * a.o.row + (i & 7) * 8) = make_uint4(0, 0, 0, 0);
    int row = first + threadIdx.x;
    if (threadIdx.x < FORWARD_ROWS && row < a.queries && a.lse.data) head_at<float>(a.lse, b, h)[row] = -INFINITY;
}

/* Block (x, y, z): 128 queries, head, batch. */
template <typename T, bool DROP>
static __global__ void __launch_bounds__(FORWARD_THREADS, 2)
    attend(const __grid_constant__ attention a, const __grid_constant__ drawing drawn)
{
    typedef tensor_core<T> core;
    extern __shared__ __align__(1024) uint8_t shared[];
    int64_t b = blockIdx.z, h = blockIdx.y;
    int group = threadIdx.x >> 7, warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31,
        first = blockIdx.x * FORWARD_ROWS;
    int64_t length = length_of(a, b);
    int queries = (int)(length < a.queries ? length : a.queries), keys = (int)(length < a.keys ? length : a.keys);
    if (first >= queries || keys == 0) {
        write_empty<T>(a, b, h, first);
        return;
    }
    if (a.causal && keys > first + FORWARD_ROWS) keys = first + FORWARD_ROWS;
    int tiles = (keys + TILE - 1) / TILE, stages = (tiles + 1) / 2;
    uint32_t at_k = shared_address(shared), at_v = at_k + FORWARD_V, at_q = at_k + FORWARD_Q;
    const T *k_head = head_at<const T>(a.k, b, h), *v_head = head_at<const T>(a.v, b, h);
    auto load_stage = [&](int s) {
        if (s < stages) {
            uint32_t to = (uint32_t)(s % STAGES) * STAGE_BYTES;
            load_rows<FORWARD_THREADS>(at_k + to, k_head, a.k.row, s * STAGE, STAGE, keys);
            load_rows<FORWARD_THREADS>(at_v + to, v_head, a.v.row, s * STAGE, STAGE, keys);
        }
        copies_end();
    };
    load_rows<FORWARD_THREADS>(at_q, head_at<const T>(a.q, b, h), a.q.row, first, FORWARD_ROWS, queries);
    for (int s = 0; s < STAGES; s++) load_stage(s);

    float c = (float)a.scale * LOG2E, o[32], s[32], factor0 = 1, factor1 = 1;
    float largest0 = -INFINITY, largest1 = -INFINITY, total0 = 0, total1 = 0;
    uint32_t q[16], p[16], dropped = 0;
    bool grown = false;
#pragma unroll
    for (int i = 0; i < 32; i++) o[i] = 0;
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
        for (int k = 0; k < 4; k++) load_square(q + k * 4, at_q + swizzled(row, k * 2 + (lane >> 4)));
    }
    auto tile_at = [&](uint32_t base, int t) {
        return matrix_at(base + (uint32_t)(t / 2 % STAGES) * STAGE_BYTES + (uint32_t)(t & 1) * TILE_BYTES);
    };
    auto begin_scores = [&](int t) { /* s = q k^T */
                                     uint64_t k_tile = tile_at(at_k, t);
                                     core::multiply_first(s, q, k_tile);
#pragma unroll
                                     for (int k = 1; k < 4; k++) core::multiply(s, q + k * 4, k_tile + k * ALONG);
                                     products_end();
    };
    auto begin_values = [&](int t) { /* o += p v */
                                     uint64_t v_tile = tile_at(at_v, t);
#pragma unroll
                                     for (int k = 0; k < 4; k++) core::multiply_down(o, p + k * 4, v_tile + k * DOWN);
                                     products_end();
    };
    auto draw_tile = [&](int t) {
        if (!DROP) return;
        dropped = draw_dropped(drawn, drawn_first + (uint64_t)t * FORWARD_THREADS);
        if (!a.kept.data) return;
        uint32_t word = kept_word(dropped);
        if (kept) kept[(int64_t)t * a.queries * 2] = word;
    };
    auto weigh = [&](int t) { /* s becomes weights; where `grown`, o must be multiplied by the factors */
                              if ((t + 1) * TILE > keys || (a.causal && (t + 1) * TILE > first + group * 64)) {
                                  int before = t * TILE + (lane & 3) * 2, seen0 = keys - before, seen1 = seen0;
                                  if (a.causal)
                                      seen0 = min(seen0, row0 + 1 - before), seen1 = min(seen1, row0 + 9 - before);
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
                                  factor0 = exp2_fast((largest0 - most0) * c),
                                  factor1 = exp2_fast((largest1 - most1) * c);
                                  total0 *= factor0, total1 *= factor1;
                                  largest0 = most0, largest1 = most1;
                              }
                              float base0 = largest0 * c, base1 = largest1 * c;
#pragma unroll
                              for (int j = 0; j < 8; j++) {
                                  float w[4];
#pragma unroll
                                  for (int e = 0; e < 4; e++)
                                      w[e] = exp2_fast(fmaf(s[j * 4 + e], c, e < 2 ? -base0 : -base1));
                                  total0 += w[0] + w[1], total1 += w[2] + w[3];
#pragma unroll
                                  for (int e = 0; e < 4; e++)
                                      s[j * 4 + e] = DROP && dropped & 1u << (j * 4 + e) ? 0.0f : w[e];
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
        if (!(t & 1)) {
            int stage = t / 2; /* the one before the last has been read by all: its place is free */
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
        settle(o);
        if (grown)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                o[j * 4] *= factor0, o[j * 4 + 1] *= factor0;
                o[j * 4 + 2] *= factor1, o[j * 4 + 3] *= factor1;
            }
        pack_weights();
    }
    products_begin();
    begin_values(tiles - 1);
    products_wait<0>();
    settle(o);
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
    store_rows<T>(at_q + group * TILE_BYTES, shared + FORWARD_Q + group * TILE_BYTES, o, live0 ? keep / total0 : 0.0f,
                  live1 ? keep / total1 : 0.0f, head_at<T>(a.o, b, h), a.o.row, first + group * 64, (int)a.queries);
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

/* delta [B,H,queries] = sum of do o over a row, times the share that dropout keeps: eight lanes a row. */
template <typename T> static __global__ void __launch_bounds__(256) row_products(const attention a, float *delta)
{
    int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) >> 3, all = a.batch * a.heads * a.queries;
    if (i >= all) return; /* eight lanes together */
    int64_t row = i / a.heads % a.queries, h = i % a.heads, b = i / a.heads / a.queries;
    int piece = threadIdx.x & 7;
    float sum = 0;
    if (row < length_of(a, b)) {
        const T *o = head_at<const T>(a.o, b, h) + row * a.o.row + piece * 8;
        const T *d_o = head_at<const T>(a.d_o, b, h) + row * a.d_o.row + piece * 8;
        uint4 x = *(const uint4 *)o, y = *(const uint4 *)d_o;
        const T *xs = (const T *)&x, *ys = (const T *)&y;
#pragma unroll
        for (int k = 0; k < 8; k++) sum = fmaf(as<float>(xs[k]), as<float>(ys[k]), sum);
    }
    unsigned lanes = 0xffu << (threadIdx.x & 24);
    for (int mask = 1; mask < 8; mask *= 2) sum += __shfl_xor_sync(lanes, sum, mask);
    if (piece == 0) delta[(b * a.heads + h) * a.queries + row] = sum / (float)a.drop.scale;
}

enum { GROUPS = 3, BACK_THREADS = GROUPS * 128, BACK_ROWS = GROUPS * 64, BACK_BYTES = BACK_ROWS * 128 };
enum { DQ_V = STAGES * STAGE_BYTES, DQ_Q = 2 * DQ_V, DQ_DO = DQ_Q + BACK_BYTES, DQ_BYTES = DQ_DO + BACK_BYTES };

/* Gradient of queries. Block (x, y, z): 192 queries, head, batch. */
template <typename T, bool DROP>
static __global__ void __launch_bounds__(BACK_THREADS, 1)
    grade_queries(const __grid_constant__ attention a, const float *__restrict__ delta)
{
    typedef tensor_core<T> core;
    extern __shared__ __align__(1024) uint8_t shared[];
    int64_t b = blockIdx.z, h = blockIdx.y;
    int group = __shfl_sync(~0u, threadIdx.x >> 7, 0), warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31;
    int first = blockIdx.x * BACK_ROWS, mine = first + group * 64;
    int64_t length = length_of(a, b);
    int queries = (int)(length < a.queries ? length : a.queries), keys = (int)(length < a.keys ? length : a.keys);
    if (first >= queries) keys = 0;
    if (a.causal && keys > first + BACK_ROWS) keys = first + BACK_ROWS;
    int tiles = (keys + TILE - 1) / TILE, stages = (tiles + 1) / 2;
    uint32_t at_k = shared_address(shared), at_v = at_k + DQ_V;
    uint32_t at_q = at_k + DQ_Q + group * TILE_BYTES, at_do = at_k + DQ_DO + group * TILE_BYTES;
    const T *k_head = head_at<const T>(a.k, b, h), *v_head = head_at<const T>(a.v, b, h);
    auto load_stage = [&](int s) {
        if (s < stages) {
            uint32_t to = (uint32_t)(s % STAGES) * STAGE_BYTES;
            load_rows<BACK_THREADS>(at_k + to, k_head, a.k.row, s * STAGE, STAGE, keys);
            load_rows<BACK_THREADS>(at_v + to, v_head, a.v.row, s * STAGE, STAGE, keys);
        }
        copies_end();
    };
    if (tiles) {
        load_rows<BACK_THREADS>(at_k + DQ_Q, head_at<const T>(a.q, b, h), a.q.row, first, BACK_ROWS, queries);
        load_rows<BACK_THREADS>(at_k + DQ_DO, head_at<const T>(a.d_o, b, h), a.d_o.row, first, BACK_ROWS, queries);
    }
    for (int s = 0; s < STAGES; s++) load_stage(s);

    int row0 = mine + warp * 16 + (lane >> 2), half = lane >> 1 & 1;
    bool live0 = row0 < queries, live1 = row0 + 8 < queries;
    const float *lse = head_at<const float>(a.lse, b, h), *deltas = delta + (b * a.heads + h) * a.queries;
    float lse0 = live0 ? lse[row0] * LOG2E : INFINITY, lse1 = live1 ? lse[row0 + 8] * LOG2E : INFINITY;
    float delta0 = live0 ? deltas[row0] : 0, delta1 = live1 ? deltas[row0 + 8] : 0;
    int64_t head_pairs = (b * a.heads + h) * ((a.keys + TILE - 1) / TILE) * a.queries;
    const uint32_t *kept = (const uint32_t *)a.kept.data + (head_pairs + row0) * 2 + half;
    float c = (float)a.scale * LOG2E, dq[32];
#pragma unroll
    for (int i = 0; i < 32; i++) dq[i] = 0;
    for (int t = 0; t < tiles; t++) {
        if (!(t & 1)) {
            int stage = t / 2;
            if (stage == 0) copies_wait<STAGES - 1>();
            else if (stage == 1) copies_wait<STAGES - 2>();
            else copies_wait<0>();
            __syncthreads();
            if (stage > 1) load_stage(stage + 1);
        }
        float s[32], dp[32];
        uint32_t place = (uint32_t)(t / 2 % STAGES) * STAGE_BYTES + (uint32_t)(t & 1) * TILE_BYTES, ds[16], dropped = 0;
        uint64_t q_rows = matrix_at(at_q), do_rows = matrix_at(at_do);
        uint64_t k_tile = matrix_at(at_k + place), v_tile = matrix_at(at_v + place);
        products_begin();
        core::multiply_first(s, q_rows, k_tile);
#pragma unroll
        for (int k = 1; k < 4; k++) core::multiply(s, q_rows + k * ALONG, k_tile + k * ALONG);
        products_end();
        core::multiply_first(dp, do_rows, v_tile);
#pragma unroll
        for (int k = 1; k < 4; k++) core::multiply(dp, do_rows + k * ALONG, v_tile + k * ALONG);
        products_end();
        if (DROP) {
            const uint32_t *words = kept + (int64_t)t * a.queries * 2;
            dropped = dropped_numbers(live0 ? words[0] : 0, live1 ? words[16] : 0);
        }
        products_wait<1>(); /* also for the products that dq grows by */
        settle(s);
        settle(dq);
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[j * 4 + e] = exp2_fast(fmaf(s[j * 4 + e], c, e < 2 ? -lse0 : -lse1));
        if ((t + 1) * TILE > keys || (a.causal && (t + 1) * TILE > mine)) {
            int before = t * TILE + (lane & 3) * 2, seen0 = keys - before, seen1 = seen0;
            if (a.causal) seen0 = min(seen0, row0 + 1 - before), seen1 = min(seen1, row0 + 9 - before);
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (j * 8 + (e & 1) >= (e < 2 ? seen0 : seen1)) s[j * 4 + e] = 0;
        }
        products_wait<0>();
        settle(dp);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float g[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float d = DROP && dropped & 1u << (j * 4 + e) ? 0.0f : dp[j * 4 + e];
                g[e] = s[j * 4 + e] * (d - (e < 2 ? delta0 : delta1));
            }
            ds[j * 2] = core::pack(g[0], g[1]), ds[j * 2 + 1] = core::pack(g[2], g[3]);
        }
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) core::multiply_down(dq, ds + k * 4, k_tile + k * DOWN);
        products_end();
    }
    products_wait<0>();
    settle(dq);
    copies_wait<0>();
    float factor = (float)a.scale * (DROP ? (float)a.drop.scale : 1.0f);
    store_rows<T>(at_q, shared + DQ_Q + group * TILE_BYTES, dq, factor, factor, head_at<T>(a.dq, b, h), a.dq.row, mine,
                  (int)a.queries);
}

/* A stage of queries: q, do, and the words of each warpgroup's keys. */
enum { WORDS_BYTES = TILE * 8, DKV_STAGE = 2 * TILE_BYTES + 2048, DKV_RING = 2 * BACK_BYTES };
enum { DKV_ROWS = DKV_RING + STAGES * DKV_STAGE, DKV_MOST_QUERIES = 8192 };

static size_t keys_bytes(const attention *a)
{
    return DKV_ROWS + 2 * (((size_t)a->queries + TILE - 1) / TILE * TILE) * sizeof(float);
}

/* Gradients of keys and values. Block (x, y, z): 192 keys, head, batch. Scores lie transposed: keys are rows. */
template <typename T, bool DROP>
static __global__ void __launch_bounds__(BACK_THREADS, 1)
    grade_keys(const __grid_constant__ attention a, const float *__restrict__ delta)
{
    typedef tensor_core<T> core;
    extern __shared__ __align__(1024) uint8_t shared[];
    int64_t b = blockIdx.z, h = blockIdx.y;
    int group = __shfl_sync(~0u, threadIdx.x >> 7, 0), warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31;
    int first = blockIdx.x * BACK_ROWS, mine = first + group * 64;
    int64_t length = length_of(a, b);
    int queries = (int)(length < a.queries ? length : a.queries), keys = (int)(length < a.keys ? length : a.keys);
    int tiles = first < keys ? (queries + TILE - 1) / TILE : 0, begin = a.causal ? first / TILE : 0;
    if (begin > tiles) begin = tiles;
    bool live = mine < keys;
    uint32_t base = shared_address(shared), at_k = base + group * TILE_BYTES, at_v = at_k + BACK_BYTES;
    uint32_t ring = base + DKV_RING;
    int padded = (int)((a.queries + TILE - 1) / TILE * TILE);
    float *row_lse = (float *)(shared + DKV_ROWS), *row_delta = row_lse + padded;
    const T *q_head = head_at<const T>(a.q, b, h), *do_head = head_at<const T>(a.d_o, b, h);
    const uint32_t *kept =
        (const uint32_t *)a.kept.data + (b * a.heads + h) * ((a.keys + TILE - 1) / TILE) * a.queries * 2;
    auto load_tile = [&](int t) {
        if (t < tiles) {
            uint32_t to = ring + (uint32_t)(t % STAGES) * DKV_STAGE;
            load_rows<BACK_THREADS>(to, q_head, a.q.row, t * TILE, TILE, queries);
            load_rows<BACK_THREADS>(to + TILE_BYTES, do_head, a.d_o.row, t * TILE, TILE, queries);
            if (DROP && threadIdx.x < GROUPS * TILE) {
                int of = threadIdx.x / TILE, row = threadIdx.x % TILE, key_tile = blockIdx.x * GROUPS + of;
                if (first + of * TILE < keys && t * TILE + row < a.queries)
                    copy_8(to + 2 * TILE_BYTES + of * WORDS_BYTES + row * 8,
                           kept + ((int64_t)key_tile * a.queries + t * TILE + row) * 2);
            }
        }
        copies_end();
    };
    if (tiles) {
        load_rows<BACK_THREADS>(base, head_at<const T>(a.k, b, h), a.k.row, first, BACK_ROWS, keys);
        load_rows<BACK_THREADS>(base + BACK_BYTES, head_at<const T>(a.v, b, h), a.v.row, first, BACK_ROWS, keys);
    }
    load_tile(begin);
    load_tile(begin + 1);
    for (int i = threadIdx.x; i < padded; i += BACK_THREADS) {
        row_lse[i] = i < queries ? head_at<const float>(a.lse, b, h)[i] * LOG2E : INFINITY;
        row_delta[i] = i < queries ? delta[(b * a.heads + h) * a.queries + i] : 0;
    }
    float c = (float)a.scale * LOG2E, dk[32], dv[32];
#pragma unroll
    for (int i = 0; i < 32; i++) dk[i] = dv[i] = 0;
    int key0 = mine + warp * 16 + (lane >> 2); /* and key0 + 8 */
    for (int t = begin; t < tiles; t++) {
        copies_wait<1>();
        __syncthreads();
        load_tile(t + 2); /* where tile t - 1 was, which all have read */
        if (!live) continue;
        uint32_t place = ring + (uint32_t)(t % STAGES) * DKV_STAGE, p[16], ds[16], dropped = 0;
        uint64_t k_rows = matrix_at(at_k), v_rows = matrix_at(at_v);
        uint64_t q_tile = matrix_at(place), do_tile = matrix_at(place + TILE_BYTES);
        float s[32], dp[32];
        products_begin();
        core::multiply_first(s, k_rows, q_tile);
#pragma unroll
        for (int k = 1; k < 4; k++) core::multiply(s, k_rows + k * ALONG, q_tile + k * ALONG);
        products_end();
        core::multiply_first(dp, v_rows, do_tile);
#pragma unroll
        for (int k = 1; k < 4; k++) core::multiply(dp, v_rows + k * ALONG, do_tile + k * ALONG);
        products_end();
#define DROPPED(j, e) (DROP && dropped & 1u << ((2 * (j)&3) + 8 * ((j) / 2) + ((e)&1) + 4 * ((e) >> 1)))
        const float2 *lse = (const float2 *)(row_lse + t * TILE) + (lane & 3);
        const float2 *deltas = (const float2 *)(row_delta + t * TILE) + (lane & 3);
        products_wait<1>();
        settle(s);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float2 l = lse[j * 4];
#pragma unroll
            for (int e = 0; e < 4; e++) s[j * 4 + e] = exp2_fast(fmaf(s[j * 4 + e], c, e & 1 ? -l.y : -l.x));
        }
        if (DROP) { /* bit 8 (i / 4) + i % 4, and 4 further for key0 + 8, of the i-th query of this thread */
            const uint4 *words = (const uint4 *)(shared + (place - base) + 2 * TILE_BYTES + group * WORDS_BYTES);
            int shift = warp * 8 + (lane >> 2 & 3);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                uint4 two = words[j * 4 + (lane & 3)];
                uint32_t even = (lane & 16 ? two.y : two.x) >> shift, odd = (lane & 16 ? two.w : two.z) >> shift;
                int to = (2 * j & 3) + 8 * (j / 2);
                dropped |= (even & 0x11u) << to | (odd & 0x11u) << (to + 1);
            }
        }
        if (mine + 64 > keys || (a.causal && t * TILE < mine + 64)) {
            int query0 = t * TILE + (lane & 3) * 2;
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    int key = key0 + (e >> 1) * 8;
                    if (key >= keys || (a.causal && key > query0 + j * 8 + (e & 1))) s[j * 4 + e] = 0;
                }
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float w[4];
#pragma unroll
            for (int e = 0; e < 4; e++) w[e] = DROPPED(j, e) ? 0.0f : s[j * 4 + e];
            p[j * 2] = core::pack(w[0], w[1]), p[j * 2 + 1] = core::pack(w[2], w[3]);
        }
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) core::multiply_down(dv, p + k * 4, do_tile + k * DOWN);
        products_end();
        products_wait<1>();
        settle(dp);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float2 l = deltas[j * 4];
            float g[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                g[e] = s[j * 4 + e] * ((DROPPED(j, e) ? 0.0f : dp[j * 4 + e]) - (e & 1 ? l.y : l.x));
            ds[j * 2] = core::pack(g[0], g[1]), ds[j * 2 + 1] = core::pack(g[2], g[3]);
        }
#undef DROPPED
        products_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) core::multiply_down(dk, ds + k * 4, q_tile + k * DOWN);
        products_end();
        products_wait<0>();
        settle(dv);
        settle(dk);
    }
    copies_wait<0>();
    __syncthreads(); /* results pass through the ring */
    float keep = DROP ? (float)a.drop.scale : 1.0f, factor = keep * (float)a.scale;
    uint32_t through = DKV_RING + (uint32_t)group * TILE_BYTES;
    store_rows<T>(base + through, shared + through, dk, factor, factor, head_at<T>(a.dk, b, h), a.dk.row, mine,
                  (int)a.keys);
    store_rows<T>(base + through, shared + through, dv, keep, keep, head_at<T>(a.dv, b, h), a.dv.row, mine,
                  (int)a.keys);
}

/* ---- Launching --------------------------------------------------------------------------------------------------- */

/* Rows of 64 numbers without gaps that are read 16 bytes at a time. */
static bool has_rows(const attention_heads *x)
{
    return x->data && x->column == 1 && (uintptr_t)x->data % 16 == 0 && x->row % 8 == 0 && x->head % 8 == 0 &&
           x->batch % 8 == 0;
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
    bool fits = d->architecture == 90 && half && a->depth == 64 && a->value_depth == 64 && a->heads == a->key_heads &&
                !a->mask.data && a->scale > 0 && a->keys > 0 && a->keys < 1 << 24 && a->queries <= DKV_MOST_QUERIES &&
                has_rows(&a->q) && has_rows(&a->k) && has_rows(&a->v) && has_rows(&a->o) &&
                (!a->lse.data || a->lse.row == 1);
    if (a->drop.below) fits = fits && a->drop.scale > 0 && (!a->kept.data || keeps_bits(a));
    if (!fits || !gradient) return fits;
    return has_rows(&a->d_o) && has_rows(&a->dq) && has_rows(&a->dk) && has_rows(&a->dv) &&
           (!a->drop.below || a->kept.data);
}

static drawing drawing_of(const dropping *drop)
{
    drawing d = {};
    for (uint32_t round = 0; round < 10; round++) {
        d.key[2 * round] = (uint32_t)drop->seed + round * 0x9E3779B9u;
        d.key[2 * round + 1] = (uint32_t)(drop->seed >> 32) + round * 0xBB67AE85u;
    }
    d.part[0] = (uint32_t)drop->offset; /* no other call has this offset, and no other operator this bit */
    d.part[1] = (uint32_t)(drop->offset >> 32) | 1u << 31;
    uint32_t threshold = (drop->below >> 16) + (drop->below >> 15 & 1);
    if (threshold > 0xffff) threshold = 0xffff;
    for (int i = 0; i < 16; i++) d.threshold[i] = threshold >> i & 1 ? ~0u : 0;
    return d;
}

template <typename Kernel> static ls_status allow(Kernel *kernel, size_t bytes, ls_message *why)
{
    return cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                      "attention: shared memory", why);
}

static dim3 blocks_of(const attention *a, int64_t rows, int each)
{
    return dim3((unsigned)((rows + each - 1) / each), (unsigned)a->heads, (unsigned)a->batch);
}

template <typename T, bool DROP> static ls_status forward(cudaStream_t stream, const attention *a, ls_message *why)
{
    CUDA_TRY(allow(attend<T, DROP>, FORWARD_BYTES, why));
    dim3 grid = blocks_of(a, a->queries, FORWARD_ROWS);
    attend<T, DROP><<<grid, FORWARD_THREADS, FORWARD_BYTES, stream>>>(*a, drawing_of(&a->drop));
    return CUDA_LAUNCHED(why);
}

template <typename T, bool DROP>
static ls_status backward(cudaStream_t stream, const attention *a, float *delta, ls_message *why)
{
    size_t bytes = keys_bytes(a);
    int64_t lanes = a->batch * a->heads * a->queries * 8;
    CUDA_TRY(allow(grade_queries<T, DROP>, DQ_BYTES, why));
    CUDA_TRY(allow(grade_keys<T, DROP>, bytes, why));
    if (lanes) row_products<T><<<(unsigned)((lanes + 255) / 256), 256, 0, stream>>>(*a, delta);
    dim3 by_queries = blocks_of(a, a->queries, BACK_ROWS), by_keys = blocks_of(a, a->keys, BACK_ROWS);
    if (lanes) grade_queries<T, DROP><<<by_queries, BACK_THREADS, DQ_BYTES, stream>>>(*a, delta);
    grade_keys<T, DROP><<<by_keys, BACK_THREADS, bytes, stream>>>(*a, delta);
    return CUDA_LAUNCHED(why);
}

extern "C" ls_status cuda_attention_fast(cuda_device *d, cudaStream_t stream, const attention *a, ls_message *why)
{
    (void)d;
    bool bf = a->q.dtype == LS_BF16;
    if (a->drop.below) return bf ? forward<bf16, true>(stream, a, why) : forward<f16, true>(stream, a, why);
    return bf ? forward<bf16, false>(stream, a, why) : forward<f16, false>(stream, a, why);
}

extern "C" ls_status cuda_attention_fast_grad(cuda_device *d, cudaStream_t stream, const attention *a, ls_message *why)
{
    bool bf = a->q.dtype == LS_BF16;
    ls_workspace space = {};
    CUDA_TRY(cuda_take(d, (size_t)(a->batch * a->heads * a->queries) * sizeof(float), &space, why));
    float *delta = (float *)space.address;
    ls_status status;
    if (a->drop.below)
        status = bf ? backward<bf16, true>(stream, a, delta, why) : backward<f16, true>(stream, a, delta, why);
    else status = bf ? backward<bf16, false>(stream, a, delta, why) : backward<f16, false>(stream, a, delta, why);
    cuda_give(d, space);
    return status;
}
