/* compiler.h - units into shared objects, by the C compiler of the system. */
#ifndef LOCKSTEP_NOTEBOOK_COMPILER_H
#define LOCKSTEP_NOTEBOOK_COMPILER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/message.h"
#include "cell/text.h"

enum { LONGEST_FOLDER = 256, LONGEST_LIBRARY = LONGEST_FOLDER + 32 };

typedef struct compiler {
    char folder[LONGEST_FOLDER]; /* private to this kernel, below TMPDIR or /tmp; removed with it */
    int lock;                    /* of the folder: a later kernel removes those that nobody holds */
    const char *include;         /* where lockstep.h is */
    string flags;                /* a user's own, separated by blanks */
    pid_t preparing; /* the process that compiles the header which all cells begin with; 0 when it is done */
    pid_t running;   /* the process that compiles a cell, which is never at the same time; 0 when it has ended */
    int messages;    /* what either says; -1 when it has ended */
} compiler;

bool compiler_open(compiler *c, const char *include, ls_message *why);
void compiler_close(compiler *c);
/* While `preparing`, `messages` become readable at its end at the latest: take note then. */
void compiler_listen_header(compiler *c);
/* From now on, compile with these as well. */
void compiler_set_flags(compiler *c, const char *flags);

typedef struct compilation {
    int number;       /* makes c<number>.so */
    int shown_as;     /* In[n]: the name that messages give to the code */
    const char *code; /* of the cell, for messages to quote */
    const char *unit; /* what is compiled */
} compilation;

/* Compile a unit to the file `path`; the header must be ready. Between these two calls the kernel waits for `messages`
 * of the compiler to become readable, then listens. What the compiler says, warnings included, is appended to
 * `messages`. */
bool compiler_begin(compiler *c, const compilation *what, char path[LONGEST_LIBRARY], string *messages);
/* False if the unit is not C, or the compiler was stopped. */
bool compiler_end(compiler *c);
/* Take what it says; false when it has said everything. */
bool compiler_listen(const compiler *c, string *messages);
/* End it early. */
void compiler_stop(const compiler *c);

/* The line of a byte of a cell's library: the cell's number in In[n] and the line in it, from 1. False: not known, as
 * when there is no addr2line beside the compiler. */
bool compiler_find_line(const compiler *c, const char *library, uint64_t offset, int *cell, int *line);

#endif
