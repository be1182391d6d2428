/* trie.c - build a double array: the children of each node get free places in one block of 256. */
#include "data/text/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { BLOCK = 256, OPEN_BLOCKS = 16 };

/* Texts [begin, end) share the bytes before `depth`, which lead to `node`. */
typedef struct branch {
    uint32_t node;
    int64_t begin, end;
    size_t depth;
} branch;

/* Free places form a ring through the latest blocks. Older blocks are closed: their remaining free places rarely fit
 * and would be searched again and again. */
typedef struct builder {
    ls_trie *trie;
    uint32_t *after, *before; /* of free places; place 0 is the ring's anchor */
    uint32_t room, closed;    /* places; those below `closed` are not in the ring */
    branch *branches;         /* not processed yet */
    int64_t branch_count, branch_room;
} builder;

static void ring_remove(builder *b, uint32_t place)
{
    b->after[b->before[place]] = b->after[place];
    b->before[b->after[place]] = b->before[place];
}

static void ring_append(builder *b, uint32_t place)
{
    uint32_t last = b->before[0];
    b->after[last] = place;
    b->before[place] = last;
    b->after[place] = 0;
    b->before[0] = place;
}

static bool grow(void **block, size_t bytes)
{
    void *larger = ls_sys_realloc(*block, bytes);
    if (larger) *block = larger;
    return larger != NULL;
}

static bool add_block(builder *b)
{
    ls_trie *trie = b->trie;
    if (trie->count > UINT32_MAX - 2 * BLOCK) return false;
    if (trie->count + BLOCK > b->room) {
        uint32_t room = b->room > UINT32_MAX / 2 ? UINT32_MAX : b->room * 2 + 16 * BLOCK;
        if (!grow((void **)&trie->nodes, room * sizeof *trie->nodes) ||
            !grow((void **)&b->after, room * sizeof *b->after) || !grow((void **)&b->before, room * sizeof *b->before))
            return false;
        b->room = room;
    }
    for (uint32_t i = trie->count; i < trie->count + BLOCK; i++) {
        trie->nodes[i] = (ls_trie_node){.parent = LS_TRIE_NONE, .value = -1};
        if (i >= BLOCK) ring_append(b, i);
        else b->after[i] = b->before[i] = 0;
    }
    trie->count += BLOCK;
    while (trie->count - b->closed > OPEN_BLOCKS * BLOCK) {
        for (uint32_t i = b->closed; i < b->closed + BLOCK; i++)
            if (i >= BLOCK && trie->nodes[i].parent == LS_TRIE_NONE) ring_remove(b, i);
        b->closed += BLOCK;
    }
    return true;
}

static bool fits(const builder *b, uint32_t base, const unsigned char *bytes, int count)
{
    for (int i = 0; i < count; i++)
        if (b->trie->nodes[base ^ bytes[i]].parent != LS_TRIE_NONE) return false;
    return true;
}

/* A base for which the children by all these bytes have free places; 0 if out of memory. */
static uint32_t find_base(builder *b, const unsigned char *bytes, int count)
{
    for (uint32_t place = b->after[0]; place; place = b->after[place])
        if (fits(b, place ^ bytes[0], bytes, count)) return place ^ bytes[0];
    return add_block(b) ? b->trie->count - BLOCK : 0;
}

static bool push(builder *b, branch next)
{
    if (b->branch_count == b->branch_room) {
        int64_t room = b->branch_room * 2 + 64;
        if (!grow((void **)&b->branches, (size_t)room * sizeof *b->branches)) return false;
        b->branch_room = room;
    }
    b->branches[b->branch_count++] = next;
    return true;
}

static void take_place(builder *b, uint32_t place, uint32_t parent)
{
    b->trie->nodes[place].parent = parent;
    ring_remove(b, place);
}

/* Assign places to the children of a branch, and queue them. */
static bool spread(builder *b, const ls_trie_text *texts, branch at)
{
    while (at.begin < at.end && texts[at.begin].length == at.depth)
        b->trie->nodes[at.node].value = texts[at.begin++].value;
    unsigned char bytes[BLOCK];
    int64_t begins[BLOCK + 1];
    int count = 0;
    for (int64_t i = at.begin; i < at.end; i++) {
        unsigned char byte = (unsigned char)texts[i].text[at.depth];
        if (count && bytes[count - 1] == byte) continue;
        bytes[count] = byte;
        begins[count++] = i;
    }
    begins[count] = at.end;
    if (!count) return true;
    uint32_t base = find_base(b, bytes, count);
    if (!base) return false;
    b->trie->nodes[at.node].base = base;
    for (int i = 0; i < count; i++) {
        take_place(b, base ^ bytes[i], at.node);
        if (!push(b, (branch){base ^ bytes[i], begins[i], begins[i + 1], at.depth + 1})) return false;
    }
    return true;
}

static int by_text(const void *left, const void *right)
{
    const ls_trie_text *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->length < b->length ? a->length : b->length);
    if (order) return order;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

bool ls_trie_build(ls_trie *trie, ls_trie_text *texts, int64_t count)
{
    *trie = (ls_trie){0};
    builder b = {.trie = trie};
    if (count) qsort(texts, (size_t)count, sizeof *texts, by_text);
    bool ok = add_block(&b) && add_block(&b);
    if (ok) take_place(&b, LS_TRIE_ROOT, 0);
    ok = ok && push(&b, (branch){LS_TRIE_ROOT, 0, count, 0});
    while (ok && b.branch_count) ok = spread(&b, texts, b.branches[--b.branch_count]);
    ls_sys_free(b.after);
    ls_sys_free(b.before);
    ls_sys_free(b.branches);
    if (!ok) ls_trie_free(trie);
    return ok;
}

void ls_trie_free(ls_trie *trie)
{
    ls_sys_free(trie->nodes);
    *trie = (ls_trie){0};
}

uint32_t ls_trie_walk(const ls_trie *trie, const char *text, size_t length)
{
    uint32_t node = LS_TRIE_ROOT;
    for (size_t i = 0; i < length && node != LS_TRIE_NONE; i++) node = ls_trie_step(trie, node, text[i]);
    return node;
}

int32_t ls_trie_find(const ls_trie *trie, const char *text, size_t length)
{
    uint32_t node = ls_trie_walk(trie, text, length);
    return node == LS_TRIE_NONE ? -1 : trie->nodes[node].value;
}
