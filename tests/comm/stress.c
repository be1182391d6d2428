/* stress.c - random calls on several communicators at once, at any pace, checked against values that each rank computes
 * for all; with cancels, and with ranks that fail or die in the middle.
 *
 *     test_comm_stress [--transport FILE] [--layout 0001] [--rounds N] [--seed N] [case]
 *
 * All ranks draw the same calls from the same seed, which a failure reports. Under mpirun, with --transport, it is one
 * of the ranks itself. */
#include <signal.h>

#include "comm/calls.h"
#include "comm/queue.h"
#include "comm/shm/meet.h"

enum { LANES = 4, PENDING = 6, SHARED = 1 << 20, PATIENCE = 60 /* s */ };

/* Parameters of a round; the same for all ranks. */
typedef enum plan { PLAIN, CANCELLED, FAILED, KILLED } plan;

static struct {
    uint64_t seed;
    int rounds, calls;
    int64_t most; /* elements of an array */
    const char *layout;
    plan plan;
    bool slow; /* ranks may pause for seconds */
} given = {.seed = 1, .rounds = 2, .calls = 60, .most = 300000};

/* ---- random numbers ---- */

typedef struct dice {
    uint64_t seed, next;
} dice;

static uint32_t roll(dice *d, uint32_t sides)
{
    return ls_philox(d->seed, d->next++).lane[0] % sides;
}

/* The same on all ranks. */
static uint32_t known(uint64_t seed, uint64_t what, uint32_t sides)
{
    return ls_philox(seed ^ UINT64_C(0x9e3779b97f4a7c15), what).lane[0] % sides;
}

/* ---- a communicator, and calls on it ---- */

typedef struct lane {
    ls_comm *comm;
    ls_comm_queue *queue; /* NULL: calls run directly */
    int names[CREW_MOST]; /* ranks in the job */
    char *shared;
    bool shared_is_used;
} lane;

typedef struct task {
    ls_comm_request request;
    ls_comm_call call;
    lane *lane;
    uint64_t number;
    char *in, *out, *want; /* owned, unless shared */
    const char *result;    /* where `want` is expected; NULL: nowhere */
    int64_t elements;      /* of want */
    int64_t counts[CREW_MOST], out_counts[CREW_MOST];
    bool shared, under_way;
} task;

typedef struct player {
    ls_comm *all, *vote;
    lane lanes[LANES];
    task pending[PENDING];
    dice own;
    crew_result *result;
} player;

static size_t bytes_of(const task *t, int64_t elements)
{
    return (size_t)elements * ls_dtype_size(t->call.dtype);
}

static int64_t draw_count(dice *d, int64_t most)
{
    static const int64_t limits[] = {2, 40, 40, 3000, 3000, 9000, 70000, INT64_MAX};
    int64_t limit = limits[roll(d, 8)];
    return roll(d, (uint32_t)(limit < most ? limit : most));
}

/* Parts of an array: equal ones of `count`, or any, some of them empty. */
static int64_t draw_parts(task *t, dice *d, int64_t count)
{
    int size = t->lane->comm->size;
    bool differ = roll(d, 2);
    uint64_t salt = roll(d, 1u << 30);
    int64_t total = 0;
    count /= size;
    for (int r = 0; r < size; r++) {
        t->counts[r] = !differ                       ? count
                       : known(salt, (uint64_t)r, 4) ? known(salt, (uint64_t)r + 99, (uint32_t)count + 5)
                                                     : 0;
        total += t->counts[r];
    }
    t->call.counts = differ ? t->counts : NULL;
    t->call.count = t->counts[t->lane->comm->rank];
    return total;
}

static int64_t before_part(const task *t, int rank)
{
    int64_t sum = 0;
    for (int r = 0; r < rank; r++) sum += t->counts[r];
    return sum;
}

/* Memory for `count` elements, shared or not. */
static char *take_room(task *t, int64_t elements, bool shared)
{
    t->shared = shared && t->lane->shared && !t->lane->shared_is_used && bytes_of(t, elements) <= SHARED;
    if (t->shared) t->lane->shared_is_used = true;
    return t->shared ? t->lane->shared : room(t->call.dtype, elements);
}

static char *reduced_here(task *t, int64_t salt, int64_t elements)
{
    crew_names = t->lane->names;
    char *sum = reduced(t->lane->comm->size, t->call.dtype, t->call.op, salt, elements);
    crew_names = NULL;
    return sum;
}

static void expect(task *t, char *want, const char *result, int64_t elements)
{
    t->want = want;
    t->result = result;
    t->elements = elements;
}

static void prepare_reduction(task *t, dice *d, int64_t salt, int64_t count)
{
    ls_comm_call *call = &t->call;
    int me = t->lane->comm->rank;
    bool in_place = roll(d, 2), shared = roll(d, 2);
    int64_t total = call->kind == LS_COMM_REDUCE_SCATTER ? draw_parts(t, d, count) : count;
    if (call->kind != LS_COMM_REDUCE_SCATTER) call->count = count;
    t->in = take_room(t, total, shared);
    fill(call->dtype, t->in, me, salt, total);
    char *want = reduced_here(t, salt, total);
    if (call->kind == LS_COMM_REDUCE_SCATTER) {
        size_t at = bytes_of(t, before_part(t, me));
        memmove(want, want + at, bytes_of(t, call->count));
        t->out = in_place ? NULL : room(call->dtype, call->count);
        call->out = in_place ? t->in + at : t->out;
    } else {
        in_place = in_place && call->kind == LS_COMM_ALL_REDUCE;
        t->out = in_place ? NULL : room(call->dtype, call->count);
        call->out = in_place ? t->in : t->out;
    }
    call->in = t->in;
    expect(t, want, call->kind == LS_COMM_REDUCE && me != call->peer ? NULL : call->out, call->count);
}

static void prepare_gathering(task *t, dice *d, int64_t salt, int64_t count)
{
    ls_comm_call *call = &t->call;
    int me = t->lane->comm->rank, size = t->lane->comm->size;
    bool in_place = roll(d, 2) && call->kind == LS_COMM_ALL_GATHER, shared = roll(d, 2);
    int64_t total = draw_parts(t, d, count);
    char *all = room(call->dtype, total);
    for (int r = 0; r < size; r++) fill(call->dtype, all + bytes_of(t, before_part(t, r)), r, salt, t->counts[r]);
    size_t at = bytes_of(t, before_part(t, me));
    if (call->kind == LS_COMM_SCATTER) {
        t->in = all;
        t->out = room(call->dtype, call->count);
        call->in = me == call->peer ? t->in : NULL;
        call->out = t->out;
        expect(t, filled(call->dtype, me, salt, call->count), t->out, call->count);
        return;
    }
    t->out = take_room(t, total, shared);
    t->in = in_place ? NULL : filled(call->dtype, me, salt, call->count);
    memset(t->out, 0, bytes_of(t, total));
    if (in_place) fill(call->dtype, t->out + at, me, salt, call->count);
    call->in = in_place ? t->out + at : t->in;
    call->out = t->out;
    expect(t, all, call->kind == LS_COMM_GATHER && me != call->peer ? NULL : t->out, total);
}

static void prepare_exchange(task *t, dice *d, int64_t salt, int64_t count)
{
    ls_comm_call *call = &t->call;
    int me = t->lane->comm->rank, size = t->lane->comm->size;
    bool differ = roll(d, 2);
    int64_t sent = 0, got = 0;
    count /= size;
    for (int r = 0; r < size; r++) {
        uint64_t way = (uint64_t)(me * size + r), back = (uint64_t)(r * size + me), of = (uint64_t)salt;
        sent += t->counts[r] = differ ? known(of, way, (uint32_t)count + 3) * known(of, way + 500, 2) : count;
        got += t->out_counts[r] = differ ? known(of, back, (uint32_t)count + 3) * known(of, back + 500, 2) : count;
    }
    t->in = room(call->dtype, sent);
    t->out = room(call->dtype, got);
    char *want = room(call->dtype, got), *to = t->in, *from = want;
    for (int r = 0; r < size; r++) {
        fill(call->dtype, to, me, salt + r, t->counts[r]);
        fill(call->dtype, from, r, salt + me, t->out_counts[r]);
        to += bytes_of(t, t->counts[r]);
        from += bytes_of(t, t->out_counts[r]);
    }
    call->count = differ ? 0 : count;
    call->counts = differ ? t->counts : NULL;
    call->out_counts = differ ? t->out_counts : NULL;
    call->in = t->in;
    call->out = t->out;
    expect(t, want, t->out, got);
}

static void prepare_one_way(task *t, int64_t salt, int from, int64_t count)
{
    ls_comm_call *call = &t->call;
    int me = t->lane->comm->rank;
    call->count = count;
    t->in = filled(call->dtype, me, salt, count);
    t->out = room(call->dtype, count);
    if (call->kind == LS_COMM_BROADCAST && me == from) memcpy(t->out, t->in, bytes_of(t, count));
    call->in = t->in;
    call->out = t->out;
    expect(t, filled(call->dtype, from, salt, count), call->kind == LS_COMM_SEND ? NULL : t->out, count);
}

/* The next call on a communicator; false: this rank does not take part. */
static bool prepare(task *t, lane *on, uint64_t number)
{
    dice d = {given.seed * 1000003 + number, 0};
    int size = on->comm->size, me = on->comm->rank;
    ls_comm_kind kind = roll(&d, LS_COMM_RECEIVE);
    ls_dtype dtype = roll(&d, 2) ? LS_F32 : (ls_dtype)(LS_BOOL + (int)roll(&d, LS_DTYPE_COUNT - LS_BOOL));
    ls_reduction op = roll(&d, LS_REDUCE_NONE);
    if (op == LS_REDUCE_MEAN && !ls_dtype_is_float(dtype)) op = LS_REDUCE_SUM;
    int peer = (int)(roll(&d, 1 << 20) % (uint32_t)size), other = (int)(roll(&d, 1 << 20) % (uint32_t)size);
    int64_t count = draw_count(&d, given.most), salt = (int64_t)number * 100;
    *t = (task){.lane = on, .number = number};
    t->call = (ls_comm_call){.kind = kind, .dtype = dtype, .op = op, .peer = peer, .site = "stress"};
    switch (kind) {
    case LS_COMM_BARRIER: t->call.dtype = LS_U8; return true;
    case LS_COMM_ALL_REDUCE:
    case LS_COMM_REDUCE:
    case LS_COMM_REDUCE_SCATTER: prepare_reduction(t, &d, salt, count); return true;
    case LS_COMM_ALL_GATHER:
    case LS_COMM_GATHER:
    case LS_COMM_SCATTER: prepare_gathering(t, &d, salt, count); return true;
    case LS_COMM_ALL_TO_ALL: prepare_exchange(t, &d, salt, count); return true;
    case LS_COMM_BROADCAST: prepare_one_way(t, salt, peer, count); return true;
    default: break;
    }
    if (peer == other || (me != peer && me != other)) return false;
    t->call.kind = me == peer ? LS_COMM_SEND : LS_COMM_RECEIVE;
    t->call.peer = me == peer ? other : peer;
    prepare_one_way(t, salt, peer, count);
    return true;
}

static void forget(task *t)
{
    if (t->shared) t->lane->shared_is_used = false;
    if (t->in != t->lane->shared) free(t->in);
    if (t->out != t->lane->shared) free(t->out);
    free(t->want);
    *t = (task){0};
}

static void judge(task *t, ls_status status)
{
    const ls_comm *comm = t->lane->comm;
    CHECK_MSG(status || !t->result || memcmp(t->result, t->want, bytes_of(t, t->elements)) == 0,
              "seed %llu, call %llu: %s of %lld %s on rank %d of %d is wrong", (unsigned long long)given.seed,
              (unsigned long long)t->number, ls_comm_kind_name(t->call.kind), (long long)t->call.count,
              ls_dtype_name(t->call.dtype), comm->rank, comm->size);
    forget(t);
}

/* ---- running calls ---- */

static ls_status work(ls_comm *comm, ls_comm_request *request, ls_message *why)
{
    return ls_comm_run(comm, &((task *)request)->call, why);
}

static ls_status finish(player *p, task *t)
{
    if (!t->under_way) return LS_OK;
    ls_status status = ls_comm_wait(t->lane->queue, &t->request, &p->result->why);
    judge(t, status);
    return status;
}

static ls_status finish_all(player *p)
{
    ls_status first = LS_OK;
    for (int i = 0; i < PENDING; i++) {
        ls_status status = finish(p, &p->pending[i]);
        if (!first) first = status;
    }
    return first;
}

static ls_status play_one(player *p, uint64_t number)
{
    lane *on = &p->lanes[known(given.seed, number, LANES)];
    task *t = &p->pending[roll(&p->own, PENDING)];
    ls_status status = finish(p, t);
    if (status || !prepare(t, on, number)) return status;
    if (on->queue && known(given.seed, number + 77777, 3)) {
        t->request = (ls_comm_request){.work = work};
        t->under_way = true;
        ls_comm_start(on->queue, &t->request);
        return LS_OK;
    }
    ls_comm *comm = on->queue ? ls_comm_queue_enter(on->queue) : on->comm;
    status = ls_comm_run(comm, &t->call, &p->result->why);
    if (on->queue) ls_comm_queue_leave(on->queue);
    judge(t, status);
    return status;
}

static void dawdle(player *p)
{
    uint32_t how = roll(&p->own, 256);
    if (how < 32) usleep(roll(&p->own, 300));
    else if (how < 34) usleep(roll(&p->own, 30000));
    else if (how == 34 && given.slow) usleep(roll(&p->own, 3000000));
}

/* Groups of the job, in any order of ranks; some are on one host. */
static bool open_lanes(player *p)
{
    ls_message *why = &p->result->why;
    p->vote = p->all->table->split(p->all, 0, p->all->rank, why);
    if (!p->vote) return false;
    p->vote->ignores_cancel = true;
    for (int i = 0; i < LANES; i++) {
        lane *l = &p->lanes[i];
        uint64_t salt = given.seed * 31 + (uint64_t)i;
        int colour = i < 2 ? 0 : (int)known(salt, (uint64_t)p->all->rank, 2);
        int key = i == 0 ? p->all->rank : (int)known(salt, (uint64_t)p->all->rank + 50, 100);
        l->comm = p->all->table->split(p->all, colour, key, why);
        if (!l->comm || ls_comm_all_gather(l->comm, &p->all->rank, l->names, sizeof(int), "names", why)) return false;
        if (known(salt, 1000, 2)) l->shared = l->comm->table->share(l->comm, SHARED, why);
        ls_comm_workers workers = {.count = 1 + i % 2, .cpu = {-1, -1}};
        if (i != 0) l->queue = ls_comm_queue_new(l->comm, &workers, why);
    }
    return ls_comm_barrier(p->vote, "ready", why) == LS_OK;
}

static void close_lanes(player *p)
{
    for (int i = LANES - 1; i >= 0; i--) {
        lane *l = &p->lanes[i];
        if (l->queue) ls_comm_queue_free(l->queue);
        else ls_comm_close(l->comm);
    }
    for (int i = 0; i < PENDING; i++)
        if (p->pending[i].lane) forget(&p->pending[i]);
    ls_comm_close(p->vote);
}

/* All ranks are out of their calls, and reset. */
static ls_status reset(player *p)
{
    ls_message *why = &p->result->why;
    ls_status status = ls_comm_barrier(p->vote, "back", why);
    if (status) return status;
    p->all->table->reset(p->all);
    for (int i = 0; i < LANES; i++) {
        lane *l = &p->lanes[i];
        ls_comm *comm = l->queue ? ls_comm_queue_enter(l->queue) : l->comm;
        comm->table->reset(comm);
        if (l->queue) ls_comm_queue_leave(l->queue);
    }
    return ls_comm_barrier(p->vote, "again", why);
}

/* Kill this process after a while. */
static void *die_soon(void *microseconds)
{
    usleep(*(useconds_t *)microseconds);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Do what this rank's role asks for before a call. */
static ls_status misbehave(player *p, uint64_t turn)
{
    static useconds_t soon;
    pthread_t thread;
    int culprit = (int)known(given.seed, 4444 + turn / (uint64_t)given.calls, (uint32_t)p->all->size);
    uint32_t when = known(given.seed, 5555 + turn / (uint64_t)given.calls, (uint32_t)given.calls);
    if (culprit != p->all->rank || turn % (uint64_t)given.calls != when) return LS_OK;
    if (given.plan == CANCELLED) p->all->table->cancel(p->all);
    if (given.plan == FAILED) p->all->table->abort(p->all, "told to fail");
    soon = roll(&p->own, 20000);
    if (given.plan == KILLED) pthread_create(&thread, NULL, die_soon, &soon);
    return given.plan == CANCELLED ? LS_ERR_MEMORY : LS_OK;
}

static ls_status attempt(player *p, uint64_t first)
{
    ls_status status = LS_OK;
    for (int i = 0; i < given.calls && !status; i++) {
        dawdle(p);
        status = misbehave(p, first + (uint64_t)i);
        if (!status) status = play_one(p, first + (uint64_t)i);
    }
    ls_status rest = finish_all(p);
    return status ? status : rest;
}

static void play(ls_comm *comm, crew_result *result)
{
    player p = {.all = comm, .own = {given.seed * 64 + (uint64_t)comm->rank + 1, 0}, .result = result};
    alarm(PATIENCE);
    result->status = open_lanes(&p) ? LS_OK : LS_ERR_PEER;
    int attempts = given.plan == PLAIN ? 1 : 3;
    for (int i = 0; i < attempts && !result->status; i++) {
        int32_t full = 0;
        result->status = attempt(&p, (uint64_t)(i * given.calls));
        if (given.plan == CANCELLED && (!result->status || result->status == LS_ERR_MEMORY)) {
            full = result->status != LS_OK;
            result->status =
                ls_comm_all_reduce(p.vote, &full, 1, LS_I32, LS_REDUCE_MAX, "any out of memory?", &result->why);
        }
        if (!result->status && full) result->status = reset(&p);
    }
    close_lanes(&p);
    alarm(0);
}

/* ---- rounds ---- */

static void run_round(void)
{
    int size = (int)strlen(crew_layout);
    crew c;
    crew_start(&c, size, play);
    crew_end(&c);
    int failed = 0, killed = 0;
    for (int r = 0; r < size; r++) {
        killed += WIFSIGNALED(c.result[r].wait) && WTERMSIG(c.result[r].wait) == SIGKILL;
        failed += c.result[r].status != LS_OK;
        bool ended = WIFEXITED(c.result[r].wait) && WEXITSTATUS(c.result[r].wait) == 0;
        bool expected = given.plan == KILLED && WIFSIGNALED(c.result[r].wait) && WTERMSIG(c.result[r].wait) == SIGKILL;
        CHECK_MSG(ended || expected, "seed %llu, plan %d, %s: rank %d ended with %x: %s",
                  (unsigned long long)given.seed, given.plan, crew_layout, r, c.result[r].wait, c.result[r].why.text);
        if (given.plan <= CANCELLED)
            CHECK_MSG(c.result[r].status == LS_OK, "seed %llu, plan %d, %s: rank %d: %s",
                      (unsigned long long)given.seed, given.plan, crew_layout, r, c.result[r].why.text);
        else if (c.result[r].status)
            CHECK_MSG(c.result[r].status == LS_ERR_PEER, "rank %d: %s", r, c.result[r].why.text);
    }
    if (given.plan == FAILED) CHECK_MSG(failed == size, "only %d of %d know of the failure", failed, size);
    if (given.plan == KILLED) CHECK_MSG(killed >= 1, "nobody was killed");
    crew_forget(&c);
}

static void play_rounds(plan what)
{
    static const char *const layouts[] = {"0001", "0011", "01210", "012", "0111", "010", "001122", "01"};
    static const int delays[] = {0, 0, 300, 4000};
    uint64_t seed = given.seed;
    given.plan = what;
    for (int i = 0; i < given.rounds; i++, given.seed++) {
        crew_layout = given.layout ? given.layout : layouts[given.seed % (sizeof layouts / sizeof *layouts)];
        wires_delay = delays[known(given.seed, 1, 4)];
        crew_direct = (int)known(given.seed, 2, 2);
        run_round();
        if (given.rounds > 10) printf("plan %d, seed %llu, %s\n", what, (unsigned long long)given.seed, crew_layout);
        fflush(stdout);
    }
    given.seed = seed;
}

static void any_calls_in_any_order(void)
{
    play_rounds(PLAIN);
}

static void calls_that_are_cancelled(void)
{
    play_rounds(CANCELLED);
}

static void calls_in_which_a_rank_fails(void)
{
    play_rounds(FAILED);
}

static void calls_in_which_a_rank_is_killed(void)
{
    play_rounds(KILLED);
}

static void threads_can_be_ranks(void)
{
    crew_layout = "0011";
    for (given.plan = PLAIN; given.plan <= CANCELLED; given.plan++) crew_run_threads(4, play);
}

/* ---- under mpirun ---- */

static int number_of(const char *a, const char *b)
{
    const char *text = getenv(a) ? getenv(a) : getenv(b);
    return text ? atoi(text) : -1;
}

static void be_a_rank(int rank, int size)
{
    given.plan = check_filter && strstr("calls_that_are_cancelled", check_filter) ? CANCELLED : PLAIN;
    for (int i = 0; i < given.rounds; i++, given.seed++) {
        char job[64];
        crew_result result = {0};
        int host[CREW_MOST], local = 0, width = 0;
        for (int r = 0; r < size; r++) {
            host[r] = given.layout[r];
            width += host[r] == given.layout[rank];
            local += host[r] == given.layout[rank] && r < rank;
        }
        crew_layout = given.layout;
        snprintf(job, sizeof job, "stress %d %llu %c", (int)getppid(), (unsigned long long)given.seed, host[rank]);
        int file = ls_meet(job, local, width, PATIENCE, NULL, &result.why);
        ls_segment *segment = file >= 0 ? ls_segment_open(file, width, &result.why) : NULL;
        ls_hosts_opts opts = {
            .transport = crew_transport, .rank = rank, .size = size, .host = host, .segment = segment};
        opts.direct = (int)known(given.seed, 2, 2);
        ls_comm *comm = segment ? ls_hosts_join(&opts, &result.why) : NULL;
        CHECK_MSG(comm, "rank %d: %s", rank, result.why.text);
        if (comm) play(comm, &result);
        CHECK_MSG(comm && !result.status, "seed %llu, rank %d: %s", (unsigned long long)given.seed, rank,
                  result.why.text);
        ls_comm_close(comm);
        ls_segment_release(segment);
        if (check_failures_here) exit(1);
        if (rank == 0 && given.rounds > 10) printf("seed %llu\n", (unsigned long long)given.seed), fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int at = 1, many = 0;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        const char *value = argv[at + 1];
        if (strcmp(argv[at], "--transport") == 0) crew_load(value);
        if (strcmp(argv[at], "--layout") == 0) given.layout = value;
        if (strcmp(argv[at], "--seed") == 0) given.seed = strtoull(value, NULL, 10);
        if (strcmp(argv[at], "--rounds") == 0) many = atoi(value);
    }
    if (many) given.rounds = many, given.calls = 300, given.most = 3000000, given.slow = true;
    if (at < argc) check_filter = argv[at];
    int rank = number_of("OMPI_COMM_WORLD_RANK", "PMI_RANK"), size = number_of("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
    if (rank >= 0 && given.layout) return be_a_rank(rank, size), 0;
    if (crew_transport == &wires_transport) CHECK_RUN(threads_can_be_ranks);
    CHECK_RUN_FORK(any_calls_in_any_order);
    CHECK_RUN_FORK(calls_that_are_cancelled);
    CHECK_RUN_FORK(calls_in_which_a_rank_fails);
    CHECK_RUN_FORK(calls_in_which_a_rank_is_killed);
    return check_done();
}
