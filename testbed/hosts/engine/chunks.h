/* The chunks pushed on a flow: pieces of memory, consecutive in the flow's fragment numbers. */
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
    struct chunk *ring; /* its size is a power of two; chunk i is at i & mask */
    uint32_t mask;
    uint64_t head, tail, finished;
    uint64_t last;   /* the chunk found last */
    uint64_t pushed; /* fragments */
    bool progress;   /* some chunk was finished */
};

int chunks_open(struct chunks *chunks, uint64_t begins);
void chunks_close(struct chunks *chunks);
/* Returns the new chunk, valid until the next call; NULL if out of memory. */
struct chunk *chunks_push(struct chunks *chunks, enum operation operation, int32_t *values,
                          uint64_t fragments);
const struct chunk *chunk_of(struct chunks *chunks, uint64_t fragment); /* NULL: none, or forgotten */
/* All fragments below `done` are done; chunks that end `kept` fragments before it are forgotten. */
void chunks_advance(struct chunks *chunks, uint64_t done, uint64_t kept);

static inline int32_t *memory_of(const struct chunk *chunk, uint64_t fragment)
{
    return chunk->values + (fragment - chunk->first) * VALUES;
}

#endif
