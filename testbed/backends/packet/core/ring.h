/* A queue of items of one type, in an array of an arena that grows. If all its bytes are zero, it
   is empty. Indices count all items ever added, and wrap; an item keeps its index while it is in
   the queue. */
#ifndef RING_H
#define RING_H

#include <stdbool.h>
#include <string.h>

#include "arena.h"

struct ring {
    void *items;
    uint32_t mask; /* their room less 1: a power of two */
    uint32_t head, tail;
};

static inline bool ring_is_empty(const struct ring *ring)
{
    return ring->head == ring->tail;
}

/* The item with this index; `each` is the size of an item. */
static inline void *ring_at(const struct ring *ring, uint32_t index, size_t each)
{
    return (char *)ring->items + (index & ring->mask) * each;
}

/* Adds room for an item behind the last one. */
static inline void *ring_add(struct ring *ring, size_t each, struct arena *arena)
{
    enum { FIRST = 4 }; /* a ring uses all its room in turn: more would only fill the cache */
    if (!ring->items || ring->tail - ring->head > ring->mask) {
        struct ring larger = *ring;
        larger.mask = ring->items ? 2 * ring->mask + 1 : FIRST - 1;
        larger.items = arena_take(arena, ((size_t)larger.mask + 1) * each);
        for (uint32_t i = ring->head; i != ring->tail; i++)
            memcpy(ring_at(&larger, i, each), ring_at(ring, i, each), each);
        *ring = larger;
    }
    return ring_at(ring, ring->tail++, each);
}

#endif
