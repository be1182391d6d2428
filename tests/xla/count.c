/* count.c - how many devices a process counts before it opens one, and how it names them. */
#include <stdlib.h>

#include "check.h"
#include "xla.h"

void ls_plugin_describe(int index, char *text, size_t size);

/* A host, in a folder of its own. */
static void make(const char *commands)
{
    char line[1000];
    snprintf(line, sizeof line, "rm -rf " SYSTEM_ROOT "; mkdir -p " SYSTEM_ROOT "/dev/vfio; cd " SYSTEM_ROOT "; %s",
             commands);
    CHECK(system(line) == 0);
}

/* A file in /dev/vfio, and what the system says about the device behind it. */
#define GROUP(number, vendor)                                                                                          \
    "touch dev/vfio/" number "; mkdir -p sys/kernel/iommu_groups/" number "/devices/0000:00:05.0; echo " vendor        \
    " > sys/kernel/iommu_groups/" number "/devices/0000:00:05.0/vendor; "

static void files_of_chips_are_counted(void)
{
    make("touch dev/accel0 dev/accel1");
    CHECK(xla_count() == 2);
    make(GROUP("0", "0x1ae0") GROUP("1", "0x1ae0") "touch dev/vfio/vfio");
    CHECK(xla_count() == 2);
    make("touch dev/vfio/0 dev/vfio/1 dev/vfio/2");
    CHECK(xla_count() == 3);
}

static void devices_of_other_vendors_are_not(void)
{
    make(GROUP("0", "0x1ae0") GROUP("11", "0x10de") GROUP("12", "0x15b3"));
    CHECK(xla_count() == 1);
    make("true");
    int without = xla_count();
    make(GROUP("11", "0x10de"));
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
    CHECK_RUN(devices_of_other_vendors_are_not);
    CHECK_RUN(chips_that_a_process_may_see_are_counted_and_named);
    if (system("rm -rf " SYSTEM_ROOT) != 0) return 1;
    return check_done();
}
