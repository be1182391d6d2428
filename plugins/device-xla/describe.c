/* describe.c - a device in a line for people, before it is opened: its chip, and the library that it is reached
 * through. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla.h"

/* The chip that this process knows by `index`: a launcher shows every process its own (TPU_VISIBLE_CHIPS=3). */
static int chip_of(int index)
{
    const char *word = xla_visible_chips();
    for (int i = 0; word && *word && i < index; i++) word += strcspn(word, ","), word += *word == ',';
    return word && *word ? atoi(word) : index;
}

__attribute__((visibility("default"))) void ls_plugin_describe(int index, char *text, size_t size);

void ls_plugin_describe(int index, char *text, size_t size)
{
    char path[500];
    ls_message why;
    if (pjrt_find(path, sizeof path, &why)) snprintf(text, size, "chip %d of %s", chip_of(index), path);
    else snprintf(text, size, "%s", why.text);
}
