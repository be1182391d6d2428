/* display.h - something to be shown, in one or several forms: a front end chooses the richest that it knows. */
#ifndef LOCKSTEP_NOTEBOOK_DISPLAY_H
#define LOCKSTEP_NOTEBOOK_DISPLAY_H

#include <stdbool.h>

#include "wire.h"

typedef struct display_data {
    const char *mime;
    const void *data;
    size_t size;
} display_data;

/* Send forms of the same thing with a message: SESSION_DISPLAY or SESSION_RESULT. */
void display_send(const session_message *message, const display_data *forms, int count);
/* Show the contents of a file in a place, or below the cell if `place` is NULL. False: it cannot be read; errno. */
bool display_file(const char *place, const char *mime, const char *path);
/* The contents of a file, with a zero behind them; free() them. NULL: it cannot be read; errno. */
char *file_contents(const char *path, size_t *size);
/* Create an empty file whose name ends in this, in the folder for temporary files; false if that is not possible. */
enum { TEMPORARY_PATH = 4096 };
bool temporary_file(char path[TEMPORARY_PATH], const char *ending);
/* A cell begins: its places are its own, so that running it again does not change what other cells show. */
void display_begin(int cell);

#endif
