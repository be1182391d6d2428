/* display.c - show data of many types: below a cell, in a named place, or as the cell's result. */
#include <lockstep/notebook.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "display.h"
#include "picture.h"
#include "session.h"
#include "temporary.h"

/* Of the running cell: cells have no session to pass around. */
static int cell_number;

void display_begin(int cell)
{
    cell_number = cell;
}

void display_send(const session_message *message, const display_data *forms, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++) size += sizeof(display_form) + strlen(forms[i].mime) + forms[i].size;
    char *payload = malloc(size), *at = payload;
    if (!payload) return;
    for (int i = 0; i < count; i++) {
        display_form form = {.type_size = strlen(forms[i].mime), .data_size = forms[i].size};
        memcpy(at, &form, sizeof form);
        memcpy(at + sizeof form, forms[i].mime, form.type_size);
        at += sizeof form + form.type_size;
        if (form.data_size) memcpy(at, forms[i].data, form.data_size);
        at += form.data_size;
    }
    session_send(message, payload, size);
    free(payload);
}

void ls_notebook_display(const char *mime, const void *data, size_t size)
{
    session_message message = {.event = SESSION_DISPLAY};
    display_send(&message, &(display_data){mime, data, size}, 1);
}

void ls_notebook_update(const char *place, const char *mime, const void *data, size_t size)
{
    session_message message = {.event = SESSION_DISPLAY};
    snprintf(message.name, sizeof message.name, "cell %d: %s", cell_number, place);
    display_send(&message, &(display_data){mime, data, size}, 1);
}

void ls_notebook_clear(void)
{
    session_send(&(session_message){.event = SESSION_CLEAR}, NULL, 0);
}

void ls_notebook_image(ls_tensor *value)
{
    if (!is_picture(value)) {
        fprintf(stderr,
                "not a picture: it must be [C,H,W] or [N,C,H,W], with 1 or 3 channels and sides of 8 or more\n");
        return;
    }
    size_t size;
    char *png = picture_of(value, &size);
    if (png) ls_notebook_display("image/png", png, size);
    free(png);
}

static const char *picture_type(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot && strcmp(dot, ".png") == 0) return "image/png";
    if (dot && (strcmp(dot, ".jpg") == 0 || strcmp(dot, ".jpeg") == 0)) return "image/jpeg";
    if (dot && strcmp(dot, ".svg") == 0) return "image/svg+xml";
    return NULL;
}

bool temporary_file(char path[TEMPORARY_PATH], const char *ending)
{
    int length = snprintf(path, TEMPORARY_PATH, "%s/lockstep-XXXXXX%s", temporary_folder(), ending);
    int file = length < TEMPORARY_PATH ? mkstemps(path, (int)strlen(ending)) : -1;
    if (file >= 0) close(file);
    return file >= 0;
}

char *file_contents(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *bytes = NULL, piece[65536];
    FILE *copy = open_memstream(&bytes, size);
    for (size_t got; copy && (got = fread(piece, 1, sizeof piece, file)) > 0;) fwrite(piece, 1, got, copy);
    fclose(file);
    return copy && fclose(copy) == 0 ? bytes : NULL;
}

bool display_file(const char *place, const char *mime, const char *path)
{
    size_t size;
    char *bytes = file_contents(path, &size);
    if (!bytes) return false;
    if (place) ls_notebook_update(place, mime, bytes, size);
    else ls_notebook_display(mime, bytes, size);
    free(bytes);
    return true;
}

bool ls_notebook_picture(const char *path)
{
    const char *type = picture_type(path);
    if (!type) {
        fprintf(stderr, "%s: not a picture: the name ends neither in .png nor in .jpg nor in .svg\n", path);
        return false;
    }
    bool shown = display_file(NULL, type, path);
    if (!shown) perror(path);
    return shown;
}
