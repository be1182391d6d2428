/* segment.c - the file shared by the processes of a host: create, map, allocate, abort. */
#include "comm/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"

#define MAGIC 0x33676573706b636cULL /* changes with the layout */

enum { PAGE = 1 << 16 }; /* a multiple of every machine's page size */

struct ls_segment_map {
    ls_segment_map *next;
    uint64_t offset;
    size_t bytes;
    char *address;
    int holders;
};

static size_t in_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t header_bytes(int size)
{
    return in_pages(sizeof(ls_segment_header) + (size_t)size * sizeof(ls_member));
}

static void *map_file(int file, uint64_t offset, size_t bytes)
{
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
    return address == MAP_FAILED ? NULL : address;
}

/* ---- creating ---- */

int ls_segment_make(int size, ls_message *why)
{
    int file = memfd_create("lockstep", 0);
    bool sized = false;
    for (int bits = 43; file >= 0 && !sized && bits >= 33; bits--) sized = ftruncate(file, (off_t)1 << bits) == 0;
    ls_segment_header *header = sized ? map_file(file, 0, header_bytes(size)) : NULL;
    if (!header) {
        ls_message_set(why, "no memory to share between %d processes: %s", size, strerror(errno));
        if (file >= 0) close(file);
        return -1;
    }
    header->header_bytes = (uint32_t)header_bytes(size);
    header->size = (uint32_t)size;
    for (int i = 0; i < size; i++) header->member[i].rank = i; /* default, until they join and set their rank */
    atomic_store(&header->used, header_bytes(size));
    if (getrandom(header->token, sizeof header->token, 0) != (ssize_t)sizeof header->token)
        header->token[0] = (uint64_t)ls_comm_clock();
    header->magic = MAGIC;
    munmap(header, header_bytes(size));
    return file;
}

bool ls_segment_token(int file, uint64_t token[2])
{
    ls_segment_header header;
    if (pread(file, &header, sizeof header, 0) != (ssize_t)sizeof header || header.magic != MAGIC) return false;
    memcpy(token, header.token, sizeof header.token);
    return true;
}

bool ls_segment_taken(int file, int number)
{
    ls_member member;
    off_t at = (off_t)(offsetof(ls_segment_header, member) + (size_t)number * sizeof member);
    return pread(file, &member, sizeof member, at) == (ssize_t)sizeof member && member.state != LS_MEMBER_ABSENT;
}

/* ---- opening ---- */

static ls_status fits(int file, int size, ls_message *why)
{
    struct stat status;
    if (fstat(file, &status) != 0 || (size_t)status.st_size < header_bytes(size))
        return ls_explain(why, LS_ERR_PEER, "file %d is not memory shared by the processes of a job: %s", file,
                          errno ? strerror(errno) : "too small");
    return LS_OK;
}

ls_segment *ls_segment_open(int file, int size, ls_message *why)
{
    ls_segment *segment = ls_sys_alloc(sizeof *segment);
    if (segment) segment->process = ls_sys_alloc((size_t)size * sizeof *segment->process);
    if (!segment || !segment->process) {
        ls_message_set(why, "no memory");
        goto failed;
    }
    for (int r = 0; r < size; r++) segment->process[r] = -1;
    if (fits(file, size, why) != LS_OK) goto failed;
    segment->header_bytes = header_bytes(size);
    segment->header = map_file(file, 0, segment->header_bytes);
    if (!segment->header) {
        ls_message_set(why, "cannot map shared memory: %s", strerror(errno));
        goto failed;
    }
    if (segment->header->magic != MAGIC || segment->header->size != (uint32_t)size) {
        ls_message_set(why, "the shared memory of this job is for %u processes of %s, but this job has %d",
                       segment->header->size, segment->header->magic == MAGIC ? "this version" : "another version",
                       size);
        munmap(segment->header, segment->header_bytes);
        goto failed;
    }
    segment->file = file;
    segment->holders = 1;
    pthread_mutex_init(&segment->lock, NULL);
    return segment;
failed:
    if (segment) ls_sys_free(segment->process);
    ls_sys_free(segment);
    close(file);
    return NULL;
}

void ls_segment_hold(ls_segment *segment)
{
    atomic_fetch_add(&segment->holders, 1);
}

void ls_segment_release(ls_segment *segment)
{
    if (!segment || atomic_fetch_sub(&segment->holders, 1) > 1) return;
    for (ls_segment_map *m = segment->maps, *next; m; m = next) {
        next = m->next;
        munmap(m->address, m->bytes);
        ls_sys_free(m);
    }
    for (uint32_t r = 0; r < segment->header->size; r++)
        if (segment->process[r] >= 0) close(segment->process[r]);
    ls_sys_free(segment->process);
    munmap(segment->header, segment->header_bytes);
    pthread_mutex_destroy(&segment->lock);
    close(segment->file);
    ls_sys_free(segment);
}

/* ---- pieces ---- */

uint64_t ls_segment_take(ls_segment *segment, size_t bytes)
{
    struct stat status;
    bytes = in_pages(bytes);
    uint64_t offset = atomic_fetch_add(&segment->header->used, bytes);
    return fstat(segment->file, &status) == 0 && offset + bytes <= (uint64_t)status.st_size ? offset : 0;
}

void *ls_segment_map_in(ls_segment *segment, uint64_t offset, size_t bytes, ls_message *why)
{
    pthread_mutex_lock(&segment->lock);
    ls_segment_map *map = segment->maps;
    while (map && map->offset != offset) map = map->next;
    if (!map && (map = ls_sys_alloc(sizeof *map))) {
        *map = (ls_segment_map){.offset = offset, .bytes = in_pages(bytes), .next = segment->maps};
        map->address = map_file(segment->file, offset, map->bytes);
        if (map->address) segment->maps = map;
        else ls_sys_free(map), map = NULL;
    }
    if (map) map->holders++;
    else ls_message_set(why, "cannot map %zu bytes of shared memory: %s", bytes, strerror(errno));
    pthread_mutex_unlock(&segment->lock);
    return map ? map->address : NULL;
}

void ls_segment_map_out(ls_segment *segment, void *address)
{
    pthread_mutex_lock(&segment->lock);
    ls_segment_map **link = &segment->maps;
    while (*link && (*link)->address != address) link = &(*link)->next;
    ls_segment_map *map = *link;
    if (map && --map->holders == 0) {
        *link = map->next;
        munmap(map->address, map->bytes);
        ls_sys_free(map);
    }
    pthread_mutex_unlock(&segment->lock);
}

void ls_segment_clear(ls_segment *segment, const void *address)
{
    pthread_mutex_lock(&segment->lock);
    const ls_segment_map *map = segment->maps;
    while (map && map->address != address) map = map->next;
    if (map)
        (void)fallocate(segment->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)map->offset,
                        (off_t)map->bytes);
    pthread_mutex_unlock(&segment->lock);
}

/* ---- aborting ---- */

/* A pidfd becomes readable when its process ends, even if nobody has waited for it yet. Without pidfds, kill(pid, 0) at
 * least tells whether the pid is in use. */
bool ls_segment_dead(ls_segment *segment, int number)
{
    const ls_member *member = &segment->header->member[number];
    if (atomic_load_explicit(&member->state, memory_order_acquire) == LS_MEMBER_ABSENT) return false;
    pthread_mutex_lock(&segment->lock);
    int *file = &segment->process[number];
    if (*file == -1) {
        *file = (int)syscall(SYS_pidfd_open, member->pid, 0);
        if (*file < 0 && errno != ESRCH) *file = -2;
    }
    bool dead = false;
    if (*file == -1) dead = true; /* no process has this pid */
    else if (*file == -2) dead = kill(member->pid, 0) != 0 && errno == ESRCH;
    else dead = poll(&(struct pollfd){.fd = *file, .events = POLLIN}, 1, 0) > 0;
    pthread_mutex_unlock(&segment->lock);
    return dead;
}

static bool write_reason(ls_segment_header *header, int rank, bool reported, const char *words)
{
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&header->aborted, &nobody, 1)) return false;
    header->culprit = rank;
    header->reported = reported;
    snprintf(header->words, sizeof header->words, "%s", words);
    atomic_store_explicit(&header->aborted, 2, memory_order_release);
    return true;
}

void ls_segment_abort(ls_segment *segment, int rank, const char *words)
{
    write_reason(segment->header, rank, false, words);
}

void ls_segment_report_dead(ls_segment *segment, int rank, const char *words)
{
    write_reason(segment->header, rank, true, words);
}

bool ls_segment_abandon(int file, const char *words)
{
    struct stat status;
    if (fstat(file, &status) != 0 || (size_t)status.st_size < sizeof(ls_segment_header)) return false;
    ls_segment_header *header = map_file(file, 0, sizeof *header);
    if (!header) return false;
    bool first = header->magic == MAGIC && write_reason(header, -1, false, words);
    munmap(header, sizeof *header);
    return first;
}

void ls_segment_reason(const ls_segment *segment, ls_message *why)
{
    const ls_segment_header *header = segment->header;
    for (int i = 0; i < 100 && atomic_load_explicit(&header->aborted, memory_order_acquire) == 1; i++) usleep(1000);
    bool complete = atomic_load_explicit(&header->aborted, memory_order_acquire) == 2;
    enum { ROOM = sizeof why->text - 32 }; /* room for the prefix */
    if (complete && header->culprit >= 0 && !header->reported)
        ls_message_set(why, "rank %d failed: %.*s", header->culprit, ROOM, header->words);
    else if (complete) ls_message_set(why, "%.*s", (int)sizeof why->text - 1, header->words);
    else ls_message_set(why, "another process failed while reporting why");
}
