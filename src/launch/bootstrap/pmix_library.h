/* pmix_library.h - definitions of the PMIx standard, versions 3 to 5, as far as an exchange needs them. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_PMIX_LIBRARY_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_PMIX_LIBRARY_H

#include "launch/bootstrap/pmix.h"

enum { LS_PMIX_BOOL = 1, LS_PMIX_INT = 6, LS_PMIX_UINT32 = 14, LS_PMIX_BYTES = 27 }; /* types of values */
enum { LS_PMIX_GLOBAL = 3, LS_PMIX_DONE_ALREADY = -157 };
#define LS_PMIX_ANY_RANK (UINT32_MAX - 1)

typedef struct ls_pmix_process {
    char space[256];
    uint32_t rank;
} ls_pmix_process;

typedef struct ls_pmix_value {
    uint16_t type;
    union {
        bool flag;
        int integer;
        uint32_t uint32;
        struct {
            char *start;
            size_t size;
        } bytes;
        void *room[3]; /* the largest member has three words */
    } data;
} ls_pmix_value;

typedef struct ls_pmix_info {
    char key[512];
    uint32_t flags;
    ls_pmix_value value;
} ls_pmix_info;

typedef void ls_pmix_done(int status, void *user);

/* The library's functions; 0 is success. The caller must free() values returned by get(). */
typedef struct ls_pmix_library {
    int (*init)(ls_pmix_process *me, ls_pmix_info *with, size_t count);
    int (*finalize)(const ls_pmix_info *with, size_t count);
    int (*put)(uint8_t scope, const char *key, ls_pmix_value *what);
    int (*commit)(void);
    int (*fence)(const ls_pmix_process *who, size_t whos, const ls_pmix_info *with, size_t count, ls_pmix_done *done,
                 void *user);
    int (*get)(const ls_pmix_process *whose, const char *key, const ls_pmix_info *with, size_t count,
               ls_pmix_value **what);
    const char *(*error_string)(int status);
} ls_pmix_library;

/* ls_pmix_open() with a library that is already loaded. */
ls_status ls_pmix_open_with(ls_pmix **pmix, const ls_pmix_library *library, int *rank, int *world, ls_message *why);

#endif
