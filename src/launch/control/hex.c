/* hex.c - two digits a byte. */
#include "launch/control/hex.h"

#include <string.h>

static const char digits[] = "0123456789abcdef";

void ls_hex_write(const void *bytes, size_t size, char *text)
{
    const unsigned char *from = bytes;
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[from[i] >> 4];
        text[2 * i + 1] = digits[from[i] & 15];
    }
    text[2 * size] = '\0';
}

bool ls_hex_read(const char *text, void *bytes, size_t size)
{
    unsigned char *to = bytes;
    if (strlen(text) != 2 * size) return false;
    for (size_t i = 0; i < size; i++) {
        const char *high = strchr(digits, text[2 * i]), *low = strchr(digits, text[2 * i + 1]);
        if (!high || !low) return false;
        to[i] = (unsigned char)((high - digits) << 4 | (low - digits));
    }
    return true;
}
