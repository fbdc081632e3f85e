/* The times in which something is busy; short pauses are part of a spell. */
#ifndef SPELLS_H
#define SPELLS_H

#include "clock.h"

struct spell {
    instant from, until, busy;
    uint64_t packets, bytes, dropped;
};

struct spells {
    struct spell *all;
    uint32_t count, room;
    instant pause; /* a longer one ends a spell */
};

void spells_close(struct spells *spells);

/* Adds a busy time, from `from` until `until`. Returns the spell of which it is part. */
struct spell *spells_add(struct spells *spells, instant from, instant until);

#endif
