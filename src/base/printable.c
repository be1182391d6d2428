/* printable.c - make text safe for a terminal: without characters that control it. */
#include <lockstep/base.h>

#include <string.h>

#include "base/utf8.h"

/* Control characters (C0, DEL, C1), marks that change the direction of text, and line separators: a terminal obeys
 * them, or shows a different text from the one that was written. */
static bool controls_terminal(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

char *ls_printable(char *to, size_t size, const char *text)
{
    if (!to) return NULL;
    if (!text) text = "";
    size_t used = 0;
    for (size_t left = strlen(text), length; left && size; text += length, left -= length) {
        length = ls_utf8_length(text, left);
        bool shown = length && !controls_terminal(ls_utf8_decode(text, length));
        if (!length) length = 1;
        if (used + (shown ? length : 1) >= size) break;
        if (shown) memmove(to + used, text, length);
        else to[used] = *text == '\n' || *text == '\r' || *text == '\t' ? ' ' : '?';
        used += shown ? length : 1;
    }
    if (size) to[used] = '\0';
    return to;
}
