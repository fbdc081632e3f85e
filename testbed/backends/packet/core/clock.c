#include "clock.h"

#include <stdlib.h>

enum { CHILDREN = 4 };

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void put(struct clock *clock, uint32_t place, struct entry entry)
{
    clock->heap[place] = entry;
    entry.event->place = place + 1;
}

static void rise(struct clock *clock, uint32_t place, struct entry entry)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / CHILDREN;
        if (!is_before(&entry, &clock->heap[parent]))
            break;
        put(clock, place, clock->heap[parent]);
        place = parent;
    }
    put(clock, place, entry);
}

/* The earliest of the entries from `first` on that have the same parent. */
static uint32_t earliest(const struct clock *clock, uint32_t first)
{
    uint32_t found = first;
    uint32_t last = first + CHILDREN < clock->count ? first + CHILDREN : clock->count;
    for (uint32_t child = first + 1; child < last; child++)
        if (is_before(&clock->heap[child], &clock->heap[found]))
            found = child;
    return found;
}

static void sink(struct clock *clock, uint32_t place, struct entry entry)
{
    for (uint32_t first; (first = CHILDREN * place + 1) < clock->count;) {
        uint32_t child = earliest(clock, first);
        if (!is_before(&clock->heap[child], &entry))
            break;
        put(clock, place, clock->heap[child]);
        place = child;
    }
    put(clock, place, entry);
}

static void move(struct clock *clock, uint32_t place, struct entry entry)
{
    if (place > 0 && is_before(&entry, &clock->heap[(place - 1) / CHILDREN]))
        rise(clock, place, entry);
    else
        sink(clock, place, entry);
}

void clock_set(struct clock *clock, struct event *event, instant at, uint64_t order)
{
    struct entry entry = {at, order, event};
    if (event->place) {
        move(clock, event->place - 1, entry);
        return;
    }
    if (clock->is_root_free) {
        clock->is_root_free = false;
        sink(clock, 0, entry);
        return;
    }
    if (clock->count == clock->room) {
        uint32_t room = clock->room ? 2 * clock->room : 256;
        struct entry *heap = realloc(clock->heap, room * sizeof *heap);
        if (!heap)
            abort();
        clock->heap = heap;
        clock->room = room;
    }
    rise(clock, clock->count++, entry);
}

void clock_cancel(struct clock *clock, struct event *event)
{
    if (!event->place)
        return;
    uint32_t place = event->place - 1;
    event->place = 0;
    struct entry last = clock->heap[--clock->count];
    if (place < clock->count)
        move(clock, place, last);
}

/* Running an event often sets another one, which then takes its place without a search. Until then
   the first one stays at the root, because no event can be earlier. */
void clock_step(struct clock *clock)
{
    struct entry first = clock->heap[0];
    first.event->place = 0;
    clock->is_root_free = true;
    clock->now = first.at;
    first.event->happen(first.event, first.at);
    if (!clock->is_root_free)
        return;
    clock->is_root_free = false;
    struct entry last = clock->heap[--clock->count];
    if (clock->count)
        sink(clock, 0, last);
}

void clock_close(struct clock *clock)
{
    free(clock->heap);
}
