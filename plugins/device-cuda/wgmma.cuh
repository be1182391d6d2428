/* wgmma.cuh - products of a warpgroup (128 threads) on Hopper's tensor cores, and what feeds them.
 *
 * All matrices in shared memory are rows of 64 half numbers, 128 bytes, in groups of 8 rows that begin at multiples of
 * 1024 bytes; the 16-byte pieces of row r are exchanged by r % 8 (swizzle), so that both rows and columns are read
 * without conflicts. A product is 64 x 64 with 16 terms; sums are 32 numbers a thread: number 4 j + e lies in row
 * 16 warp + lane / 4 + (e > 1 ? 8 : 0) and column 8 j + 2 (lane % 4) + e % 2.
 *
 * Files that include this are compiled for sm_90a alone.
 *
 * ptxas keeps products asynchronous only if nothing but a product defines the sums that one in flight adds to: a chain
 * of products begins with multiply_first(), and `settle` marks where sums may be used. */
#ifndef LOCKSTEP_CUDA_WGMMA_CUH
#define LOCKSTEP_CUDA_WGMMA_CUH

#include "number.cuh"

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Where the 16 bytes `piece` of a row lie behind the first row. */
static __device__ __forceinline__ uint32_t swizzled(int row, int piece)
{
    return (uint32_t)(row * 128 + ((piece ^ (row & 7)) << 4));
}

/* Describes rows from an address on, for products along rows and along columns alike. The next 16 terms are 2 further
 * along rows, 128 further down columns. */
static __device__ __forceinline__ uint64_t matrix_at(uint32_t address)
{
    return (uint64_t)((address & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

enum { ALONG = 2, DOWN = 128 };

#define WGMMA_SUMS                                                                                                     \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"  \
    "%30,%31}"
#define WGMMA_EACH(how, d)                                                                                             \
    how(d[0]), how(d[1]), how(d[2]), how(d[3]), how(d[4]), how(d[5]), how(d[6]), how(d[7]), how(d[8]), how(d[9]),      \
        how(d[10]), how(d[11]), how(d[12]), how(d[13]), how(d[14]), how(d[15]), how(d[16]), how(d[17]), how(d[18]),    \
        how(d[19]), how(d[20]), how(d[21]), how(d[22]), how(d[23]), how(d[24]), how(d[25]), how(d[26]), how(d[27]),    \
        how(d[28]), how(d[29]), how(d[30]), how(d[31])
#define WGMMA_ADD(x) "+f"(x)
#define WGMMA_SET(x) "=f"(x)

#define WGMMA_SHARED(type, how, scale, d, a, b, down)                                                                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " WGMMA_SUMS ", %32, %33, " scale       \
                 ", 1, 1, %34, %34;\n"                                                                                 \
                 : WGMMA_EACH(how, d)                                                                                  \
                 : "l"(a), "l"(b), "n"(down))
#define WGMMA_REGISTERS(type, how, scale, d, a, b, down)                                                               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " WGMMA_SUMS                            \
                 ", {%32,%33,%34,%35}, %36, " scale ", 1, 1, %37;\n"                                                   \
                 : WGMMA_EACH(how, d)                                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(down))

/* Products for one half type. d (+)= a b^T, rows of both in shared memory, or a from registers. Down: b is read down
 * its columns, a b; and a in shared memory too, a^T b. */
template <typename T> struct tensor_core;

#define WGMMA_TYPE(T, type, packing)                                                                                   \
    template <> struct tensor_core<T> {                                                                                \
        static __device__ __forceinline__ void multiply_first(float (&d)[32], uint64_t a, uint64_t b)                  \
        {                                                                                                              \
            WGMMA_SHARED(type, WGMMA_SET, "0", d, a, b, 0);                                                            \
        }                                                                                                              \
        static __device__ __forceinline__ void multiply(float (&d)[32], uint64_t a, uint64_t b)                        \
        {                                                                                                              \
            WGMMA_SHARED(type, WGMMA_ADD, "1", d, a, b, 0);                                                            \
        }                                                                                                              \
        static __device__ __forceinline__ void multiply_first(float (&d)[32], const uint32_t *a, uint64_t b)           \
        {                                                                                                              \
            WGMMA_REGISTERS(type, WGMMA_SET, "0", d, a, b, 0);                                                         \
        }                                                                                                              \
        static __device__ __forceinline__ void multiply(float (&d)[32], const uint32_t *a, uint64_t b)                 \
        {                                                                                                              \
            WGMMA_REGISTERS(type, WGMMA_ADD, "1", d, a, b, 0);                                                         \
        }                                                                                                              \
        static __device__ __forceinline__ void multiply_down(float (&d)[32], const uint32_t *a, uint64_t b)            \
        {                                                                                                              \
            WGMMA_REGISTERS(type, WGMMA_ADD, "1", d, a, b, 1);                                                         \
        }                                                                                                              \
        static __device__ __forceinline__ void multiply_down_first(float (&d)[32], uint64_t a, uint64_t b)             \
        {                                                                                                              \
            WGMMA_SHARED(type, WGMMA_SET, "0", d, a, b, 1);                                                            \
        }                                                                                                              \
        static __device__ __forceinline__ void multiply_down(float (&d)[32], uint64_t a, uint64_t b)                   \
        {                                                                                                              \
            WGMMA_SHARED(type, WGMMA_ADD, "1", d, a, b, 1);                                                            \
        }                                                                                                              \
        static __device__ __forceinline__ uint32_t pack(float low, float high)                                         \
        {                                                                                                              \
            uint32_t pair;                                                                                             \
            asm(packing " %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));                                            \
            return pair;                                                                                               \
        }                                                                                                              \
    };
WGMMA_TYPE(bf16, "bf16", "cvt.rn.bf16x2.f32")
WGMMA_TYPE(f16, "f16", "cvt.rn.f16x2.f32")

/* Before the first of some products, after registers that they read or add to were written. */
static __device__ __forceinline__ void products_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* The products since the last call are a group. */
static __device__ __forceinline__ void products_end(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Wait until at most N groups are in flight. */
template <int N> static __device__ __forceinline__ void products_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

static __device__ __forceinline__ void settle(float (&d)[32])
{
#pragma unroll
    for (int i = 0; i < 32; i++) asm volatile("" : "+f"(d[i])::"memory");
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

/* 16 bytes to shared memory, later; zeros unless `inside`. */
static __device__ __forceinline__ void copy_16(uint32_t to, const void *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

static __device__ __forceinline__ void copy_4(uint32_t to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

static __device__ __forceinline__ void copies_end(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Wait for all but the last N groups, and let products see what they wrote. */
template <int N> static __device__ __forceinline__ void copies_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The 16 x 16 numbers of a warp, between registers in the layout of operands and shared memory. */
static __device__ __forceinline__ void load_square(uint32_t *to, uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

/* The same of the transposed numbers. */
static __device__ __forceinline__ void load_square_down(uint32_t *to, uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

static __device__ __forceinline__ void store_square(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}

/* ---- Two blocks of a cluster ------------------------------------------------------------------------------------- */

/* Waiting for the other block needs both: to arrive, and to wait. What was written before arriving is seen behind the
 * wait; arriving without that is cheaper. */
static __device__ __forceinline__ void cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

static __device__ __forceinline__ void cluster_arrive_only(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

static __device__ __forceinline__ void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* An address of shared memory, in block `rank` of the cluster. */
static __device__ __forceinline__ uint32_t address_in(uint32_t address, int rank)
{
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

static __device__ __forceinline__ void store_there(uint32_t to, const float *x)
{
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
                 : "memory");
}

static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
