/* nearest.c - how far apart two words are. */
#include "base/nearest.h"

#include <ctype.h>
#include <stdio.h>
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
    ls_nearest_add(nearest, name, ls_word_distance(nearest->text, nearest->length, name, strlen(name)));
}

void ls_nearest_add(ls_nearest *nearest, const char *name, int distance)
{
    int64_t at = nearest->seen++;
    if (at > LS_NEAREST_FEW) at = LS_NEAREST_FEW;
    for (; at > 0 && nearest->distances[at - 1] > distance; at--) {
        if (at == LS_NEAREST_FEW) continue; /* farther than all of the few */
        nearest->few[at] = nearest->few[at - 1];
        nearest->distances[at] = nearest->distances[at - 1];
    }
    if (at < LS_NEAREST_FEW) {
        nearest->few[at] = name;
        nearest->distances[at] = distance;
    }
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    nearest->name = name;
}

const char *ls_nearest_names(const ls_nearest *nearest, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    int64_t shown = nearest->seen < LS_NEAREST_FEW ? nearest->seen : LS_NEAREST_FEW;
    for (int64_t i = 0; i < shown && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", nearest->few[i]);
    if (nearest->seen > shown && used < size)
        snprintf(text + used, size - used, " and %lld more", (long long)(nearest->seen - shown));
    return text;
}
