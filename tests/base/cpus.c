/* cpus.c - quotas of control groups, read from made-up /proc and /sys trees. */
#include "base/cpus.h"

#include "check.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

/* Write a file below root, making the folders on its way. */
static void put(const char *path, const char *content)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    CHECK(file != NULL);
    if (!file) return;
    fputs(content, file);
    fclose(file);
}

static void begin(void)
{
    strcpy(root, "/tmp/lockstep-cpus-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    CHECK(system(command) == 0);
}

static void no_group_no_limit(void)
{
    begin();
    CHECK(ls_cpus_quota(root) == 0);
    put("/proc/self/cgroup", "0::/\n");
    CHECK(ls_cpus_quota(root) == 0);
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    CHECK(ls_cpus_quota(root) == 0);
    put("/sys/fs/cgroup/cpu.max", "rubbish\n");
    CHECK(ls_cpus_quota(root) == 0);
    end();
}

static void version_2_is_rounded_up(void)
{
    begin();
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    CHECK(ls_cpus_quota(root) == 2);
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    CHECK(ls_cpus_quota(root) == 2);
    put("/sys/fs/cgroup/cpu.max", "1000 100000\n");
    CHECK(ls_cpus_quota(root) == 1);
    end();
}

static void ancestors_count(void)
{
    begin();
    put("/proc/self/cgroup", "0::/pods/a/b\n");
    put("/sys/fs/cgroup/pods/a/b/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pods/a/cpu.max", "300000 100000\n");
    put("/sys/fs/cgroup/pods/cpu.max", "800000 100000\n");
    CHECK(ls_cpus_quota(root) == 3);
    put("/proc/self/cgroup", "0::/not/visible/here\n");
    put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    CHECK(ls_cpus_quota(root) == 4);
    end();
}

static void version_1_is_read(void)
{
    begin();
    put("/proc/self/cgroup", "7:cpuset:/x\n4:cpu,cpuacct:/docker/1\n0::/\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "250000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
    CHECK(ls_cpus_quota(root) == 3);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
    CHECK(ls_cpus_quota(root) == 0);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(ls_cpus_quota(root) == 1);
    end();
}

static void this_machine_has_a_cpu(void)
{
    int numbers[4] = {-1, -1, -1, -1};
    CHECK(ls_cpus_allowed(numbers, 4) >= 1 && numbers[0] >= 0);
    CHECK(ls_cpus_allowed(NULL, 0) >= 1);
    CHECK(ls_cpus_quota("") >= 0);
}

static void first_cache_is_told(void)
{
    int64_t l1 = ls_cpus_l1();
    CHECK(l1 == 0 || (l1 >= 4 << 10 && l1 <= 1 << 20));
    ls_cpus_pretend_l1(12345);
    CHECK(ls_cpus_l1() == 12345);
    ls_cpus_pretend_l1(-1);
    CHECK(ls_cpus_l1() == l1);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(no_group_no_limit);
    CHECK_RUN(version_2_is_rounded_up);
    CHECK_RUN(ancestors_count);
    CHECK_RUN(version_1_is_read);
    CHECK_RUN(this_machine_has_a_cpu);
    CHECK_RUN(first_cache_is_told);
    return check_done();
}
