/* hosts.c - parse node lists and host files. */
#include "launch/hosts.h"

#include "base/hash.h"
#include "base/memory.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_HOSTS = 1 << 16,
    MOST_NAMED = 4 * MOST_HOSTS, /* most names in a list, counting repetitions */
    LONGEST_NAME = 255
};

/* The index of the name in the table, or where it would be. */
static int *place_of(const ls_host_list *hosts, const char *name, size_t length)
{
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, name, length);
    uint32_t mask = (uint32_t)hosts->places - 1, at = (uint32_t)ls_hash_end(&hash) & mask;
    for (; hosts->place[at]; at = (at + 1) & mask) {
        const char *other = hosts->host[hosts->place[at] - 1].name;
        if (strlen(other) == length && memcmp(other, name, length) == 0) break;
    }
    return &hosts->place[at];
}

static bool make_room(ls_host_list *to)
{
    if (to->count < to->room) return true;
    int room = to->room ? 2 * to->room : 16;
    ls_host_slot *larger = room <= MOST_HOSTS ? ls_sys_realloc(to->host, (size_t)room * sizeof *larger) : NULL;
    if (larger) to->host = larger;
    int *place = larger ? ls_sys_alloc(2 * (size_t)room * sizeof *place) : NULL;
    if (!place) return false;
    ls_sys_free(to->place);
    to->place = place;
    to->places = 2 * room;
    to->room = room;
    for (int i = 0; i < to->count; i++) *place_of(to, to->host[i].name, strlen(to->host[i].name)) = i + 1;
    return true;
}

static ls_status add(ls_host_list *to, const char *name, size_t length, int slots, ls_message *why)
{
    if (length == 0 || length > LONGEST_NAME)
        return ls_explain(why, LS_ERR_VALUE, "a host name of %zu characters", length);
    int *place = to->count ? place_of(to, name, length) : NULL;
    bool again = place && *place, fits = ++to->named <= MOST_NAMED && (again || make_room(to));
    if (!fits) return ls_explain(why, LS_ERR_MEMORY, "too many hosts");
    if (again) {
        to->host[*place - 1].slots += slots;
        return LS_OK;
    }
    *place_of(to, name, length) = to->count + 1;
    ls_host_slot *slot = &to->host[to->count++];
    memcpy(slot->name, name, length);
    slot->name[length] = '\0';
    slot->slots = slots;
    return LS_OK;
}

void ls_host_list_free(ls_host_list *hosts)
{
    ls_sys_free(hosts->host);
    ls_sys_free(hosts->place);
    memset(hosts, 0, sizeof *hosts);
}

/* ---- Slurm ---------------------------------------------------------------------------------------------------- */

/* The end of the word at `text`: a comma outside brackets, or the end. */
static size_t word_length(const char *text)
{
    size_t i = 0;
    for (bool inside = false; text[i] && (inside || text[i] != ','); i++) {
        if (text[i] == '[') inside = true;
        if (text[i] == ']') inside = false;
    }
    return i;
}

/* Add every host that `word` (with brackets) stands for, after a prefix `name` of `used` characters. */
static ls_status expand(char *name, size_t used, const char *word, size_t length, ls_host_list *to, ls_message *why)
{
    const char *open = memchr(word, '[', length);
    size_t plain = open ? (size_t)(open - word) : length;
    if (used + plain > LONGEST_NAME) goto malformed;
    memcpy(name + used, word, plain);
    used += plain;
    if (!open) return add(to, name, used, 1, why);

    const char *close = memchr(open, ']', length - plain);
    if (!close) goto malformed;
    const char *rest = close + 1;
    for (const char *c = open + 1; c < close;) {
        char *end;
        if (!isdigit((unsigned char)*c)) goto malformed;
        int digits = (int)strspn(c, "0123456789"); /* leading zeros are part of the name */
        long from = strtol(c, &end, 10), upto = from;
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1])) goto malformed;
            upto = strtol(end + 1, &end, 10);
        }
        if ((*end != ',' && end != close) || upto < from || upto - from > MOST_HOSTS || digits > 18) goto malformed;
        for (long number = from; number <= upto; number++) {
            int wrote = snprintf(name + used, LONGEST_NAME + 1 - used, "%0*ld", digits, number);
            if (wrote < 0 || used + (size_t)wrote > LONGEST_NAME) goto malformed;
            ls_status status = expand(name, used + (size_t)wrote, rest, length - (size_t)(rest - word), to, why);
            if (status) return status;
        }
        c = *end == ',' ? end + 1 : end;
    }
    return LS_OK;
malformed:
    return ls_explain(why, LS_ERR_VALUE, "\"%.*s\" is not a list of hosts", (int)(length < 100 ? length : 100), word);
}

ls_status ls_host_list_expand(const char *list, ls_host_list *to, ls_message *why)
{
    char name[LONGEST_NAME + 1];
    ls_status status = LS_OK;
    while (*list && !status) {
        size_t length = word_length(list);
        status = expand(name, 0, list, length, to, why);
        list += length + (list[length] == ',');
    }
    if (!status && !to->count) status = ls_explain(why, LS_ERR_VALUE, "the list of hosts is empty");
    if (status) ls_host_list_free(to);
    return status;
}

int ls_host_list_tasks(const char *list, int host)
{
    for (int at = 0; *list;) {
        char *end;
        long tasks = strtol(list, &end, 10), times = 1;
        if (end == list || tasks < 1) return 0;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtol(end + 2, &end, 10);
            if (*end++ != ')') return 0;
        }
        if (host < at + times) return (int)tasks;
        at += (int)times;
        if (*end && *end != ',') return 0;
        list = *end ? end + 1 : end;
    }
    return 0;
}

/* ---- Host files ----------------------------------------------------------------------------------------------- */

static bool parse_slots(const char *text, size_t length, int *slots)
{
    char number[12] = "", *end;
    if (length == 0 || length >= sizeof number) return false;
    memcpy(number, text, length);
    long value = strtol(number, &end, 10);
    *slots = (int)value;
    return *end == '\0' && isdigit((unsigned char)number[0]) && value >= 1 && value < 1 << 20;
}

static size_t blanks(const char *from, const char *end)
{
    size_t count = 0;
    while (from + count < end && strchr(" \t\r", from[count])) count++;
    return count;
}

/* The length of the word here, including blanks around its '='. */
static size_t word_here(const char *line, const char *end)
{
    size_t length = 0;
    for (;;) {
        while (line + length < end && !strchr(" \t\r", line[length])) length++;
        size_t gap = blanks(line + length, end);
        const char *next = line + length + gap;
        bool joined = gap && next < end && (line[length - 1] == '=' || *next == '=');
        if (!joined) return length;
        length += gap + 1;
    }
}

/* One line without comment: a name, optionally preceded by "user@", optionally with ":n" or "slots=n"; max_slots is
 * ignored, since only mpirun uses it. */
static ls_status parse_line(const char *line, size_t length, ls_host_list *to, ls_message *why)
{
    const char *end = line + length, *name = NULL;
    size_t name_length = 0;
    int slots = 1, ignored;
    while (line < end) {
        line += blanks(line, end);
        size_t word = word_here(line, end);
        if (!word) break;
        const char *stop = line + word, *equals = memchr(line, '=', word), *at = memchr(line, '@', word);
        const char *value = equals ? equals + 1 + blanks(equals + 1, stop) : stop;
        size_t key = equals ? strcspn(line, " \t\r=") : 0, length_of_value = (size_t)(stop - value);
        bool good = true;
        if (!name && !equals) {
            name = at ? at + 1 : line;
            const char *colon = memchr(name, ':', (size_t)(stop - name));
            name_length = (size_t)((colon ? colon : stop) - name);
            if (colon) good = parse_slots(colon + 1, (size_t)(stop - colon) - 1, &slots);
        } else if (key == 5 && memcmp(line, "slots", 5) == 0) {
            good = name && parse_slots(value, length_of_value, &slots);
        } else if (key == 9 && (memcmp(line, "max_slots", 9) == 0 || memcmp(line, "max-slots", 9) == 0)) {
            good = name && parse_slots(value, length_of_value, &ignored);
        } else {
            good = false;
        }
        if (!good)
            return ls_explain(why, LS_ERR_VALUE, "\"%.*s\" is neither host, host:n nor slots=n", (int)word, line);
        line += word;
    }
    return name ? add(to, name, name_length, slots, why) : LS_OK;
}

ls_status ls_host_list_parse(const char *text, ls_host_list *to, ls_message *why)
{
    ls_status status = LS_OK;
    int number = 0;
    while (*text && !status) {
        size_t length = strcspn(text, "\n"), used = strcspn(text, "#\n");
        number++;
        status = parse_line(text, used, to, why);
        text += length + (text[length] == '\n');
    }
    if (status) {
        ls_message what = *why;
        ls_message_set(why, "line %d: %.200s", number, what.text);
    } else if (!to->count) {
        status = ls_explain(why, LS_ERR_VALUE, "the file lists no host");
    }
    if (status) ls_host_list_free(to);
    return status;
}
