/* nearest.c - how far apart two words are. */
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

static int folded(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

int ls_word_distance(const char *a, size_t length, const char *b, size_t columns)
{
    int row[64];
    if (columns >= sizeof row / sizeof *row || length >= sizeof row / sizeof *row) return 64;
    for (size_t j = 0; j <= columns; j++) row[j] = (int)j;
    for (size_t i = 1; i <= length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= columns; j++) {
            int replaced = diagonal + (folded(a[i - 1]) != folded(b[j - 1]));
            diagonal = row[j];
            row[j] = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            if (replaced < row[j]) row[j] = replaced;
        }
    }
    return row[columns];
}

ls_nearest ls_nearest_to(const char *text, size_t length)
{
    return (ls_nearest){.text = text, .length = length, .distance = (int)(length < 63 ? length : 63) / 2 + 1};
}

void ls_nearest_try(ls_nearest *nearest, const char *name)
{
    int d = ls_word_distance(nearest->text, nearest->length, name, strlen(name));
    if (d >= nearest->distance) return;
    nearest->distance = d;
    nearest->name = name;
}
