/* arguments.h - the arguments of test programs that run on any device. */
#ifndef LOCKSTEP_TESTS_ARGUMENTS_H
#define LOCKSTEP_TESTS_ARGUMENTS_H

#include "check.h"

/* --device NAME, which is returned (NULL: none), and a filter by the names of tests. */
static inline const char *check_arguments(int argc, char **argv)
{
    const char *device = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) device = argv[++i];
        else check_filter = argv[i];
    }
    return device;
}

#endif
