/* The chunks pushed on a flow: pieces of memory, consecutive in the flow's fragment numbers. */
#ifndef CHUNKS_H
#define CHUNKS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "packet.h"

enum operation { ALL_REDUCE, REDUCE, MULTICAST };

struct chunk {
    uint64_t first, end; /* fragments first .. end - 1 */
    enum operation operation;
    int32_t *values;
    uint64_t count; /* of values: the last fragment may be partly filled */
    uint64_t message; /* number of its first one, where fragments form messages */
    uint8_t priority; /* of its packets in switches' memory */
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
                          uint64_t count);
const struct chunk *chunk_of(struct chunks *chunks, uint64_t fragment); /* NULL: none, or forgotten */
/* All fragments below `done` are done; chunks that end `kept` fragments before it are forgotten. */
void chunks_advance(struct chunks *chunks, uint64_t done, uint64_t kept);

static inline uint64_t fragments_of(uint64_t count)
{
    return (count + VALUES - 1) / VALUES;
}

static inline int32_t *memory_of(const struct chunk *chunk, uint64_t fragment)
{
    return chunk->values + (fragment - chunk->first) * VALUES;
}

/* How many values of a fragment belong to its chunk. */
static inline uint32_t filled(const struct chunk *chunk, uint64_t fragment)
{
    uint64_t left = chunk->count - (fragment - chunk->first) * VALUES;
    return left < VALUES ? (uint32_t)left : VALUES;
}

/* A fragment's values for a packet: in the chunk's memory, or in `stage` if zeros follow them. */
static inline const int32_t *packet_of(const struct chunk *chunk, uint64_t fragment, int32_t *stage)
{
    uint32_t count = filled(chunk, fragment);
    const int32_t *memory = memory_of(chunk, fragment);
    if (count == VALUES)
        return memory;
    memset(stage + count, 0, (VALUES - count) * sizeof *stage);
    return memcpy(stage, memory, count * sizeof *stage);
}

/* Takes a packet's values, in wire order. */
static inline void store_packet(const struct chunk *chunk, uint64_t fragment, const int32_t *values)
{
    uint32_t count = filled(chunk, fragment);
    int32_t *memory = memory_of(chunk, fragment), stage[VALUES];
    swap_values(count == VALUES ? memory : stage, values);
    if (count < VALUES)
        memcpy(memory, stage, count * sizeof *stage);
}

/* Adds a packet's values; returns whether any sum left the range of int32. */
static inline bool add_packet(const struct chunk *chunk, uint64_t fragment, const int32_t *values)
{
    uint32_t count = filled(chunk, fragment);
    int32_t *memory = memory_of(chunk, fragment), stage[VALUES];
    if (count == VALUES)
        return add_values(memory, values);
    packet_of(chunk, fragment, stage);
    bool too_wide = add_values(stage, values);
    memcpy(memory, stage, count * sizeof *stage);
    return too_wide;
}

#endif
