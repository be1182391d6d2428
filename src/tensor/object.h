/* object.h - objects a run owns besides tensors: modules, optimisers, schedules, lists of named tensors.
 *
 * Such a struct begins with an ls_object. Its kind tells a function that takes any of them which one it got; the run
 * frees the remaining ones when it ends. */
#ifndef LOCKSTEP_TENSOR_OBJECT_H
#define LOCKSTEP_TENSOR_OBJECT_H

#include <lockstep/state.h>

typedef enum ls_object_kind {
    LS_OBJECT_STATE = 0x4f424a01,
    LS_OBJECT_MODULE,
    LS_OBJECT_EMA,
    LS_OBJECT_OPTIM,
    LS_OBJECT_SCHEDULE,
    LS_OBJECT_SCALER,
    LS_OBJECT_PROGRESS,
    LS_OBJECT_NAMES,
    LS_OBJECT_HOOK,
    LS_OBJECT_FORWARD_HOOK,
    LS_OBJECT_DATASET,
    LS_OBJECT_SAMPLER,
    LS_OBJECT_LOADER,
    LS_OBJECT_CONTENTS,
    LS_OBJECT_TRACKER,
    LS_OBJECT_HISTORY,
    LS_OBJECT_PLOT,
    LS_OBJECT_TOKENIZER,
    LS_OBJECT_ENCODING,
    LS_OBJECT_QUESTIONS,
    LS_OBJECT_QA_WINDOWS,
    LS_OBJECT_QA_ANSWERS,
    LS_OBJECT_ENDED, /* its run has ended */
} ls_object_kind;

typedef struct ls_object {
    ls_object_kind kind;
    bool prepared;  /* passed to ls_prepare() */
    bool forgotten; /* older than the last ls_free_memory(): its training is over, unless it is prepared again */
    ls_run *run;
    size_t bytes;
    struct ls_object *older, *newer;
    void (*clear)(void *object);           /* frees what the object holds; the caller frees the object itself */
    ls_state *(*parameters)(void *object); /* what an optimiser trains; NULL: nothing */
} ls_object;

/* The first member of every kind of hook. */
struct ls_hook {
    ls_object object;
};

/* A zeroed object of `bytes` that the run owns; NULL (and an error) when out of memory. */
void *ls_object_new(ls_run *run, ls_object_kind kind, size_t bytes, void (*clear)(void *object));
void ls_object_free(void *object); /* NULL is accepted */
/* At the end of the run: free the remaining ones, newest first. Pointers that a program still holds then refer to empty
 * objects of a failed run, on which calls do nothing; this holds for the latest thousands of such objects. */
void ls_objects_free(ls_run *run);
/* Is it such an object? If so, records an error in the thread's latest run. False for NULL. */
bool ls_object_has_ended(const void *object, const char *who);

/* The parameters of an object that has some, such as a module; NULL for any other. */
ls_state *ls_object_parameters(void *object);

/* A copy of a string; ls_sys_free() it. NULL (and an error) when out of memory. */
char *ls_text_copy(ls_run *run, const char *text);

#endif
