/* terminal.h - lines for a terminal that shows a status line (a progress bar) at its bottom.
 *
 * The status line is the last line of stderr. All text for the user must go through ls_terminal_write(), which removes
 * the status line first and shows it again after the text. May be called from any thread. */
#ifndef LOCKSTEP_BASE_TERMINAL_H
#define LOCKSTEP_BASE_TERMINAL_H

#include <lockstep/base.h>

#include <stdarg.h>
#include <stdio.h>

/* Width of the terminal behind a file descriptor, at least 1; 0 when it is not a terminal. */
int ls_terminal_columns(int descriptor);

/* Write text, and flush it if a status line is shown. */
void ls_terminal_write(FILE *to, const char *text, size_t length);
LS_PRINTF(2, 0) void ls_terminal_print(FILE *to, const char *format, va_list args);

/* Replace the status line; "" removes it. It must fit the terminal's width and is cut to LS_TERMINAL_STATUS - 1
 * bytes. */
enum { LS_TERMINAL_STATUS = 512 };
void ls_terminal_status(const char *line);

/* Characters (not bytes) of a UTF-8 text. */
size_t ls_terminal_width_of(const char *text);

#endif
