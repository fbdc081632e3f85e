/* What was pushed on a flow: pieces of memory, one behind the other in the flow's fragments. */
#ifndef CHUNKS_H
#define CHUNKS_H

#include <stdbool.h>
#include <stdint.h>

#include "packet.h"

enum operation { ALL_REDUCE, REDUCE, MULTICAST };

struct chunk {
    uint64_t first, end; /* fragments first .. end - 1 */
    enum operation operation;
    int32_t *values;
    uint64_t message; /* number of its first one, where fragments form messages */
};

struct chunks {
    struct chunk *ring; /* of a power of two; chunk i is in place i & mask */
    uint32_t mask;
    uint64_t head, tail, finished;
    uint64_t last;   /* found last */
    uint64_t pushed; /* fragments */
    bool progress;   /* some chunk was finished */
};

int chunks_open(struct chunks *chunks);
void chunks_close(struct chunks *chunks);
/* The new chunk, until the next call; NULL without memory. */
struct chunk *chunks_push(struct chunks *chunks, enum operation operation, int32_t *values,
                          uint64_t fragments);
const struct chunk *chunk_of(struct chunks *chunks, uint64_t fragment); /* NULL: none, or forgotten */
/* All below `done` is; chunks that end `kept` fragments before that are forgotten. */
void chunks_advance(struct chunks *chunks, uint64_t done, uint64_t kept);

static inline int32_t *memory_of(const struct chunk *chunk, uint64_t fragment)
{
    return chunk->values + (fragment - chunk->first) * VALUES;
}

#endif
