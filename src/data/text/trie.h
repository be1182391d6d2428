/* trie.h - a set of texts, searched byte by byte: a double array, in which the child of a node by a byte is one
 * exclusive-or and one comparison. */
#ifndef LOCKSTEP_DATA_TEXT_TRIE_H
#define LOCKSTEP_DATA_TEXT_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_trie_node {
    uint32_t base;   /* child by byte b: node base ^ b, if its parent is this node */
    uint32_t parent; /* LS_TRIE_NONE: not a node */
    int32_t value;   /* of the text that ends here; -1: none does */
} ls_trie_node;

typedef struct ls_trie {
    ls_trie_node *nodes; /* the first 256 are unused, so that a base of 0 leads nowhere */
    uint32_t count;
} ls_trie;

enum { LS_TRIE_ROOT = 256 };
#define LS_TRIE_NONE UINT32_MAX

typedef struct ls_trie_text {
    const char *text;
    size_t length;
    int32_t value; /* not negative */
} ls_trie_text;

/* Add `count` texts, which are sorted in place. Of equal texts the largest value is used. False if out of memory. */
bool ls_trie_build(ls_trie *trie, ls_trie_text *texts, int64_t count);
void ls_trie_free(ls_trie *trie);

/* The node that a byte leads to; LS_TRIE_NONE: none. */
static inline uint32_t ls_trie_step(const ls_trie *trie, uint32_t node, char byte)
{
    uint32_t child = trie->nodes[node].base ^ (unsigned char)byte;
    return trie->nodes[child].parent == node ? child : LS_TRIE_NONE;
}

/* The node that a text leads to from the root; LS_TRIE_NONE: none. */
uint32_t ls_trie_walk(const ls_trie *trie, const char *text, size_t length);
/* The value of a text; -1: not found. */
int32_t ls_trie_find(const ls_trie *trie, const char *text, size_t length);

#endif
