/* count.h - the number of GPUs, without starting the driver. */
#ifndef LOCKSTEP_CUDA_COUNT_H
#define LOCKSTEP_CUDA_COUNT_H

#include <stdbool.h>
#include <stddef.h>

int cuda_count(void);
/* How many of the GPUs CUDA_VISIBLE_DEVICES makes visible: "1,0", "GPU-8a3f...", "" (none), NULL (all). */
int cuda_visible(const char *list, int present);
/* The word for GPU `index` of those that are seen, "1" or "GPU-8a3f..."; false if there is none. */
bool cuda_visible_word(const char *list, int index, char *word, size_t size);

#endif
