/* comm.c - all-reduce between two processes of this host: gradients of BERT-base, a bucket, a few numbers.
 *
 * "in place": the data is in shared memory, as gradients are. "copied": it is not. The second process repeats calls
 * until the first has ended. The rate is bytes of the array divided by time. Small calls are repeated many times, since
 * for a single one the other process may already be waiting. Peers are MPIs and PyTorch's gloo; bench/peers.py makes
 * them repeat as often. */
#include "bench.h"

#include "comm/shm/shm.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct comm_case {
    const char *name;
    bench_unit unit;
    int64_t bytes;
    int repeat;
    bool copied;
    ls_dtype dtype;
} comm_case;

static const comm_case cases[] = {
    {"all-reduce 440 MB in place", BENCH_GBS, 440000000, 1, false, LS_F32},
    {"all-reduce 25 MiB in place", BENCH_GBS, 25 << 20, 1, false, LS_F32},
    {"all-reduce 25 MiB copied", BENCH_GBS, 25 << 20, 1, true, LS_F32},
    {"all-reduce 1 MiB in place", BENCH_GBS, 1 << 20, 4, false, LS_F32},
    {"all-reduce 1 MiB copied", BENCH_GBS, 1 << 20, 4, true, LS_F32},
    {"all-reduce 64 KiB in place", BENCH_NS, 64 << 10, 20, false, LS_F32},
    {"all-reduce 64 KiB copied", BENCH_NS, 64 << 10, 20, true, LS_F32},
    {"all-reduce 4 KiB copied", BENCH_NS, 4 << 10, 100, true, LS_F32},
    {"all-reduce 220 MB in place", BENCH_GBS, 220000000, 1, false, LS_BF16},
};

typedef struct comm_state {
    ls_comm *comm;
    char *data;
    int64_t count;
    ls_dtype dtype;
    int repeat;
    bool copied;
    pid_t other;
    cpu_set_t before;
} comm_state;

static void comm_call(void *arg)
{
    comm_state *s = arg;
    ls_message why;
    for (int i = 0; i < s->repeat; i++)
        ls_comm_all_reduce(s->comm, s->data, s->count, s->dtype, LS_REDUCE_SUM, "bench", &why);
}

static void pin(int rank)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)(rank % (int)sysconf(_SC_NPROCESSORS_ONLN)), &one);
    sched_setaffinity(0, sizeof one, &one);
}

static bool join(comm_state *s, const comm_case *c, int file, int rank)
{
    ls_message why;
    pin(rank);
    ls_segment *segment = ls_segment_open(file, 2, &why);
    s->comm = segment ? ls_shm_join(segment, rank, &why) : NULL;
    ls_segment_release(segment);
    if (!s->comm) return false;
    s->data = c->copied ? calloc(1, (size_t)c->bytes) : s->comm->table->share(s->comm, (size_t)c->bytes, &why);
    s->dtype = c->dtype;
    s->count = c->bytes / (int64_t)ls_dtype_size(c->dtype);
    s->repeat = c->repeat;
    s->copied = c->copied;
    for (int64_t i = 0; s->data && i < c->bytes; i += 4096) s->data[i] = 0; /* touch all pages */
    return s->data != NULL;
}

static void *comm_setup(ls_run *run, const bench_item *item)
{
    static comm_state s;
    (void)run;
    const comm_case *c = item->shape;
    ls_message why;
    s = (comm_state){.other = -1};
    sched_getaffinity(0, sizeof s.before, &s.before);
    int file = ls_segment_make(2, &why);
    if (file < 0) return NULL;
    s.other = fork();
    if (s.other == 0) {
        if (join(&s, c, file, 1))
            while (ls_comm_all_reduce(s.comm, s.data, s.count, s.dtype, LS_REDUCE_SUM, "bench", &why) == LS_OK) {}
        _exit(0);
    }
    return join(&s, c, file, 0) ? &s : NULL;
}

static void comm_release(void *arg)
{
    comm_state *s = arg;
    ls_comm_close(s->comm);
    if (s->copied) free(s->data);
    waitpid(s->other, NULL, 0);
    sched_setaffinity(0, sizeof s->before, &s->before);
}

void bench_add_comm(int threads)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const comm_case *c = &cases[i];
        double work = c->unit == BENCH_NS ? c->repeat : (double)c->bytes * c->repeat;
        bench_item *item =
            bench_add(c->unit, BENCH_PEAK_NONE, threads, work, "comm/%s/%s", ls_dtype_name(c->dtype), c->name);
        item->shape = c;
        item->setup = comm_setup;
        item->call = comm_call;
        item->release = comm_release;
    }
}
