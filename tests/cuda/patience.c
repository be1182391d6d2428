/* patience.c - groups of the CUDA plug-in wait for other ranks up to the job's limit, and no longer.
 *
 * NCCL and the GPU are pretended: peers that answer late, never, or fail. */
#include "../../plugins/device-cuda/group.h"
#include "../../plugins/device-cuda/nccl.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

/* ---- NCCL, pretended ---- */

struct nccl_comm {
    int unused;
};

static struct nccl_comm the_comm;
static atomic_int answers_until_done; /* how often it is still in progress; -1: for ever */
static atomic_int result_then;        /* and what comes then */
static atomic_int aborts, closes;
static atomic_bool gpu_hangs;
static char said[1024]; /* what was called */

static void say(const char *format, ...)
{
    size_t used = strlen(said);
    va_list args;
    va_start(args, format);
    vsnprintf(said + used, sizeof said - used, format, args);
    va_end(args);
}

static nccl_result answer(void)
{
    int left = atomic_load(&answers_until_done);
    if (left > 0) atomic_store(&answers_until_done, left - 1);
    return left ? NCCL_IN_PROGRESS : (nccl_result)atomic_load(&result_then);
}

static nccl_result make_id(nccl_id *id)
{
    memset(id, 7, sizeof *id);
    return NCCL_SUCCESS;
}

static nccl_result open_comm(nccl_comm **comm, int size, nccl_id id, int rank, nccl_config *config)
{
    CHECK(size == 3 && rank == 1 && id.bytes[5] == 7 && config->blocking == 0);
    *comm = &the_comm;
    return answer();
}

static nccl_result state_of(nccl_comm *comm, nccl_result *state)
{
    CHECK(comm == &the_comm);
    *state = answer();
    return NCCL_SUCCESS;
}

static nccl_result finalize(nccl_comm *comm)
{
    (void)comm;
    return NCCL_SUCCESS;
}

static nccl_result destroy(nccl_comm *comm)
{
    (void)comm;
    atomic_fetch_add(&closes, 1);
    return NCCL_SUCCESS;
}

/* Ends the kernels. */
static nccl_result abort_comm(nccl_comm *comm)
{
    (void)comm;
    atomic_store(&gpu_hangs, false);
    atomic_fetch_add(&aborts, 1);
    return NCCL_SUCCESS;
}

static const char *text_of(nccl_result result)
{
    return result == NCCL_REMOTE_ERROR ? "remote error" : "some error";
}

static const char *last_error(nccl_comm *comm)
{
    (void)comm;
    return "a peer closed its socket";
}

static nccl_result mark(void)
{
    return NCCL_SUCCESS;
}

static nccl_result all_reduce(const void *in, void *out, size_t count, nccl_type type, nccl_op op, nccl_comm *comm,
                              cudaStream_t stream)
{
    (void)in, (void)out, (void)comm, (void)stream;
    say("all_reduce %zu type %d op %d\n", count, (int)type, (int)op);
    return answer();
}

static nccl_result reduce(const void *in, void *out, size_t count, nccl_type type, nccl_op op, int root,
                          nccl_comm *comm, cudaStream_t stream)
{
    (void)out, (void)type, (void)op, (void)comm, (void)stream;
    say("reduce %zu at %zu to %d\n", count, (size_t)in, root);
    return answer();
}

static nccl_result broadcast(const void *in, void *out, size_t count, nccl_type type, int root, nccl_comm *comm,
                             cudaStream_t stream)
{
    (void)in, (void)comm, (void)stream;
    say("broadcast %zu type %d at %zu from %d\n", count, (int)type, (size_t)out, root);
    return answer();
}

const nccl_functions *nccl_load(ls_message *why)
{
    static const nccl_functions pretended = {.make_id = make_id,
                                             .open = open_comm,
                                             .state = state_of,
                                             .finalize = finalize,
                                             .destroy = destroy,
                                             .abort = abort_comm,
                                             .text = text_of,
                                             .last_error = last_error,
                                             .group_start = mark,
                                             .group_end = mark,
                                             .all_reduce = all_reduce,
                                             .reduce = reduce,
                                             .broadcast = broadcast};
    (void)why;
    return &pretended;
}

/* ---- the GPU, pretended ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = (cudaEvent_t)&the_comm;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    (void)event;
    return atomic_load(&gpu_hangs) ? cudaErrorNotReady : cudaSuccess;
}

ls_status cuda_enter(const cuda_device *d, ls_message *why)
{
    (void)d, (void)why;
    return LS_OK;
}

ls_status cuda_check(cudaError_t error, const char *what, ls_message *why)
{
    (void)what, (void)why;
    return error == cudaSuccess ? LS_OK : LS_ERR_DEVICE;
}

ls_status cuda_refuse(ls_message *why, ls_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return status;
}

static size_t four_bytes(ls_dtype dtype)
{
    (void)dtype;
    return 4;
}

/* ---- tests ---- */

static const ls_host host = {.dtype_size = four_bytes};
static cuda_device device = {.host = &host};
static ls_message why;

static ls_status open_group(int in_progress, void **group)
{
    char id[LS_GROUP_ID_BYTES];
    said[0] = '\0';
    atomic_store(&answers_until_done, in_progress);
    atomic_store(&result_then, NCCL_SUCCESS);
    CHECK(cuda_groups.id(&device, id, &why) == LS_OK);
    return cuda_groups.open(&device, id, 1, 3, group, &why);
}

static void peers_that_are_late_are_waited_for(void)
{
    void *group = NULL;
    int before = atomic_load(&closes);
    CHECK(open_group(20, &group) == LS_OK && group);
    atomic_store(&answers_until_done, 20);
    ls_comm_call call = {.kind = LS_COMM_ALL_REDUCE, .dtype = LS_F32, .op = LS_REDUCE_MEAN, .count = 5};
    CHECK(cuda_groups.run(group, NULL, &call, &why) == LS_OK);
    CHECK_TEXT(said, "all_reduce 5 type 7 op 4\n");
    CHECK(cuda_groups.error(group, &why) == LS_OK && cuda_groups_lost(&why) == LS_OK);
    cuda_groups.close(group);
    CHECK(atomic_load(&closes) == before + 1);
}

static void peers_that_never_come_are_given_up(void)
{
    void *group = NULL;
    int before = atomic_load(&aborts);
    CHECK(open_group(-1, &group) == LS_ERR_PEER && !group);
    CHECK_TEXT(why.text, "NCCL, opening: other ranks did not answer within 1 s");
    CHECK(atomic_load(&aborts) == before + 1);
}

static void a_collective_that_hangs_is_ended(void)
{
    void *group = NULL;
    CHECK(open_group(0, &group) == LS_OK);
    atomic_store(&gpu_hangs, true);
    ls_comm_call call = {.kind = LS_COMM_ALL_REDUCE, .dtype = LS_F32, .op = LS_REDUCE_SUM, .count = 5};
    CHECK(cuda_groups.run(group, NULL, &call, &why) == LS_OK);
    while (atomic_load(&gpu_hangs)) usleep(1000); /* as a host does that waits for the stream */
    CHECK(cuda_groups_lost(&why) == LS_ERR_PEER);
    CHECK_TEXT(why.text,
               "NCCL: a collective did not end within 1 s (LOCKSTEP_COMM_TIMEOUT): a process of the job hangs");
    CHECK(cuda_groups.error(group, &why) == LS_ERR_PEER);
    CHECK(cuda_groups.run(group, NULL, &call, &why) == LS_ERR_PEER);
    cuda_groups.close(group);
    CHECK(cuda_groups_lost(&why) == LS_OK);
}

static void a_failure_of_a_peer_is_named(void)
{
    void *group = NULL;
    CHECK(open_group(0, &group) == LS_OK);
    atomic_store(&result_then, NCCL_REMOTE_ERROR);
    CHECK(cuda_groups.error(group, &why) == LS_ERR_PEER);
    CHECK_TEXT(why.text, "NCCL, between calls: remote error; a peer closed its socket");
    cuda_groups.abort(group);
    cuda_groups.close(group);
}

static void parts_of_different_sizes_are_one_submission(void)
{
    void *group = NULL;
    const int64_t counts[] = {2, 0, 3};
    CHECK(open_group(0, &group) == LS_OK);
    ls_comm_call gather = {.kind = LS_COMM_ALL_GATHER, .dtype = LS_F32, .count = 0, .counts = counts};
    CHECK(cuda_groups.run(group, NULL, &gather, &why) == LS_OK);
    CHECK_TEXT(said, "broadcast 8 type 1 at 0 from 0\nbroadcast 12 type 1 at 8 from 2\n");
    said[0] = '\0';
    ls_comm_call scatter = {.kind = LS_COMM_REDUCE_SCATTER, .dtype = LS_F32, .op = LS_REDUCE_SUM, .counts = counts};
    CHECK(cuda_groups.run(group, NULL, &scatter, &why) == LS_OK);
    CHECK_TEXT(said, "reduce 2 at 0 to 0\nreduce 3 at 8 to 2\n");
    cuda_groups.close(group);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    setenv("LOCKSTEP_COMM_TIMEOUT", "1", 1);
    CHECK_RUN(peers_that_are_late_are_waited_for);
    CHECK_RUN(peers_that_never_come_are_given_up);
    CHECK_RUN(a_collective_that_hangs_is_ended);
    CHECK_RUN(a_failure_of_a_peer_is_named);
    CHECK_RUN(parts_of_different_sizes_are_one_submission);
    return check_done();
}
