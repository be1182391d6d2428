/* count.c - how many devices a process counts before it opens one, and how it names them. */
#include <stdlib.h>

#include "check.h"
#include "xla.h"

void ls_plugin_describe(int index, char *text, size_t size);

/* A host, in a folder of its own. */
static void make(const char *commands)
{
    char line[2000];
    snprintf(line, sizeof line,
             "rm -rf " SYSTEM_ROOT "; mkdir -p " SYSTEM_ROOT "/dev/vfio " SYSTEM_ROOT
             "/sys/kernel/iommu_groups; cd " SYSTEM_ROOT "; %s",
             commands);
    CHECK(system(line) == 0);
}

/* A file in /dev/vfio, and what the system says about the device behind it. */
#define GROUP(number, vendor, device)                                                                                  \
    "touch dev/vfio/" number "; cd sys/kernel/iommu_groups; mkdir -p " number "/devices/0000:00:05.0; echo " vendor    \
    " > " number "/devices/0000:00:05.0/vendor; echo " device " > " number                                             \
    "/devices/0000:00:05.0/device; cd ../../..; "
#define V5E(number) GROUP(number, "0x1ae0", "0x0063")

static void files_of_chips_are_counted(void)
{
    make("touch dev/accel0 dev/accel1");
    CHECK(xla_count() == 2);
    make(V5E("0") GROUP("1", "0x1ae0", "0x0076") "touch dev/vfio/vfio");
    CHECK(xla_count() == 2);
    make("touch dev/vfio/0 dev/vfio/1 dev/vfio/2");
    CHECK(xla_count() == 3);
}

/* A network card of Google's, and devices of other vendors, one of which has a TPU's number. */
static void other_devices_are_not(void)
{
    make(V5E("0") GROUP("11", "0x10de", "0x0063") GROUP("12", "0x15b3", "0x1017"));
    CHECK(xla_count() == 1);
    make(V5E("0") GROUP("11", "0x1ae0", "0x0042"));
    CHECK(xla_count() == 1);
    make("true");
    int without = xla_count();
    make(GROUP("11", "0x10de", "0x2330"));
    CHECK(xla_count() == without);
}

/* By either variable. */
static void chips_that_a_process_may_see_are_counted_and_named(void)
{
    char text[200];
    make("touch dev/accel0 dev/accel1 dev/accel2 dev/accel3");
    setenv("LOCKSTEP_PJRT_LIBRARY", "/dev/null", 1);
    static const char *const names[] = {"TPU_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"}, *const lists[] = {"1,3", "2,0"};
    for (int i = 0; i < 2; i++) {
        setenv(names[i], lists[i], 1); /* the second one counts if both are set */
        CHECK(xla_count() == 2);
        ls_plugin_describe(1, text, sizeof text);
        CHECK_TEXT(text, i ? "chip 0 of /dev/null" : "chip 3 of /dev/null");
    }
}

int main(void)
{
    unsetenv("LOCKSTEP_XLA_CHIPS");
    unsetenv("TPU_VISIBLE_CHIPS");
    unsetenv("TPU_VISIBLE_DEVICES");
    CHECK_RUN(files_of_chips_are_counted);
    CHECK_RUN(other_devices_are_not);
    CHECK_RUN(chips_that_a_process_may_see_are_counted_and_named);
    if (system("rm -rf " SYSTEM_ROOT) != 0) return 1;
    return check_done();
}
