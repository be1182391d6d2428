/* nccl_header.c - the plug-in's own declarations of NCCL are those of nccl.h. Compiling it is the test. */
#include <nccl.h>

#include "../../plugins/device-cuda/nccl.h"

_Static_assert(NCCL_UNIQUE_ID_BYTES == LS_GROUP_ID_BYTES && sizeof(nccl_id) == sizeof(ncclUniqueId), "identity");
_Static_assert((int)NCCL_SUCCESS == ncclSuccess && (int)NCCL_REMOTE_ERROR == ncclRemoteError &&
                   (int)NCCL_IN_PROGRESS == ncclInProgress,
               "results");
_Static_assert((int)NCCL_INT8 == ncclInt8 && (int)NCCL_UINT8 == ncclUint8 && (int)NCCL_INT32 == ncclInt32 &&
                   (int)NCCL_INT64 == ncclInt64 && (int)NCCL_FLOAT16 == ncclFloat16 &&
                   (int)NCCL_FLOAT32 == ncclFloat32 && (int)NCCL_FLOAT64 == ncclFloat64 &&
                   (int)NCCL_BFLOAT16 == ncclBfloat16,
               "types");
_Static_assert((int)NCCL_SUM == ncclSum && (int)NCCL_PROD == ncclProd && (int)NCCL_MAX == ncclMax &&
                   (int)NCCL_MIN == ncclMin && (int)NCCL_AVG == ncclAvg,
               "reductions");
_Static_assert(offsetof(nccl_config, magic) == offsetof(ncclConfig_t, magic) &&
                   offsetof(nccl_config, version) == offsetof(ncclConfig_t, version) &&
                   offsetof(nccl_config, blocking) == offsetof(ncclConfig_t, blocking),
               "configuration");
_Static_assert(NCCL_CONFIG_VERSION == NCCL_VERSION(2, 14, 0), "version");
