/* Sparse Flare at a host (De Sensi et al., SC 2021; our reading is in protocol.py). A packet has
   ENTRIES pairs of an index and a value. In a lane, the indices of an entry number the values that
   belong to it: two in each of the lane's fragments of a chunk. In each entry a packet has the
   least index that this rank has not summed yet, and the sum has the least of all ranks. All values
   below it are 0 at every rank. A sum without indices ends the lane's part of the chunk. */
#include <errno.h>
#include <stdlib.h>

#include "lanes.h"

enum { ENTRIES = VALUES / 2 };
static const uint32_t NOTHING = 0x7fffffff; /* an index that is beyond all */

struct pairs {
    struct lanes all;
    uint32_t *least; /* by lane and entry: the index to be sent */
    bool *begun;     /* by lane: `least` is known for the chunk it has reached */
};

static uint32_t *entries_of(struct lanes *all, uint32_t number)
{
    return &((struct pairs *)all)->least[(size_t)number * ENTRIES];
}

/* The value of an entry's index in the chunk that the lane has reached; NULL beyond its end. */
static int32_t *value_at(const struct lanes *all, const struct chunk *chunk,
                         const struct lane *lane, uint32_t entry, uint32_t index)
{
    const uint64_t fragment = lane->reached + (uint64_t)(index / 2) * all->count;
    if (fragment >= chunk->end)
        return NULL;
    const uint64_t at = (fragment - chunk->first) * VALUES + index % 2 * ENTRIES + entry;
    return at < chunk->count ? &chunk->values[at] : NULL;
}

/* The first index from `index` on whose value is not 0. */
static uint32_t look_from(const struct lanes *all, const struct chunk *chunk,
                          const struct lane *lane, uint32_t entry, uint32_t index)
{
    for (const int32_t *value; (value = value_at(all, chunk, lane, entry, index)); index++)
        if (*value)
            return index;
    return NOTHING;
}

static uint32_t begin(struct lanes *all, uint32_t number)
{
    struct lane *lane = &all->lanes[number];
    bool *begun = &((struct pairs *)all)->begun[number];
    const struct chunk *chunk = chunk_of(&all->flow.chunks, lane->reached);
    for (uint32_t entry = 0; entry < ENTRIES && !*begun; entry++)
        entries_of(all, number)[entry] = look_from(all, chunk, lane, entry, 0);
    *begun = true;
    return all->origin;
}

static uint64_t take_pairs(struct lanes *all, uint32_t number, const struct packet *sum)
{
    struct lane *lane = &all->lanes[number];
    uint32_t *least = entries_of(all, number);
    const struct chunk *chunk = chunk_of(&all->flow.chunks, lane->reached);
    bool ends = true;
    for (uint32_t entry = 0; entry < ENTRIES; entry++) {
        const uint32_t index = be32toh((uint32_t)sum->values[2 * entry]);
        const bool none = index == NOTHING;
        if (index > least[entry] || (!none && !value_at(all, chunk, lane, entry, index)))
            return lane->current;
        ends &= none;
    }
    for (uint32_t entry = 0; entry < ENTRIES && !ends; entry++) {
        const uint32_t index = be32toh((uint32_t)sum->values[2 * entry]);
        if (index == NOTHING)
            continue;
        *value_at(all, chunk, lane, entry, index) =
            (int32_t)be32toh((uint32_t)sum->values[2 * entry + 1]);
        if (index == least[entry])
            least[entry] = look_from(all, chunk, lane, entry, index + 1);
    }
    if (ends) {
        const uint64_t rounds = (chunk->end - lane->reached + all->count - 1) / all->count;
        lane->reached += rounds * all->count;
        ((struct pairs *)all)->begun[number] = false;
    }
    return lane->current + all->count;
}

static int pairs_open(struct flow *flow, const struct role *role)
{
    static const struct lane_rules rules = {.name = begin, .take = take_pairs};
    struct pairs *pairs = (struct pairs *)flow;
    pairs->least = calloc((size_t)role->window * ENTRIES, sizeof *pairs->least);
    pairs->begun = calloc(role->window, sizeof *pairs->begun);
    return pairs->least && pairs->begun ? lanes_open(flow, role, &rules) : -ENOMEM;
}

static void pairs_close(struct flow *flow)
{
    struct pairs *pairs = (struct pairs *)flow;
    free(pairs->least);
    free(pairs->begun);
    lanes_close(flow);
}

static const int32_t *pair_values(struct flow *flow, const struct outgoing *packet, int32_t *stage)
{
    struct lanes *all = (struct lanes *)flow;
    const struct lane *lane = lane_of(all, packet);
    if (!lane)
        return NULL;
    const uint32_t *least = entries_of(all, (uint32_t)(packet->fragment % all->count));
    const struct chunk *chunk = chunk_of(&flow->chunks, lane->reached);
    for (uint32_t entry = 0; entry < ENTRIES; entry++) {
        const int32_t *value =
            least[entry] == NOTHING ? NULL : value_at(all, chunk, lane, entry, least[entry]);
        stage[2 * entry] = (int32_t)htobe32(least[entry]);
        stage[2 * entry + 1] = value ? (int32_t)htobe32((uint32_t)*value) : 0;
    }
    return stage;
}

const struct protocol flare = {
    ON_LANES,
    .size = sizeof(struct pairs),
    .open = pairs_open,
    .close = pairs_close,
    .values = pair_values,
};
