/* choices.h - what was found by trying, kept for the next program: which of a library's proposals is the fastest.
 *
 * A file in the user's cache folder, a line for each: a hash of all that the choice depends on, and its number. Lines
 * that are damaged are ignored, and a file that cannot be read or written means trying again. */
#ifndef LOCKSTEP_CUDA_CHOICES_H
#define LOCKSTEP_CUDA_CHOICES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cuda_choices cuda_choices;
struct cuda_device;

/* The choices in a file of this name, which must name all that they have in common: the GPU, the library's version.
 * Characters that do not suit a file become '-'. NULL: no memory. */
cuda_choices *cuda_choices_open(const char *name);
/* Of a library on this GPU. */
cuda_choices *cuda_open_choices(const struct cuda_device *d, const char *library, size_t version);
void cuda_choices_close(cuda_choices *choices);

enum { CUDA_CHOICE_UNKNOWN = -1, CUDA_MOST_CHOICE = 99 };

/* The number that was kept for these bytes. */
int cuda_choices_find(const cuda_choices *choices, const void *key, size_t size);
/* Keep 0 .. CUDA_MOST_CHOICE for them, in place of what is known; other numbers are not kept. */
void cuda_choices_keep(cuda_choices *choices, const void *key, size_t size, int chosen);

#ifdef __cplusplus
}
#endif
#endif
