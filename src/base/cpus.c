/* cpus.c - affinity mask and control group quota. */
#include "base/cpus.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int ls_cpus_allowed(int *numbers, int room)
{
    cpu_set_t allowed[8]; /* 8192 CPUs: the kernel refuses a mask smaller than its own */
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

/* A limit of any ancestor holds too. In a container the path may name groups we do not see; the walk ends at the root
 * of the mount, which is then the container's own group. */
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
