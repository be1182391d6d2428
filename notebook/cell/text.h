/* text.h - growing text. The kernel ends with a message when memory runs out: without memory it can answer nobody. */
#ifndef LOCKSTEP_NOTEBOOK_TEXT_H
#define LOCKSTEP_NOTEBOOK_TEXT_H

#include <lockstep/base.h>

#include <stddef.h>

/* Starts with all zero. `bytes` is zero-terminated, or NULL while nothing was added: text_view() is never NULL. */
typedef struct string {
    char *bytes;
    size_t length, capacity;
} string;

void text_put(string *to, const char *bytes, size_t length);
void text_add(string *to, const char *words);
LS_PRINTF(2, 3) void text_print(string *to, const char *format, ...);
const char *text_view(const string *from);
void text_clear(string *what); /* keeps the memory */
void text_free(string *what);

/* Memory that is there: zeroed, and grown to hold one more element than `count`. */
void *must_alloc(size_t bytes);
void *must_grow(void *list, size_t count, size_t element);
/* Copies, zero-terminated; ls_sys_free() them. */
char *copy_bytes(const char *bytes, size_t length);
char *copy_text(const char *words);

#endif
