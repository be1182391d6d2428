/* json.h - JSON (RFC 8259): a strict reader into one arena, and a writer into a growing text.
 *
 *     ls_message why;
 *     ls_json *root = ls_json_read(text, length, &why);            NULL: why.text says where and what
 *     const char *name = ls_json_text(ls_json_get(root, "name"));  NULL: no such member, or not a string
 *     ls_json_free(root);
 *
 *     ls_json_writer w = {.indent = 2};
 *     ls_json_put_object(&w, NULL);
 *     ls_json_put_integer(&w, "epoch", 3);
 *     ls_json_put_end(&w);
 *     char *text = ls_json_take(&w, NULL);                         NULL: out of memory; ls_sys_free() it
 *
 * The reader accepts nothing beyond the standard: no comments, no trailing commas, no NaN, no invalid UTF-8. It rejects
 * duplicate keys in an object, nesting beyond LS_JSON_DEPTH and the character U+0000,
 * so that every string is a C string. */
#ifndef LOCKSTEP_BASE_JSON_H
#define LOCKSTEP_BASE_JSON_H

#include "base/message.h"
enum { LS_JSON_DEPTH = 64 };

/* ---- Reading ---- */

typedef enum ls_json_type {
    LS_JSON_NULL,
    LS_JSON_BOOL,
    LS_JSON_INTEGER, /* written without fraction and exponent, and fits int64_t */
    LS_JSON_REAL,    /* any other number */
    LS_JSON_STRING,
    LS_JSON_ARRAY,
    LS_JSON_OBJECT,
} ls_json_type;

/* A value. Strings, members and elements belong to the tree; ls_json_free(root) frees all. */
typedef struct ls_json {
    ls_json_type type;
    const char *key;            /* of a member of an object; NULL elsewhere */
    const struct ls_json *next; /* the next member or element */
    int64_t count;              /* of members or elements; bytes of a string */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *text;
        const struct ls_json *first; /* member or element */
    };
    const struct ls_json **index; /* of a large object: its members, hashed; private to the reader */
} ls_json;

/* The root of the tree, or NULL, with position and reason ("line 3, column 7: ...") in `why`. */
ls_json *ls_json_read(const char *text, size_t length, ls_message *why);
void ls_json_free(ls_json *root); /* NULL is accepted */

/* These accept NULL and values of the wrong type, and then find nothing. */
const ls_json *ls_json_get(const ls_json *object, const char *key);
/* To iterate: for (const ls_json *m = ls_json_first(v); m; m = m->next) */
const ls_json *ls_json_first(const ls_json *value);
/* The same for loops that read keys: only objects have members, the elements of an array have no key. */
const ls_json *ls_json_members(const ls_json *object);
const char *ls_json_text(const ls_json *value); /* NULL if it is not a string */
int64_t ls_json_integer(const ls_json *value, int64_t fallback);
double ls_json_number(const ls_json *value, double fallback); /* of an integer or a real */
bool ls_json_bool(const ls_json *value, bool fallback);

/* ---- Writing ---- */

/* Start with all zero, or with options set. Once out of memory the calls do nothing and ls_json_take() returns NULL. */
typedef struct ls_json_writer {
    int indent; /* blanks per level, as Python's json.dumps(indent=n); 0: all on one line without blanks */
    bool ascii; /* write other characters as \uXXXX, as Python does by default */

    /* Private to the writer. */
    char *text;
    size_t length, capacity;
    int depth;
    uint64_t arrays; /* bit d: the container at depth d is an array */
    bool filled;     /* the innermost container holds something */
    bool failed;
} ls_json_writer;

/* `key` names the member of the current object; NULL in arrays and at the root. Invalid UTF-8 is replaced with U+FFFD.
 * Reals are written so that reading them gives the same bits; NaN and infinities become null. */
void ls_json_put_object(ls_json_writer *w, const char *key);
void ls_json_put_array(ls_json_writer *w, const char *key);
void ls_json_put_end(ls_json_writer *w);                                     /* of the innermost object or array */
void ls_json_put_text(ls_json_writer *w, const char *key, const char *text); /* NULL becomes null */
void ls_json_put_integer(ls_json_writer *w, const char *key, int64_t value);
void ls_json_put_number(ls_json_writer *w, const char *key, double value);
void ls_json_put_bool(ls_json_writer *w, const char *key, bool value);
void ls_json_put_null(ls_json_writer *w, const char *key);
/* A copy of a value that was read. */
void ls_json_put_value(ls_json_writer *w, const char *key, const ls_json *value);

/* The text, zero-terminated; the caller must ls_sys_free() it. NULL when out of memory. `length` may be NULL. The
 * writer may be used again. */
char *ls_json_take(ls_json_writer *w, size_t *length);
/* Make room for `length` more bytes now, so that they take no memory later. */
void ls_json_reserve(ls_json_writer *w, size_t length);
/* Discard the text and begin another in the same memory: for writers that make many. */
void ls_json_restart(ls_json_writer *w);
/* The text so far, owned by the writer and valid until its next call. NULL when out of memory. */
const char *ls_json_view(ls_json_writer *w, size_t *length);

#endif
