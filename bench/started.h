/* started.h - how long this process has been running: what a user waits for before the first step is done. */
#ifndef LOCKSTEP_BENCH_STARTED_H
#define LOCKSTEP_BENCH_STARTED_H

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Seconds since the system started the process, to a hundredth; 0 if /proc does not say. */
static inline double seconds_since_start(void)
{
    char text[1024] = "";
    unsigned long long began = 0;
    FILE *file = fopen("/proc/self/stat", "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    const char *field = strrchr(text, ')'); /* the end of field 2, a name that may contain anything */
    for (int i = 2; field && i < 22; i++) field = strchr(field + 1, ' ');
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    if (!field || sscanf(field, "%llu", &began) != 1) return 0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - (double)began / (double)sysconf(_SC_CLK_TCK);
}

#endif
