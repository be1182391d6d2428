/* attention_hopper_grad.cu - gradients of attention_hopper.cu, without atomics, so that every run gives the same bits.
 *
 * One kernel has keys and values and walks over queries. Where two blocks have all keys of a head, it makes the
 * gradient of queries too; else a second kernel, which has queries and walks over keys, makes that, and computes the
 * scores again. */
#include "attention_hopper.cuh"
#include "mma.cuh"
#include "row_sums.h"

/* delta [B,H,queries] = sum of do o over a row, times the share that dropout keeps: eight lanes a row. Block (x, y): 32
 * heads of rows, batch. */
template <typename T> static __global__ void __launch_bounds__(256) row_products(const attention a, float *delta)
{
    unsigned heads = (unsigned)a.heads, i = blockIdx.x * 32 + (threadIdx.x >> 3), row = i / heads, h = i % heads;
    int64_t b = blockIdx.y;
    if (row >= a.queries) return; /* eight lanes together */
    int piece = threadIdx.x & 7;
    float sum = 0;
    const T *o = head_at<const T>(a.o, b, h) + row * a.o.row, *d_o = head_at<const T>(a.d_o, b, h) + row * a.d_o.row;
    int columns = row < length_of(a, b) ? (int)a.value_depth : 0;
    for (int column = piece * 8; column < columns; column += 64) {
        uint4 x = *(const uint4 *)(o + column), y = *(const uint4 *)(d_o + column);
        const T *xs = (const T *)&x, *ys = (const T *)&y;
#pragma unroll
        for (int k = 0; k < 8; k++) sum = fmaf(as<float>(xs[k]), as<float>(ys[k]), sum);
    }
    unsigned lanes = 0xffu << (threadIdx.x & 24);
    for (int mask = 1; mask < 8; mask *= 2) sum += __shfl_xor_sync(lanes, sum, mask);
    if (piece == 0) delta[(b * a.heads + h) * a.queries + row] = sum / (float)a.drop.scale;
}

/* Warpgroups of a block, and where things lie in its shared memory. Sums of two panels fill the registers of two
 * warpgroups, those of one panel of three. */
template <int PANELS> struct back {
    enum {
        GROUPS = PANELS == 1 ? 3 : 2,
        THREADS = GROUPS * 128,
        ROWS = GROUPS * 64,
        PANEL = ROWS * 128,
        BYTES = PANELS * PANEL,
        /* of the gradient of queries: stages of keys and values, then queries and do */
        DQ_V = STAGES * STAGE_BYTES,
        DQ_Q = 2 * DQ_V,
        DQ_DO = DQ_Q + BYTES,
        DQ_END = DQ_DO + BYTES,
        /* of the others: keys and values, then stages of queries: q, do, and the words of each warpgroup's keys */
        STAGE_DO = PANELS * TILE_BYTES,
        STAGE_WORDS = 2 * STAGE_DO,
        DKV_STAGE = STAGE_WORDS + 2048,
        DKV_RING = 2 * BYTES,
        DKV_END = DKV_RING + STAGES * DKV_STAGE,
        /* of a pair: gradients of scores, twice, and sums that the other block sent, for three tiles */
        PAIR_DS = DKV_END,
        PAIR_SENT = PAIR_DS + 2 * BYTES,
        PAIR_DQ = PAIR_SENT + GROUPS * TILE * TILE * 4, /* through which a tile passes */
        PAIR_SUMS = PAIR_DQ + TILE_BYTES,               /* of the rows of each warp: of dq, dk, dv */
        SUMS_BYTES = GROUPS * 4 * TILE * 4,
        PAIR_END = PAIR_SUMS + 3 * SUMS_BYTES,
    };
};

/* Gradient of queries. Block (x, y, z): 192 queries (128 of two panels), head, batch. */
template <typename T, bool DROP, int PANELS>
static __global__ void __launch_bounds__(back<PANELS>::THREADS, 1)
    grade_queries(const __grid_constant__ attention a, const float *__restrict__ delta)
{
    typedef tensor_core<T> core;
    typedef back<PANELS> in;
    const int TILES = 2 / PANELS, STAGE = TILES * TILE; /* of a stage */
    extern __shared__ __align__(1024) uint8_t shared[];
    const standing at = standing_in<in::ROWS>(a);
    int64_t b = at.b, h = at.h;
    int group = at.group, warp = at.warp, lane = at.lane, first = at.first, mine = at.mine, queries = at.queries,
        keys = at.keys;
    if (first >= queries) keys = 0;
    if (a.causal && keys > first + in::ROWS) keys = first + in::ROWS;
    int tiles = (keys + TILE - 1) / TILE, stages = (tiles + TILES - 1) / TILES;
    uint32_t at_k = shared_address(shared), at_v = at_k + in::DQ_V;
    uint32_t at_q = at_k + in::DQ_Q + group * TILE_BYTES, at_do = at_k + in::DQ_DO + group * TILE_BYTES;
    const head_rows<const T> k_head = rows_of<const T>(a.k, b, h, a.depth),
                             v_head = rows_of<const T>(a.v, b, h, a.value_depth);
    auto load_stage = [&](int s) {
        if (s < stages) {
            uint32_t to = (uint32_t)(s % STAGES) * STAGE_BYTES;
            load_panels<in::THREADS, STAGE, PANELS>(at_k + to, k_head, s * STAGE, keys);
            load_panels<in::THREADS, STAGE, PANELS>(at_v + to, v_head, s * STAGE, keys);
        }
        copies_end();
    };
    if (tiles) {
        load_panels<in::THREADS, in::ROWS, PANELS>(at_k + in::DQ_Q, rows_of<const T>(a.q, b, h, a.depth), first,
                                                   queries);
        load_panels<in::THREADS, in::ROWS, PANELS>(at_k + in::DQ_DO, rows_of<const T>(a.d_o, b, h, a.value_depth),
                                                   first, queries);
    }
    for (int s = 0; s < STAGES; s++) load_stage(s);

    int row0 = mine + warp * 16 + (lane >> 2), half = lane >> 1 & 1;
    bool live0 = row0 < queries, live1 = row0 + 8 < queries;
    const float *lse = head_at<const float>(a.lse, b, h), *deltas = delta + (b * a.heads + h) * a.queries;
    float lse0 = live0 ? lse[row0] * LOG2E : INFINITY, lse1 = live1 ? lse[row0 + 8] * LOG2E : INFINITY;
    float delta0 = live0 ? deltas[row0] : 0, delta1 = live1 ? deltas[row0 + 8] : 0;
    int64_t head_pairs = (b * a.heads + h) * ((a.keys + TILE - 1) / TILE) * a.queries;
    const uint32_t *kept = (const uint32_t *)a.kept.data + (head_pairs + row0) * 2 + half;
    float c = (float)a.scale * LOG2E, dq[PANELS][32];
    clear(dq);
    for (int t = 0; t < tiles; t++) {
        if (t % TILES == 0) {
            int stage = t / TILES;
            if (stage == 0) copies_wait<STAGES - 1>();
            else if (stage == 1) copies_wait<STAGES - 2>();
            else copies_wait<0>();
            __syncthreads();
            if (stage > 1) load_stage(stage + 1);
        }
        float s[32], dp[32];
        uint32_t place = (uint32_t)(t / TILES % STAGES) * STAGE_BYTES + (uint32_t)(t % TILES) * TILE_BYTES, ds[16],
                 dropped = 0;
        products_begin();
        multiply_rows<T, PANELS>(s, at_q, in::PANEL, at_k + place, TILE_BYTES);
        products_end();
        multiply_rows<T, PANELS>(dp, at_do, in::PANEL, at_v + place, TILE_BYTES);
        products_end();
        if (DROP) {
            const uint32_t *words = kept + (int64_t)t * a.queries * 2;
            dropped = dropped_numbers(live0 ? words[0] : 0, live1 ? words[16] : 0);
        }
        products_wait<1>(); /* also for the products that dq grows by */
        settle(s);
        settle_all(dq);
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
        add_products<T>(dq, ds, at_k + place, TILE_BYTES);
        products_end();
    }
    products_wait<0>();
    settle_all(dq);
    copies_wait<0>();
    float factor = (float)a.scale * (DROP ? (float)a.drop.scale : 1.0f);
    store_panels<T>(at_q, shared + in::DQ_Q + group * TILE_BYTES, dq, factor, factor, rows_of<T>(a.dq, b, h, a.depth),
                    mine, (int)a.queries);
}

enum { WORDS_BYTES = TILE * 8 };

/* To the right. */
static __device__ __forceinline__ uint32_t rotated(uint32_t x, uint32_t bits)
{
    return __funnelshift_r(x, x, bits);
}

template <int PANELS> static size_t keys_bytes(const attention *a, bool pair)
{
    return (size_t)(pair ? back<PANELS>::PAIR_END : back<PANELS>::DKV_END) +
           2 * (((size_t)a->queries + TILE - 1) / TILE * TILE) * sizeof(float);
}

/* Sums over the 16 rows of a warp that store_rows() has left in shared memory, to the warp's row of [warps, 64]: a
 * product with ones. */
template <typename T> static __device__ __forceinline__ void add_up_rows(uint32_t shared, uint8_t *sums)
{
    float *to = (float *)sums + (threadIdx.x >> 5) * TILE;
    int lane = threadIdx.x & 31, row = (threadIdx.x >> 5 & 3) * 16 + (lane & 15);
    uint32_t one = tensor_core<T>::pack(1, 1);
    const uint32_t ones[4] = {one, one, one, one};
#pragma unroll
    for (int k = 0; k < 4; k++) { /* 16 columns */
        uint32_t x[4];
        float left[4] = {0, 0, 0, 0}, right[4] = {0, 0, 0, 0};
        load_square_down(x, shared + swizzled(row, k * 2 + (lane >> 4)));
        multiply(left, ones, x[0], x[1], T());
        multiply(right, ones, x[2], x[3], T());
        if (lane >= 4) continue; /* all rows are the same */
        *(float2 *)(to + k * 16 + lane * 2) = make_float2(left[0], left[1]);
        *(float2 *)(to + k * 16 + 8 + lane * 2) = make_float2(right[0], right[1]);
    }
    __syncwarp();
}

/* Gradients of keys and values. Block (x, y, z): 192 keys (128 of two panels), head, batch. Scores lie transposed: keys
 * are rows.
 *
 * Two blocks that have all keys of a head between them (PAIR, a cluster) also make the gradient of queries: each
 * multiplies the gradients of its scores, which pass through shared memory, by its keys, and sends the sums of three
 * tiles of queries to the other, then adds those of its own three to what it was sent. They also add up the rows of
 * what they write, for a.sums. */
template <typename T, bool DROP, int PANELS, bool PAIR>
static __global__ void __launch_bounds__(back<PANELS>::THREADS, 1)
    grade_keys(const __grid_constant__ attention a, const float *__restrict__ delta)
{
    typedef tensor_core<T> core;
    typedef back<PANELS> in;
    extern __shared__ __align__(1024) uint8_t shared[];
    const standing at = standing_in<in::ROWS>(a);
    int64_t b = at.b, h = at.h;
    int group = at.group, warp = at.warp, lane = at.lane, first = at.first, mine = at.mine, queries = at.queries,
        keys = at.keys;
    int tiles = first < keys ? (queries + TILE - 1) / TILE : 0, begin = a.causal ? first / TILE : 0;
    if (begin > tiles) begin = tiles;
    bool live = mine < keys;
    uint32_t base = shared_address(shared), at_k = base + group * TILE_BYTES, at_v = at_k + in::BYTES;
    uint32_t ring = base + in::DKV_RING;
    int padded = (int)((a.queries + TILE - 1) / TILE * TILE);
    float *row_lse = (float *)(shared + (PAIR ? in::PAIR_END : in::DKV_END)), *row_delta = row_lse + padded;
    const head_rows<const T> q_head = rows_of<const T>(a.q, b, h, a.depth),
                             do_head = rows_of<const T>(a.d_o, b, h, a.value_depth);
    const uint32_t *kept =
        (const uint32_t *)a.kept.data + (b * a.heads + h) * ((a.keys + TILE - 1) / TILE) * a.queries * 2;
    int rank = blockIdx.x, rounds = PAIR ? 2 * in::GROUPS + 1 : tiles - begin;
    /* Of a pair: first those whose sums are sent. */
    auto tile_of = [&](int round) {
        if (!PAIR) return begin + round;
        return round < in::GROUPS ? (1 - rank) * in::GROUPS + round : rank * in::GROUPS + round - in::GROUPS;
    };
    auto has_tile = [&](int round) { return round < (PAIR ? 2 * in::GROUPS : rounds) && tile_of(round) < tiles; };
    auto load_tile = [&](int round) {
        if (has_tile(round)) {
            int t = tile_of(round);
            uint32_t to = ring + (uint32_t)(round % STAGES) * in::DKV_STAGE;
            load_panels<in::THREADS, TILE, PANELS>(to, q_head, t * TILE, queries);
            load_panels<in::THREADS, TILE, PANELS>(to + in::STAGE_DO, do_head, t * TILE, queries);
            if (DROP) { /* each thread one word: of a group's keys the first word of all queries, then the second */
                int of = threadIdx.x / 128, word = threadIdx.x / TILE % 2, row = threadIdx.x % TILE;
                int key_tile = blockIdx.x * in::GROUPS + of;
                if (first + of * TILE < keys && t * TILE + row < a.queries)
                    copy_4(to + in::STAGE_WORDS + threadIdx.x * 4,
                           kept + ((int64_t)key_tile * a.queries + t * TILE + row) * 2 + word);
            }
        }
        copies_end();
    };
    if (tiles) {
        load_panels<in::THREADS, in::ROWS, PANELS>(base, rows_of<const T>(a.k, b, h, a.depth), first, keys);
        load_panels<in::THREADS, in::ROWS, PANELS>(base + in::BYTES, rows_of<const T>(a.v, b, h, a.value_depth), first,
                                                   keys);
    }
    load_tile(0);
    load_tile(1);
    if (PAIR) cluster_arrive_only();
    for (int i = threadIdx.x; i < padded; i += in::THREADS) {
        row_lse[i] = i < queries ? head_at<const float>(a.lse, b, h)[i] * LOG2E : INFINITY;
        row_delta[i] = i < queries ? delta[(b * a.heads + h) * a.queries + i] : 0;
    }
    float c = (float)a.scale * LOG2E, dk[PANELS][32], dv[PANELS][32];
    clear(dk);
    clear(dv);
    int key0 = mine + warp * 16 + (lane >> 2); /* and key0 + 8 */
    float keep = DROP ? (float)a.drop.scale : 1.0f, factor = keep * (float)a.scale;
    /* The gradient of the queries of a tile, by one warpgroup. */
    auto grade_queries_of = [&](int round) {
        int t = tile_of(round), key_tiles = (keys - first + TILE - 1) / TILE;
        float dq[32];
        if (t < tiles) {
            uint64_t scores = matrix_at(base + in::PAIR_DS + (uint32_t)(round & 1) * in::BYTES),
                     all_keys = matrix_at(base);
            products_begin();
            core::multiply_down_first(dq, scores, all_keys);
#pragma unroll
            for (int k = 1; k < 4; k++) core::multiply_down(dq, scores + k * DOWN, all_keys + k * DOWN);
            if (key_tiles > 1)
#pragma unroll
                for (int k = 4; k < 8; k++) core::multiply_down(dq, scores + k * DOWN, all_keys + k * DOWN);
            if (key_tiles > 2)
#pragma unroll
                for (int k = 8; k < 12; k++) core::multiply_down(dq, scores + k * DOWN, all_keys + k * DOWN);
            products_end();
            products_wait<0>();
            settle(dq);
        } else {
#pragma unroll
            for (int k = 0; k < 32; k++) dq[k] = 0;
        }
        uint32_t place = (uint32_t)(round % in::GROUPS * TILE * TILE * 4 + (threadIdx.x & 127) * 16);
        if (round < in::GROUPS) {
            uint32_t there = address_in(base + in::PAIR_SENT + place, 1 - rank);
#pragma unroll
            for (int j = 0; j < 8; j++) store_there(there + j * 2048, dq + j * 4);
            return;
        }
        const float *sent = (const float *)(shared + in::PAIR_SENT + place);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float4 more = *(const float4 *)(sent + j * 512);
            dq[j * 4] += more.x, dq[j * 4 + 1] += more.y, dq[j * 4 + 2] += more.z, dq[j * 4 + 3] += more.w;
        }
        store_rows<T>(base + in::PAIR_DQ, shared + in::PAIR_DQ, dq, factor, factor, rows_of<T>(a.dq, b, h, a.depth),
                      t * TILE, (int)a.queries);
        if (a.sums) add_up_rows<T>(base + in::PAIR_DQ, shared + in::PAIR_SUMS);
    };
    if (PAIR) cluster_wait(); /* the other block has begun */
    for (int round = 0; round < rounds; round++) {
        copies_wait<1>();
        __syncthreads();
        load_tile(round + 2); /* where the tile of the last round was, which all have read */
        if (PAIR) {
            if (round == in::GROUPS + 1) cluster_wait(); /* it has sent its sums */
            if (round > 0 && group == (round - 1) % in::GROUPS) grade_queries_of(round - 1);
        }
        if (live && has_tile(round)) {
            int t = tile_of(round);
            uint32_t place = ring + (uint32_t)(round % STAGES) * in::DKV_STAGE, p[16], ds[16], dropped = 0;
            uint32_t q_tile = place, do_tile = place + in::STAGE_DO;
            float s[32], dp[32];
            products_begin();
            multiply_rows<T, PANELS>(s, at_k, in::PANEL, q_tile, TILE_BYTES);
            products_end();
            multiply_rows<T, PANELS>(dp, at_v, in::PANEL, do_tile, TILE_BYTES);
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
                const uint2 *words = (const uint2 *)(shared + (place - base) + in::STAGE_WORDS + group * WORDS_BYTES +
                                                     (lane & 16 ? WORDS_BYTES / 2 : 0)) +
                                     (lane & 3);
                uint32_t shift = (uint32_t)(warp * 8 + (lane >> 2 & 3)), byte[4];
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    uint2 two = words[k * 8], next = words[k * 8 + 4];
                    byte[k] = (rotated(two.x, shift) & 0x11u) | (rotated(two.y, shift - 1) & 0x22u) |
                              (rotated(next.x, shift - 2) & 0x44u) | (rotated(next.y, shift - 3) & 0x88u);
                }
                dropped =
                    __byte_perm(__byte_perm(byte[0], byte[1], 0x0040), __byte_perm(byte[2], byte[3], 0x0040), 0x5410);
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
            add_products<T>(dv, p, do_tile, TILE_BYTES);
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
            add_products<T>(dk, ds, q_tile, TILE_BYTES);
            products_end();
            if (PAIR) {
                uint32_t to = base + in::PAIR_DS + (uint32_t)(round & 1) * in::BYTES;
                int row = group * 64 + warp * 16 + (lane & 15);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    store_square(to + swizzled(row, k * 2 + (lane >> 4)), ds[k * 4], ds[k * 4 + 1], ds[k * 4 + 2],
                                 ds[k * 4 + 3]);
            }
            products_wait<0>();
            settle_all(dv);
            settle_all(dk);
        }
        if (PAIR && round == in::GROUPS) cluster_arrive();
    }
    copies_wait<0>();
    __syncthreads(); /* results pass through the ring */
    uint32_t through = in::DKV_RING + (uint32_t)group * TILE_BYTES;
    store_panels<T>(base + through, shared + through, dk, factor, factor, rows_of<T>(a.dk, b, h, a.depth), mine,
                    (int)a.keys);
    if (PAIR && a.sums) add_up_rows<T>(base + through, shared + in::PAIR_SUMS + in::SUMS_BYTES);
    store_panels<T>(base + through, shared + through, dv, keep, keep, rows_of<T>(a.dv, b, h, a.value_depth), mine,
                    (int)a.keys);
    if (!PAIR || !a.sums) return;
    add_up_rows<T>(base + through, shared + in::PAIR_SUMS + 2 * in::SUMS_BYTES);
    __syncthreads();
    int of = threadIdx.x / TILE, column = threadIdx.x % TILE;
    if (of >= 3 || column >= a.depth) return;
    const float *sums = (const float *)(shared + in::PAIR_SUMS + of * in::SUMS_BYTES) + column;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < in::GROUPS * 4; i++) sum += sums[i * TILE];
    a.sums[(((b * 2 + rank) * 3 + of) * a.heads + h) * a.depth + column] = sum;
}

/* ---- Launching --------------------------------------------------------------------------------------------------- */

/* Do two blocks have all keys of a head? */
static bool is_pair(const attention *a)
{
    return !is_wide(a) && a->queries == a->keys && a->keys > back<1>::ROWS && a->keys <= 2 * back<1>::ROWS &&
           !a->causal;
}

template <typename T, bool DROP>
static ls_status launch_pairs(cudaStream_t stream, const attention *a, const float *delta, ls_message *why)
{
    size_t bytes = keys_bytes<1>(a, true);
    CUDA_TRY(allow(grade_keys<T, DROP, 1, true>, bytes, why));
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2, cluster.val.clusterDim.y = 1, cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks_of(a, a->keys, back<1>::ROWS);
    config.blockDim = dim3(back<1>::THREADS);
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = &cluster, config.numAttrs = 1;
    return cuda_check(cudaLaunchKernelEx(&config, grade_keys<T, DROP, 1, true>, *a, delta), "kernel launch", why);
}

template <typename T, bool DROP, int PANELS>
static ls_status launch_apart(cudaStream_t stream, const attention *a, const float *delta, ls_message *why)
{
    typedef back<PANELS> in;
    size_t bytes = keys_bytes<PANELS>(a, false);
    CUDA_TRY(allow(grade_queries<T, DROP, PANELS>, in::DQ_END, why));
    CUDA_TRY(allow(grade_keys<T, DROP, PANELS, false>, bytes, why));
    dim3 by_queries = blocks_of(a, a->queries, in::ROWS), by_keys = blocks_of(a, a->keys, in::ROWS);
    if (a->queries) grade_queries<T, DROP, PANELS><<<by_queries, in::THREADS, in::DQ_END, stream>>>(*a, delta);
    grade_keys<T, DROP, PANELS, false><<<by_keys, in::THREADS, bytes, stream>>>(*a, delta);
    return CUDA_LAUNCHED(why);
}

template <typename T, bool DROP>
static ls_status backward(cudaStream_t stream, const attention *a, float *delta, ls_message *why)
{
    int64_t rows = a->heads * a->queries;
    if (rows) row_products<T><<<dim3((unsigned)((rows + 31) / 32), (unsigned)a->batch), 256, 0, stream>>>(*a, delta);
    if (is_pair(a)) return launch_pairs<T, DROP>(stream, a, delta, why);
    return is_wide(a) ? launch_apart<T, DROP, 2>(stream, a, delta, why)
                      : launch_apart<T, DROP, 1>(stream, a, delta, why);
}

template <typename T>
static ls_status backward_of(cudaStream_t stream, const attention *a, float *delta, ls_message *why)
{
    return a->drop.below ? backward<T, true>(stream, a, delta, why) : backward<T, false>(stream, a, delta, why);
}

/* Are the gradients the three parts of rows that one projection wrote side by side, without gaps? */
static bool is_side_by_side(const attention *a)
{
    int64_t width = a->heads * a->depth, pitch = 3 * width;
    const attention_heads *parts[] = {&a->dq, &a->dk, &a->dv};
    bool fits = a->depth == a->value_depth;
    for (int i = 0; i < 3; i++)
        fits = fits && parts[i]->data == (char *)a->dq.data + i * width * 2 && parts[i]->head == a->depth &&
               parts[i]->row == pitch && parts[i]->batch == a->queries * pitch;
    return fits;
}

extern "C" ls_status cuda_attention_fast_grad(cuda_device *d, cudaStream_t stream, const attention *given,
                                              ls_message *why)
{
    attention a = *given;
    ls_workspace space = {};
    CUDA_TRY(cuda_take(d, (size_t)(a.batch * a.heads * a.queries) * sizeof(float), &space, why));
    float *delta = (float *)space.address;
    if (is_pair(&a) && is_side_by_side(&a)) {
        cuda_row_sums of = {a.dq.data, a.dq.dtype, a.batch * a.queries, 3 * a.heads * a.depth};
        a.sums = cuda_leave_sums(d, stream, of, 2 * a.batch);
    }
    ls_status status =
        a.q.dtype == LS_BF16 ? backward_of<bf16>(stream, &a, delta, why) : backward_of<f16>(stream, &a, delta, why);
    cuda_give(d, space);
    return status;
}
