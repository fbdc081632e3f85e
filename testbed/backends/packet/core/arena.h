/* Memory that is taken piece by piece and returned all at once. It lies in huge pages: packets and
   connections are used in no order, so with small pages, most of them would miss the TLB. */
#ifndef ARENA_H
#define ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena {
    void **blocks;
    uint32_t blocks_count;
    uint8_t *free; /* in the last block */
    size_t left;
};

/* Memory full of zeros, from the start of a cache line on. */
void *arena_take(struct arena *arena, size_t size);

void arena_close(struct arena *arena);

#endif
