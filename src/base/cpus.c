/* cpus.c - affinity mask, control group quota, caches. */
#include "base/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ls_cpus_allowed(int *numbers, int room)
{
    cpu_set_t allowed[8]; /* 8192 CPUs: the kernel rejects a mask smaller than its own */
    int count = 0;
    if (sched_getaffinity(0, sizeof allowed, allowed) == 0) {
        for (int cpu = 0; cpu < (int)sizeof allowed * 8; cpu++) {
            if (!CPU_ISSET_S((size_t)cpu, sizeof allowed, allowed)) continue;
            if (count < room) numbers[count] = cpu;
            count++;
        }
    }
    return count ? count : 1;
}

/* ---- Quota ---------------------------------------------------------------------------------------------------- */

#define PATH_SIZE 4096

/* One control group: folder and the quota written there, in whole CPUs; 0: none. */
typedef int quota_fn(const char *folder);

static bool read_line(const char *folder, const char *name, char *line, int size)
{
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    bool got = fgets(line, size, file) != NULL;
    fclose(file);
    return got;
}

static int whole_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return 0;
    long long cpus = quota / period + (quota % period != 0);
    return cpus < 1 << 20 ? (int)cpus : 0;
}

static int quota_v2(const char *folder)
{
    char line[128];
    long long quota, period;
    if (!read_line(folder, "cpu.max", line, sizeof line)) return 0;
    return sscanf(line, "%lld %lld", &quota, &period) == 2 ? whole_cpus(quota, period) : 0; /* "max 100000": no limit */
}

static int quota_v1(const char *folder)
{
    char line[128];
    long long quota, period;
    if (!read_line(folder, "cpu.cfs_quota_us", line, sizeof line) || sscanf(line, "%lld", &quota) != 1) return 0;
    if (!read_line(folder, "cpu.cfs_period_us", line, sizeof line) || sscanf(line, "%lld", &period) != 1) return 0;
    return whole_cpus(quota, period);
}

static int tighter(int a, int b)
{
    return a && (!b || a < b) ? a : b;
}

/* The limits of all ancestors apply too. In a container the path may name groups that are not visible; the walk ends at
 * the root of the mount, which is then the container's own group. */
static int tightest(const char *root, const char *mount, const char *group, quota_fn *quota_of)
{
    char folder[PATH_SIZE];
    int base = snprintf(folder, sizeof folder, "%s%s", root, mount);
    int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
    if (length >= (int)sizeof folder) return 0;
    int quota = 0;
    for (;;) {
        quota = tighter(quota, quota_of(folder));
        char *slash = strrchr(folder + base, '/');
        if (!slash) return quota;
        *slash = '\0';
    }
}

static bool lists(const char *controllers, const char *wanted)
{
    size_t length = strlen(wanted);
    for (const char *c = controllers; c; c = strchr(c, ','), c = c ? c + 1 : NULL) {
        if (strncmp(c, wanted, length) == 0 && (c[length] == ',' || c[length] == '\0')) return true;
    }
    return false;
}

int ls_cpus_quota(const char *root)
{
    char line[PATH_SIZE];
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *groups = fopen(line, "r");
    if (!groups) return 0;
    int quota = 0;
    while (fgets(line, sizeof line, groups)) { /* "0::/user.slice" or "4:cpu,cpuacct:/docker/6c2f" */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = '\0';
        *group++ = '\0';
        if (*controllers == '\0') {
            quota = tighter(quota, tightest(root, "/sys/fs/cgroup", group, quota_v2));
            quota = tighter(quota, tightest(root, "/sys/fs/cgroup/unified", group, quota_v2));
        } else if (lists(controllers, "cpu")) {
            quota = tighter(quota, tightest(root, "/sys/fs/cgroup/cpu", group, quota_v1));
            quota = tighter(quota, tightest(root, "/sys/fs/cgroup/cpu,cpuacct", group, quota_v1));
        }
    }
    fclose(groups);
    return quota;
}

/* ---- Use ------------------------------------------------------------------------------------------------------ */

static bool has(const int *numbers, int count, long number)
{
    for (int i = 0; i < count; i++)
        if (numbers[i] == number) return true;
    return false;
}

/* "cpu3 user nice system idle iowait irq softirq steal ...", in ticks: sums those in which the CPU was busy. */
static bool ticks_of(const char *line, const int *cpus, int count, long long *ticks)
{
    long long t[7];
    char *end;
    if (strncmp(line, "cpu", 3) != 0 || line[3] < '0' || line[3] > '9') return false;
    if (!has(cpus, count, strtol(line + 3, &end, 10))) return false;
    if (sscanf(end, "%lld %lld %lld %lld %lld %lld %lld", t, t + 1, t + 2, t + 3, t + 4, t + 5, t + 6) != 7)
        return false;
    *ticks += t[0] + t[1] + t[2] + t[5] + t[6];
    return true;
}

double ls_cpus_busy(const char *root, const int *cpus, int count)
{
    char path[PATH_SIZE], text[4096];
    snprintf(path, sizeof path, "%s/proc/stat", root);
    int file = open(path, O_RDONLY | O_CLOEXEC), found = 0;
    long long ticks = 0;
    size_t length = 0;
    bool more = file >= 0;
    while (more) {
        ssize_t got = read(file, text + length, sizeof text - 1 - length);
        if (got > 0) length += (size_t)got;
        text[length] = '\0';
        char *line = text, *end;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            found += ticks_of(line, cpus, count, &ticks);
            if (strncmp(line, "intr", 4) == 0) got = 0; /* CPUs come first; this line may be very long */
        }
        length = strlen(line);
        memmove(text, line, length + 1);
        more = got > 0 && length < sizeof text - 1;
    }
    if (file >= 0) close(file);
    return found == count ? (double)ticks / (double)sysconf(_SC_CLK_TCK) : -1;
}

/* ---- Caches --------------------------------------------------------------------------------------------------- */

static _Atomic int64_t l1 = -1; /* not known yet */

int64_t ls_cpus_l1(void)
{
    int64_t bytes = atomic_load_explicit(&l1, memory_order_relaxed);
    if (bytes >= 0) return bytes;
    bytes = 0;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    long told = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (told > 0) bytes = told;
#endif
    atomic_store_explicit(&l1, bytes, memory_order_relaxed);
    return bytes;
}

void ls_cpus_pretend_l1(int64_t bytes)
{
    atomic_store_explicit(&l1, bytes, memory_order_relaxed);
}
