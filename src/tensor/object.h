/* object.h - things a run owns besides tensors: modules, optimisers, schedules, lists of named tensors.
 *
 * Such a struct begins with an ls_object. Its kind lets a function that takes any of them tell what it got; the run
 * frees what is left when it ends. */
#ifndef LOCKSTEP_TENSOR_OBJECT_H
#define LOCKSTEP_TENSOR_OBJECT_H

#include <lockstep/state.h>

typedef enum ls_object_kind {
    LS_OBJECT_STATE = 0x4f424a01,
    LS_OBJECT_MODULE,
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
    bool prepared; /* handed to ls_prepare() */
    ls_run *run;
    size_t bytes;
    struct ls_object *older, *newer;
    void (*clear)(void *object);           /* lets go what the object holds; the object itself is freed by the caller */
    ls_state *(*parameters)(void *object); /* what an optimiser trains; NULL: there is nothing */
} ls_object;

/* What every kind of hook begins with. */
struct ls_hook {
    ls_object object;
};

/* A zeroed object of `bytes` that the run owns; NULL (and an error) when memory is out. */
void *ls_object_new(ls_run *run, ls_object_kind kind, size_t bytes, void (*clear)(void *object));
void ls_object_free(void *object); /* NULL is accepted */
/* At the end of the run: all that are left, the latest made first. What a program still holds of them is empty then,
 * belongs to a run that has failed, and does nothing; that is so for the latest thousands of such objects. */
void ls_objects_free(ls_run *run);
/* Is it such an object? Then that is an error of the thread's latest run. NULL is not. */
bool ls_object_has_ended(const void *object, const char *who);

/* The parameters of an object that has some, as a module; NULL: of any other. */
ls_state *ls_object_parameters(void *object);

/* A copy of a string, freed with ls_sys_free(); NULL (and an error) when memory is out. */
char *ls_text_copy(ls_run *run, const char *text);

#endif
