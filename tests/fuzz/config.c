/* config.c - files of `lockstep config` and of accelerate. */
#include <lockstep/launch.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static ls_launch_config config;
    char why[400];
    ls_launch_config_default(&config);
    ls_launch_config_read(fuzz_file(bytes, size), &config, why, sizeof why);
    return 0;
}
