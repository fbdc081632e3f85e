#include "chunks.h"

#include <errno.h>
#include <stdlib.h>

static struct chunk *chunk_at(const struct chunks *chunks, uint64_t index)
{
    return &chunks->ring[index & chunks->mask];
}

int chunks_open(struct chunks *chunks, uint64_t begins)
{
    *chunks = (struct chunks){.mask = 15, .pushed = begins};
    chunks->ring = calloc(chunks->mask + 1, sizeof *chunks->ring);
    return chunks->ring ? 0 : -ENOMEM;
}

void chunks_close(struct chunks *chunks)
{
    free(chunks->ring);
}

static bool make_room(struct chunks *chunks)
{
    if (chunks->tail - chunks->head <= chunks->mask)
        return true;
    uint32_t mask = 2 * chunks->mask + 1;
    struct chunk *ring = calloc((size_t)mask + 1, sizeof *ring);
    if (!ring)
        return false;
    for (uint64_t i = chunks->head; i != chunks->tail; i++)
        ring[i & mask] = *chunk_at(chunks, i);
    free(chunks->ring);
    chunks->ring = ring;
    chunks->mask = mask;
    return true;
}

struct chunk *chunks_push(struct chunks *chunks, enum operation operation, int32_t *values,
                          uint64_t count)
{
    if (!make_room(chunks))
        return NULL;
    struct chunk *chunk = chunk_at(chunks, chunks->tail++);
    *chunk = (struct chunk){
        .first = chunks->pushed,
        .end = chunks->pushed + fragments_of(count),
        .operation = operation,
        .values = values,
        .count = count,
    };
    chunks->pushed = chunk->end;
    return chunk;
}

const struct chunk *chunk_of(struct chunks *chunks, uint64_t fragment)
{
    uint64_t low = chunks->head, high = chunks->tail;
    if (low == high || fragment < chunk_at(chunks, low)->first || fragment >= chunks->pushed)
        return NULL;
    /* Fragments arrive roughly in order, so the chunk found last is a good guess. */
    if (chunks->last >= low && chunks->last < high) {
        const struct chunk *last = chunk_at(chunks, chunks->last);
        if (fragment >= last->first && fragment < last->end)
            return last;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (chunk_at(chunks, middle)->first <= fragment)
            low = middle;
        else
            high = middle;
    }
    chunks->last = low;
    return chunk_at(chunks, low);
}

void chunks_advance(struct chunks *chunks, uint64_t done, uint64_t kept)
{
    while (chunks->finished != chunks->tail && chunk_at(chunks, chunks->finished)->end <= done) {
        chunks->finished++;
        chunks->progress = true;
    }
    while (chunks->head != chunks->finished && chunk_at(chunks, chunks->head)->end + kept <= done)
        chunks->head++;
}
