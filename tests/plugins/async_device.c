/* async_device.c - a device that is as unlike the CPU as a device can be, to keep the layers above honest.
 *
 * Its memory is in an address space of its own: addresses lie in ranges that are mapped without any access right, so a
 * host that reads or writes through one dies, and operands that are not such addresses are refused. Every stream is a
 * queue with a thread; calls return before they have run, failures are reported when the host waits. The arithmetic is
 * borrowed from the host's CPU operators. Includes plugin.h and nothing else of the library. */
#include <lockstep/plugin.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_RANGES = 1024 };

typedef struct range {
    char *address; /* what the library sees: no access */
    char *memory;  /* what is behind it */
    size_t bytes;
} range;

typedef struct device {
    const ls_host *host;
    ls_owner *owner;
    pthread_mutex_t lock;
    range ranges[MAX_RANGES];
    int range_count;
    ls_stream *streams;
} device;

struct ls_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, reached; /* done when the last record has been reached */
    int users;                  /* the library, and jobs */
    ls_stream *stream;          /* of the last record */
    uint64_t position;          /* jobs of that stream up to the record */
};

typedef enum job_kind { JOB_CALL, JOB_COPY, JOB_GROUP, JOB_RECORD, JOB_WAIT, JOB_QUIT } job_kind;

typedef struct job {
    struct job *next;
    job_kind kind;
    ls_call call;
    ls_operand in[LS_MAX_INPUTS], out[LS_MAX_OUTPUTS];
    ls_operand scratch; /* of a sort: its input, in one piece; no data: none is needed */
    void *to;
    const void *from;
    size_t bytes;
    char values[LS_VALUES_BYTES];
    ls_event *event;
    uint64_t target; /* of the event */
    /* of a group: what is to be done with `from` and `to` (grouped_device.c) */
    ls_status (*work)(struct job *j, ls_message *why);
    void *group;
    int32_t how, root;
} job;

struct ls_stream {
    device *owner;
    ls_stream *next; /* of the same device */
    bool beside;     /* it is not the first */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    job *first, *last;
    uint64_t submitted, finished;
    ls_status status; /* of the first failure since the host last waited */
    ls_message why;
};

/* ---- addresses ---- */

/* The memory behind a device address; NULL for anything else, host pointers included. */
static char *behind(device *d, const void *address)
{
    char *found = NULL;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < d->range_count && !found; i++) {
        const range *r = &d->ranges[i];
        if ((const char *)address >= r->address && (const char *)address < r->address + r->bytes)
            found = r->memory + ((const char *)address - r->address);
    }
    pthread_mutex_unlock(&d->lock);
    return found;
}

static ls_status device_alloc(void *handle, size_t bytes, void **address)
{
    device *d = handle;
    range r = {.bytes = bytes};
    r.address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r.address == MAP_FAILED) return LS_ERR_MEMORY;
    r.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_lock(&d->lock);
    bool room = r.memory != MAP_FAILED && d->range_count < MAX_RANGES;
    if (room) d->ranges[d->range_count++] = r;
    pthread_mutex_unlock(&d->lock);
    if (!room) {
        munmap(r.address, bytes);
        if (r.memory != MAP_FAILED) munmap(r.memory, bytes);
        return LS_ERR_MEMORY;
    }
    *address = r.address;
    return LS_OK;
}

/* ---- the thread of a stream ---- */

static void leave_event(ls_event *event)
{
    pthread_mutex_lock(&event->lock);
    bool last = --event->users == 0;
    pthread_mutex_unlock(&event->lock);
    if (!last) return;
    pthread_mutex_destroy(&event->lock);
    pthread_cond_destroy(&event->changed);
    free(event);
}

static void wait_event(ls_event *event, uint64_t target)
{
    pthread_mutex_lock(&event->lock);
    while (event->reached < target) pthread_cond_wait(&event->changed, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

static void reach_event(ls_event *event, uint64_t target)
{
    pthread_mutex_lock(&event->lock);
    if (event->reached < target) event->reached = target;
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

static _Atomic int64_t copies_beside;

__attribute__((visibility("default"))) int64_t async_copies_beside(void);

/* Copies made by other streams than a device's first. */
int64_t async_copies_beside(void)
{
    return copies_beside;
}

/* What was captured of a call. A sort works on a copy of its input in scratch memory. */
static ls_status run_call(const device *d, job *j, ls_message *why)
{
    if (j->scratch.data) {
        ls_call copy = {.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {&j->in[0]}, .out = {&j->scratch}};
        ls_status status = d->host->run_on_cpu(&copy, why);
        if (status) return status;
        j->call.in[0] = &j->scratch;
    }
    return d->host->run_on_cpu(&j->call, why);
}

static void linger(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
}

static void *stream_main(void *argument)
{
    ls_stream *s = argument;
    for (bool quit = false; !quit;) {
        pthread_mutex_lock(&s->lock);
        while (!s->first) pthread_cond_wait(&s->changed, &s->lock);
        job *j = s->first;
        s->first = j->next;
        if (!s->first) s->last = NULL;
        bool failed = s->status != LS_OK;
        pthread_mutex_unlock(&s->lock);

        ls_status status = LS_OK;
        ls_message why = {{0}};
        switch (j->kind) {
        case JOB_CALL: /* after a failure nothing runs: its inputs may never have been written */
            if (!failed) status = run_call(s->owner, j, &why);
            if (status) s->owner->host->blame(j->call.site, j->call.op, &why);
            break;
        case JOB_COPY:
            if (s->beside) linger(); /* so that whoever forgets to wait for it is found out */
            if (!failed) memcpy(j->to, j->from, j->bytes);
            copies_beside += s->beside;
            break;
        case JOB_GROUP:
            if (!failed) status = j->work(j, &why);
            break;
        case JOB_RECORD: reach_event(j->event, j->target); break;
        case JOB_WAIT: wait_event(j->event, j->target); break;
        case JOB_QUIT: quit = true; break;
        }
        if (j->event) leave_event(j->event);
        free(j);
        pthread_mutex_lock(&s->lock);
        if (status && !s->status) {
            s->status = status;
            s->why = why;
        }
        s->finished++;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static void submit(ls_stream *s, job *j)
{
    pthread_mutex_lock(&s->lock);
    if (s->last) s->last->next = j;
    else s->first = j;
    s->last = j;
    s->submitted++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static job *new_job(job_kind kind)
{
    job *j = calloc(1, sizeof *j);
    if (j) j->kind = kind;
    return j;
}

/* ---- streams, events, and giving memory back ---- */

static ls_status stream_create(void *handle, ls_stream **out)
{
    ls_stream *s = calloc(1, sizeof *s);
    if (!s) return LS_ERR_MEMORY;
    device *d = s->owner = handle;
    s->beside = d->streams != NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, stream_main, s)) return free(s), LS_ERR_DEVICE;
    s->next = d->streams;
    d->streams = s;
    *out = s;
    return LS_OK;
}

static void stream_destroy(void *handle, ls_stream *s)
{
    device *d = handle;
    job *quit = new_job(JOB_QUIT);
    if (!quit) return;
    ls_stream **link = &d->streams;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    submit(s, quit);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

static void wait_stream(ls_stream *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t target = s->submitted;
    while (s->finished < target) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static ls_status stream_sync(void *handle, ls_stream *s, ls_message *why)
{
    (void)handle;
    wait_stream(s);
    pthread_mutex_lock(&s->lock);
    ls_status status = s->status;
    if (status) *why = s->why;
    s->status = LS_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Work that was submitted before may still be using the memory. */
static void device_release(void *handle, void *address, size_t bytes)
{
    device *d = handle;
    for (ls_stream *s = d->streams; s; s = s->next) wait_stream(s);
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < d->range_count; i++) {
        if (d->ranges[i].address != address) continue;
        munmap(d->ranges[i].address, bytes);
        munmap(d->ranges[i].memory, bytes);
        d->ranges[i] = d->ranges[--d->range_count];
        break;
    }
    pthread_mutex_unlock(&d->lock);
}

static ls_status event_create(void *handle, ls_event **out)
{
    (void)handle;
    ls_event *event = calloc(1, sizeof *event);
    if (!event) return LS_ERR_MEMORY;
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->changed, NULL);
    event->users = 1;
    *out = event;
    return LS_OK;
}

static void event_destroy(void *handle, ls_event *event)
{
    (void)handle;
    leave_event(event);
}

static ls_status event_record(void *handle, ls_event *event, ls_stream *s)
{
    (void)handle;
    job *j = new_job(JOB_RECORD);
    if (!j) return LS_ERR_MEMORY;
    pthread_mutex_lock(&event->lock);
    j->target = ++event->recorded;
    event->users++;
    pthread_mutex_unlock(&event->lock);
    j->event = event;
    submit(s, j);
    event->stream = s;
    event->position = s->submitted;
    return LS_OK;
}

static _Atomic int64_t waits_with_work_left;

__attribute__((visibility("default"))) int64_t async_waits_with_work_left(void);

/* Waits of the host for an event after which more work had been submitted. */
int64_t async_waits_with_work_left(void)
{
    return waits_with_work_left;
}

static ls_status event_wait(void *handle, ls_event *event, ls_stream *s)
{
    (void)handle;
    job *j = new_job(JOB_WAIT);
    if (!j) return LS_ERR_MEMORY;
    pthread_mutex_lock(&event->lock);
    j->target = event->recorded;
    event->users++;
    pthread_mutex_unlock(&event->lock);
    j->event = event;
    submit(s, j);
    return LS_OK;
}

static bool event_done(void *handle, ls_event *event)
{
    (void)handle;
    pthread_mutex_lock(&event->lock);
    bool done = event->reached >= event->recorded;
    pthread_mutex_unlock(&event->lock);
    return done;
}

static ls_status event_sync(void *handle, ls_event *event, ls_message *why)
{
    (void)handle, (void)why;
    pthread_mutex_lock(&event->lock);
    uint64_t target = event->recorded;
    pthread_mutex_unlock(&event->lock);
    waits_with_work_left += event->stream && event->stream->submitted > event->position;
    wait_event(event, target);
    return LS_OK;
}

/* ---- work ---- */

static ls_status refuse(ls_message *why, const char *what)
{
    snprintf(why->text, sizeof why->text, "%s is not an address of this device", what);
    return LS_ERR_DEVICE;
}

static _Atomic int64_t bytes_uploaded;

__attribute__((visibility("default"))) int64_t device_bytes_uploaded(void);

int64_t device_bytes_uploaded(void)
{
    return bytes_uploaded;
}

static ls_status device_copy(void *handle, ls_stream *s, void *to, const void *from, size_t bytes, ls_copy_kind kind,
                             ls_message *why)
{
    device *d = handle;
    if (kind != LS_COPY_TO_HOST && !(to = behind(d, to))) return refuse(why, "the destination of a copy");
    bool from_device = kind == LS_COPY_TO_HOST || kind == LS_COPY_ON_DEVICE;
    if (from_device && !(from = behind(d, from))) return refuse(why, "the source of a copy");
    if (kind == LS_COPY_TO_DEVICE) bytes_uploaded += (int64_t)bytes;
    job *j = new_job(JOB_COPY);
    if (!j) return LS_ERR_MEMORY;
    j->to = to;
    j->from = kind == LS_COPY_VALUES ? memcpy(j->values, from, bytes) : from;
    j->bytes = bytes;
    submit(s, j);
    return LS_OK;
}

static _Atomic int64_t half_copies_used;

__attribute__((visibility("default"))) int64_t async_half_copies_used(void);

int64_t async_half_copies_used(void)
{
    return half_copies_used;
}

/* The type that a product computes in. */
static ls_dtype compute_of(const ls_call *call)
{
    switch (call->op) {
    case LS_OP_matmul:
    case LS_OP_linear:
    case LS_OP_linear_grad: return call->attrs.product.compute;
    case LS_OP_conv2d:
    case LS_OP_conv2d_dinput: return call->attrs.conv.compute;
    default: return LS_DTYPE_NONE;
    }
}

/* Copies an operand for the queue. Its packed form is not used: by the time the call runs,
 * the version may have moved. A product in half precision reads the copy that the optimiser wrote. */
static bool capture(device *d, ls_dtype compute, const ls_operand *x, ls_operand *copy)
{
    *copy = *x;
    copy->derived = NULL;
    const ls_derived *forms = x->derived;
    if (forms && forms->half && forms->half_version == forms->version && forms->half_dtype == compute) {
        copy->data = forms->half;
        copy->dtype = forms->half_dtype;
        half_copies_used++;
    }
    bool empty = false;
    for (int i = 0; i < x->ndim; i++) empty |= x->dim[i] == 0;
    if (!empty) copy->data = behind(d, copy->data);
    return empty || copy->data;
}

/* Where a sort copies its input to. */
static ls_status take_scratch(device *d, job *j, ls_workspace *workspace)
{
    ls_operand *x = &j->scratch;
    *x = j->in[0];
    int64_t count = 1;
    for (int i = x->ndim; i-- > 0;) {
        x->stride[i] = count;
        count *= x->dim[i];
    }
    ls_status status = d->host->take(d->owner, (size_t)count * d->host->dtype_size(x->dtype), workspace);
    if (!status) x->data = behind(d, workspace->address);
    return status;
}

static ls_status device_run(void *handle, ls_stream *s, const ls_call *call, ls_message *why)
{
    device *d = handle;
    job *j = new_job(JOB_CALL);
    if (!j) return LS_ERR_MEMORY;
    j->call = *call;
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i]) continue;
        bool is_weight = i == (call->op == LS_OP_linear_grad ? 2 : 1);
        ls_dtype compute = is_weight ? compute_of(call) : LS_DTYPE_NONE;
        if (!capture(d, compute, call->in[i], &j->in[i])) return free(j), refuse(why, "an input");
        j->call.in[i] = &j->in[i];
    }
    for (int i = 0; i < call->n_out; i++) {
        if (!call->out[i]) continue;
        if (!capture(d, LS_DTYPE_NONE, call->out[i], &j->out[i])) return free(j), refuse(why, "an output");
        j->call.out[i] = &j->out[i];
    }
    ls_workspace workspace = {0};
    ls_status status = call->op == LS_OP_sort ? take_scratch(d, j, &workspace) : LS_OK;
    if (status) return free(j), status;
    submit(s, j);
    if (workspace.block) d->host->give(d->owner, workspace); /* others get it after this call, in the order of work */
    return LS_OK;
}

/* ---- opening ---- */

static int device_count(void)
{
    return 2;
}

static ls_status device_open(const ls_host *host, const ls_device_open_args *args, void **handle, ls_message *why)
{
    (void)why;
    device *d = calloc(1, sizeof *d);
    if (!d) return LS_ERR_MEMORY;
    d->host = host;
    d->owner = args->owner;
    pthread_mutex_init(&d->lock, NULL);
    *handle = d;
    return LS_OK;
}

static void device_close(void *handle)
{
    device *d = handle;
    pthread_mutex_destroy(&d->lock);
    free(d);
}

extern ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    static const ls_device_table table = {
        LS_DEVICE_TABLE,
        .traits = LS_TRAIT_HALF_COPY | LS_TRAIT_KRSC | LS_TRAIT_STEP_FACTOR,
        .name = "async",
        .count = device_count,
        .open = device_open,
        .close = device_close,
        .alloc = device_alloc,
        .release = device_release,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .stream_sync = stream_sync,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_wait = event_wait,
        .event_done = event_done,
        .event_sync = event_sync,
        .copy = device_copy,
        .run = device_run,
    };
    return host->abi == LS_PLUGIN_ABI ? &table : NULL;
}
