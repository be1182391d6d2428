/* image_folder.c - a dataset of photos in a folder, labelled by file name or sub-folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "data/datasets/sample.h"

enum { EXAMPLES = 3, DEEPEST = 32 };

typedef struct photo {
    const char *path, *class_name; /* in the text */
    int64_t label;
} photo;

typedef struct photos {
    char *text; /* paths and class names, zero-terminated; while it grows, photos hold offsets into it */
    size_t text_bytes, text_room;
    photo *list;
    int64_t count, room;
    size_t root; /* bytes of a path that name the folder */
} photos;

/* ---- samples ---- */

/* The caller that reports the failure adds the path (path_of). */
static bool fail(ls_sample *sample, const char *why)
{
    return ls_sample_fail(sample, LS_ERR_IO, "%s", why);
}

/* The bytes of a file in the sample's scratch; NULL if it cannot be read. */
static void *read_file(ls_sample *sample, const char *path, size_t *size)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail(sample, strerror(errno)), NULL;
    char *bytes = NULL;
    *size = 0;
    if (fstat(file, &about)) fail(sample, strerror(errno));
    else if (about.st_size == 0) fail(sample, "the file is empty");
    else bytes = ls_sample_scratch(sample, (size_t)about.st_size);
    while (bytes && *size < (size_t)about.st_size) {
        ssize_t part = read(file, bytes + *size, (size_t)about.st_size - *size);
        if (part > 0) *size += (size_t)part;
        else if (part == 0 || errno != EINTR) {
            fail(sample, part ? strerror(errno) : "it was truncated while being read");
            bytes = NULL;
        }
    }
    close(file);
    return bytes;
}

static bool get(int64_t index, ls_sample *sample, void *user)
{
    const photo *p = &((const photos *)user)->list[index];
    int64_t *label = ls_sample_field(sample, 1);
    *label = p->label;
    if (sample->not_needed) return true;
    size_t size;
    const void *bytes = read_file(sample, p->path, &size);
    if (!bytes) return false;
    return ls_sample_image(sample, 0, bytes, size);
}

static int64_t class_of(int64_t index, void *user)
{
    return ((const photos *)user)->list[index].label;
}

static const char *path_of(int64_t index, void *user)
{
    return ((const photos *)user)->list[index].path;
}

/* Of the names below the folder, which may have another name on another host; reading all photos would take too long.
 * */
static uint64_t hash_samples(const void *user)
{
    const photos *all = user;
    ls_hash hash;
    ls_hash_begin(&hash);
    for (int64_t i = 0; i < all->count; i++) {
        const char *name = all->list[i].path + all->root;
        ls_hash_add(&hash, name, strlen(name) + 1);
        ls_hash_add(&hash, &all->list[i].label, sizeof all->list[i].label);
    }
    return ls_hash_end(&hash);
}

static void release(void *user)
{
    photos *all = user;
    ls_sys_free(all->text);
    ls_sys_free(all->list);
    ls_sys_free(all);
}

/* ---- scanning ---- */

typedef struct search {
    ls_run *run;
    photos *all;
    const char *root;
    bool by_folder;
    regex_t pattern;
    int64_t left_out;
    char examples[EXAMPLES][80]; /* of files that were skipped, */
    char folder[80];             /* and of sub-folders of the root: the first by name */
} search;

static bool out_of_memory(search *s)
{
    ls_fail(&s->run->errors, LS_ERR_MEMORY, "image folder: no memory for the list of files");
    return false;
}

/* Append a text; *at is its offset. */
static bool append(search *s, const char *text, size_t length, size_t *at)
{
    photos *all = s->all;
    if (all->text_bytes + length + 1 > all->text_room) {
        size_t room = (all->text_room + length + 1) * 2 + 4096;
        char *grown = ls_sys_realloc(all->text, room);
        if (!grown) return out_of_memory(s);
        all->text = grown;
        all->text_room = room;
    }
    *at = all->text_bytes;
    memcpy(all->text + *at, text, length);
    all->text[*at + length] = 0;
    all->text_bytes += length + 1;
    return true;
}

static bool add_photo(search *s, const char *path, const char *class_name, size_t class_length)
{
    photos *all = s->all;
    if (all->count == all->room) {
        int64_t room = all->room * 2 + 256;
        photo *grown = ls_sys_realloc(all->list, (size_t)room * sizeof *grown);
        if (!grown) return out_of_memory(s);
        all->list = grown;
        all->room = room;
    }
    size_t path_at, class_at;
    if (!append(s, path, strlen(path), &path_at) || !append(s, class_name, class_length, &class_at)) return false;
    all->list[all->count++] = (photo){.path = (const char *)path_at, .class_name = (const char *)class_at};
    return true;
}

/* Keep the names that sort first: the order in which a folder lists files depends on the machine. */
static void leave_out(search *s, const char *name)
{
    int at = s->left_out < EXAMPLES ? (int)s->left_out : EXAMPLES;
    s->left_out++;
    for (; at > 0 && strcmp(name, s->examples[at - 1]) < 0; at--)
        if (at < EXAMPLES) memcpy(s->examples[at], s->examples[at - 1], sizeof s->examples[0]);
    if (at < EXAMPLES) snprintf(s->examples[at], sizeof s->examples[0], "%.79s", name);
}

/* A file: `class_name` is its sub-folder, NULL directly in the root. */
static bool visit_file(search *s, const char *path, const char *name, const char *class_name)
{
    regmatch_t match[2];
    bool matches = regexec(&s->pattern, name, 2, match, 0) == 0;
    if (s->by_folder) {
        if (matches && class_name) return add_photo(s, path, class_name, strlen(class_name));
    } else if (matches && match[1].rm_so >= 0) {
        return add_photo(s, path, name + match[1].rm_so, (size_t)(match[1].rm_eo - match[1].rm_so));
    }
    leave_out(s, name);
    return true;
}

typedef enum entry_kind { ENTRY_FILE, ENTRY_FOLDER, ENTRY_NEITHER } entry_kind;

/* Most file systems return the type with the name; otherwise, and for links, call stat. */
static entry_kind kind_of(const struct dirent *entry, const char *path)
{
    struct stat about;
    if (entry->d_type == DT_REG) return ENTRY_FILE;
    if (entry->d_type == DT_DIR) return ENTRY_FOLDER;
    if (stat(path, &about)) return ENTRY_NEITHER;
    return S_ISREG(about.st_mode) ? ENTRY_FILE : S_ISDIR(about.st_mode) ? ENTRY_FOLDER : ENTRY_NEITHER;
}

static bool visit_folder(search *s, const char *folder, const char *class_name, int depth)
{
    DIR *open_folder = opendir(folder);
    if (!open_folder) {
        ls_fail(&s->run->errors, LS_ERR_IO, "image folder: cannot read %s: %s", folder, strerror(errno));
        return false;
    }
    bool ok = true;
    for (const struct dirent *entry; ok && (entry = readdir(open_folder));) {
        const char *name = entry->d_name;
        char path[4096];
        if (name[0] == '.') continue;
        int length = snprintf(path, sizeof path, "%s/%s", folder, name);
        entry_kind kind = length < (int)sizeof path ? kind_of(entry, path) : ENTRY_NEITHER;
        if (kind == ENTRY_NEITHER) leave_out(s, name);
        else if (kind == ENTRY_FILE) ok = visit_file(s, path, name, class_name);
        else {
            if (depth == 0 && (!s->folder[0] || strcmp(name, s->folder) < 0))
                snprintf(s->folder, sizeof s->folder, "%.79s", name);
            if (s->by_folder && depth < DEEPEST) /* the limit ends cycles of links */
                ok = visit_folder(s, path, class_name ? class_name : name, depth + 1);
        }
    }
    closedir(open_folder);
    return ok;
}

/* ---- order and labels ---- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const photo *)a)->path, ((const photo *)b)->path);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sort the photos, number the classes and set the dataset's class names. */
static bool put_in_order(search *s, ls_dataset *set)
{
    photos *all = s->all;
    const char **names = ls_sys_alloc((size_t)all->count * sizeof *names);
    if (!names) return out_of_memory(s);
    for (int64_t i = 0; i < all->count; i++) {
        all->list[i].path = all->text + (size_t)all->list[i].path;
        all->list[i].class_name = names[i] = all->text + (size_t)all->list[i].class_name;
    }
    qsort(all->list, (size_t)all->count, sizeof *all->list, by_path);
    qsort(names, (size_t)all->count, sizeof *names, by_text);
    int64_t classes = 0;
    for (int64_t i = 0; i < all->count; i++)
        if (i == 0 || strcmp(names[i], names[classes - 1]) != 0) names[classes++] = names[i];
    for (int64_t i = 0; i < all->count; i++)
        all->list[i].label =
            (const char **)bsearch(&all->list[i].class_name, names, (size_t)classes, sizeof *names, by_text) - names;
    bool ok = ls_dataset_set_classes(set, classes, names);
    if (ok && classes == 1)
        ls_log_of_job(LS_LOG_WARN, "image folder: all %lld photos of %s belong to one class, \"%s\"",
                      (long long)all->count, s->root, names[0]);
    ls_sys_free(names);
    return ok;
}

/* Report skipped files; no photo at all is an error. */
static bool report(search *s, const char *pattern)
{
    char list[EXAMPLES * 82] = "";
    for (int i = 0; i < EXAMPLES && i < s->left_out; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", s->examples[i]);
    }
    const char *more = s->left_out > EXAMPLES ? ", ..." : "";
    char cure[256];
    if (s->by_folder) snprintf(cure, sizeof cure, "with .by_folder, put photos into one sub-folder per class");
    else if (s->folder[0])
        snprintf(cure, sizeof cure, "are they in %.60s/%s? To label by sub-folder, set .by_folder = true", s->root,
                 s->folder);
    else snprintf(cure, sizeof cure, "to label by file name, set .pattern = \"^([a-z]+)-.*\\\\.jpeg$\"");
    if (s->all->count == 0) {
        ls_fail(&s->run->errors, LS_ERR_IO,
                "image folder: %s has no photo whose name matches %s (%lld other files%s%s%s); %s", s->root, pattern,
                (long long)s->left_out, s->left_out ? ": " : "", list, more, cure);
        return false;
    }
    if (s->left_out)
        ls_log_of_job(LS_LOG_WARN, "image folder: skipped %lld files of %s, used %lld: %s%s does not match %s; %s",
                      (long long)s->left_out, s->root, (long long)s->all->count, list, more, pattern, cure);
    return true;
}

static bool compile(search *s, const char *pattern, bool any_case)
{
    int status = regcomp(&s->pattern, pattern, REG_EXTENDED | (any_case ? REG_ICASE : 0));
    if (status) {
        char why[128];
        regerror(status, &s->pattern, why, sizeof why);
        ls_fail(&s->run->errors, LS_ERR_VALUE, "image folder: .pattern = \"%s\": %s", pattern, why);
        return false;
    }
    if (s->by_folder || s->pattern.re_nsub > 0) return true;
    ls_fail(&s->run->errors, LS_ERR_VALUE, "image folder: .pattern = \"%s\" has no group in ( ), which marks the label",
            pattern);
    regfree(&s->pattern);
    return false;
}

ls_dataset *ls_image_folder_new_sized(ls_run *run, const char *folder, const ls_image_folder_opts *opts,
                                      size_t opts_size)
{
    ls_image_folder_opts o = LS_OPTS_READ(ls_image_folder_opts, opts, opts_size);
    if (ls_failed(run)) return NULL;
    if (!folder) return ls_fail(&run->errors, LS_ERR_VALUE, "image folder: the path is NULL"), NULL;
    const ls_field fields[LS_MAX_FIELDS] = {{.name = "image", .image = true}, {.name = "label", .dtype = LS_I64}};
    ls_dataset *set = ls_dataset_begin(run, "image folder", fields);
    if (!set) return NULL;
    search s = {.run = run, .all = ls_sys_alloc(sizeof(photos)), .root = folder, .by_folder = o.by_folder};
    set->user = s.all;
    set->release = s.all ? release : NULL;
    set->get = get;
    set->class_of = class_of;
    set->path_of = path_of;
    set->hash_samples = hash_samples;
    set->on_bad = o.on_bad;
    const char *usual = o.by_folder ? "\\.(jpg|jpeg|png)$" : "^(.*)_[0-9]+\\.jpg$";
    const char *pattern = o.pattern ? o.pattern : usual;
    bool ok =
        s.all ? compile(&s, pattern, !o.pattern) : out_of_memory(&s); /* ignores case by default: cameras write .JPG */
    if (ok) {
        ok = visit_folder(&s, folder, NULL, 0) && report(&s, pattern) && put_in_order(&s, set);
        regfree(&s.pattern);
    }
    if (!ok || !ls_dataset_set_source(set, folder)) return ls_object_free(set), NULL;
    s.all->root = strlen(folder);
    set->count = s.all->count;
    return set;
}
