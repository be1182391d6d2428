/* count.h - the number of GPUs, without starting the driver. */
#ifndef LOCKSTEP_CUDA_COUNT_H
#define LOCKSTEP_CUDA_COUNT_H

#include <stdbool.h>
#include <stddef.h>

int cuda_count(void);
/* Why the driver's library cannot be loaded; NULL: it can. Loading it does not start the driver. */
const char *cuda_driver_error(void);
/* GPUs whose files are in a folder of devices: nvidia0, nvidia1, ...; a container has those of its own. They count
 * without the driver's library, too: that something is missing should be said, not hidden by training on the CPU. Linux
 * on Windows has one file for all GPUs, whoever made them: there the driver shows that one is meant. */
int cuda_present(const char *path, bool driver);
/* How many of the GPUs CUDA_VISIBLE_DEVICES makes visible: "1,0", "GPU-8a3f...", "" (none), NULL (all). */
int cuda_visible(const char *list, int present);
/* The word for GPU `index` of those that are seen, "1" or "GPU-8a3f..."; false if there is none. */
bool cuda_visible_word(const char *list, int index, char *word, size_t size);

#endif
