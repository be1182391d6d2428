/* message.h - why something failed, as text: written by the function that fails, passed up by its callers.
 *
 *     if (file < 0) return ls_explain(why, LS_ERR_IO, "%s: %s", path, strerror(errno));
 *
 * A text that is too long is cut off. `why` may be NULL if the text is not needed. Sticky errors are in status.h. */
#ifndef LOCKSTEP_BASE_MESSAGE_H
#define LOCKSTEP_BASE_MESSAGE_H

#include <lockstep/base.h>

#include <stdarg.h>

/* For functions that return a status: writes the message and returns `code`. */
LS_PRINTF(3, 4) ls_status ls_explain(ls_message *why, ls_status code, const char *format, ...);
/* For all others. */
LS_PRINTF(2, 3) void ls_message_set(ls_message *why, const char *format, ...);
LS_PRINTF(2, 0) void ls_message_set_list(ls_message *why, const char *format, va_list args);

#endif
