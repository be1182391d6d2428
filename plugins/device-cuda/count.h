/* count.h - GPUs that are there, before the driver is started. */
#ifndef LOCKSTEP_CUDA_COUNT_H
#define LOCKSTEP_CUDA_COUNT_H

#include <stdbool.h>

int cuda_count(void);
/* Of so many GPUs, those that CUDA_VISIBLE_DEVICES lets a process see: "1,0", "GPU-8a3f...", "" (none), NULL (all). */
int cuda_visible(const char *list, int present);

#endif
