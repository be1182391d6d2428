/* count.h - the number of GPUs, without starting the driver. */
#ifndef LOCKSTEP_CUDA_COUNT_H
#define LOCKSTEP_CUDA_COUNT_H

#include <stdbool.h>

int cuda_count(void);
/* How many of the GPUs CUDA_VISIBLE_DEVICES makes visible: "1,0", "GPU-8a3f...", "" (none), NULL (all). */
int cuda_visible(const char *list, int present);

#endif
