/* nccl.h - the functions of NCCL that groups use, found while a program runs.
 *
 * NCCL is opened with dlopen (libnccl.so.2), so that the plug-in works without it; nothing of it is needed to build the
 * plug-in either, and every build can use it. The declarations are the plug-in's own: this part of NCCL's interface has
 * been the same since 2.14, and tests/cuda/nccl_header.c compares it with nccl.h where there is one. */
#ifndef LOCKSTEP_CUDA_NCCL_H
#define LOCKSTEP_CUDA_NCCL_H

#include <lockstep/group.h>

#include "cuda.h"

typedef struct nccl_comm nccl_comm;

typedef struct nccl_id {
    char bytes[LS_GROUP_ID_BYTES];
} nccl_id;

typedef enum nccl_result {
    NCCL_SUCCESS = 0,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7,
} nccl_result;

typedef enum nccl_type {
    NCCL_INT8 = 0,
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_INT64 = 4,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9,
} nccl_type;

typedef enum nccl_op { NCCL_SUM = 0, NCCL_PROD = 1, NCCL_MAX = 2, NCCL_MIN = 3, NCCL_AVG = 4 } nccl_op;

/* How version 2.14 begins its configuration; later versions give the rest its defaults. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
} nccl_config;
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_CONFIG_VERSION 21400u

/* LS_NCCL(member, "symbol", result, (parameters)) */
#define LS_NCCL_LIST(LS_NCCL)                                                                                          \
    LS_NCCL(version, "ncclGetVersion", nccl_result, (int *version))                                                    \
    LS_NCCL(make_id, "ncclGetUniqueId", nccl_result, (nccl_id * id))                                                   \
    LS_NCCL(open, "ncclCommInitRankConfig", nccl_result,                                                               \
            (nccl_comm * *comm, int size, nccl_id id, int rank, nccl_config *config))                                  \
    LS_NCCL(state, "ncclCommGetAsyncError", nccl_result, (nccl_comm * comm, nccl_result * state))                      \
    LS_NCCL(finalize, "ncclCommFinalize", nccl_result, (nccl_comm * comm))                                             \
    LS_NCCL(destroy, "ncclCommDestroy", nccl_result, (nccl_comm * comm))                                               \
    LS_NCCL(abort, "ncclCommAbort", nccl_result, (nccl_comm * comm))                                                   \
    LS_NCCL(text, "ncclGetErrorString", const char *, (nccl_result result))                                            \
    LS_NCCL(last_error, "ncclGetLastError", const char *, (nccl_comm * comm))                                          \
    LS_NCCL(group_start, "ncclGroupStart", nccl_result, (void))                                                        \
    LS_NCCL(group_end, "ncclGroupEnd", nccl_result, (void))                                                            \
    LS_NCCL(all_reduce, "ncclAllReduce", nccl_result,                                                                  \
            (const void *in, void *out, size_t count, nccl_type type, nccl_op op, nccl_comm *comm, cudaStream_t s))    \
    LS_NCCL(reduce, "ncclReduce", nccl_result,                                                                         \
            (const void *in, void *out, size_t count, nccl_type type, nccl_op op, int root, nccl_comm *comm,           \
             cudaStream_t s))                                                                                          \
    LS_NCCL(reduce_scatter, "ncclReduceScatter", nccl_result,                                                          \
            (const void *in, void *out, size_t count, nccl_type type, nccl_op op, nccl_comm *comm, cudaStream_t s))    \
    LS_NCCL(all_gather, "ncclAllGather", nccl_result,                                                                  \
            (const void *in, void *out, size_t count, nccl_type type, nccl_comm *comm, cudaStream_t s))                \
    LS_NCCL(broadcast, "ncclBroadcast", nccl_result,                                                                   \
            (const void *in, void *out, size_t count, nccl_type type, int root, nccl_comm *comm, cudaStream_t s))

typedef struct nccl_functions {
#define LS_NCCL(member, symbol, result, parameters) result(*member) parameters;
    LS_NCCL_LIST(LS_NCCL)
#undef LS_NCCL
} nccl_functions;

/* NULL and the reason if it is not installed or too old. Loaded once, for good: it has threads. */
const nccl_functions *nccl_load(ls_message *why);

#endif
