/* OmniReduce at a host (Fei et al., SIGCOMM 2021; the variant of the released code for networks
   that lose packets). A block is a fragment, and a packet has the number of its block. Each lane
   sums only those of its fragments that are not 0 at some rank. A contribution names its sender's
   next such fragment in the lane. The sum names the least of these, and all ranks continue there; a
   rank that has only zeros there sends them. All fragments in between are 0 everywhere, and are
   done.

   A lane's first fragment of a chunk is always sent. So after a lane's last fragment of a chunk
   comes its first of the next chunk, whatever that holds, and lanes never end. */
#include <errno.h>
#include <stdlib.h>

#include "lanes.h"

struct blocks {
    struct lanes all;
    uint64_t *next; /* by lane: this rank's next fragment that is not 0; an older one: look for it */
};

static bool is_zero(const struct chunk *chunk, uint64_t fragment)
{
    const int32_t *values = memory_of(chunk, fragment);
    const uint32_t count = filled(chunk, fragment);
    for (uint32_t i = 0; i < count; i++)
        if (values[i])
            return false;
    return true;
}

/* The lane's next fragment to be sent after `fragment`: one that is not 0 at this rank, or the
   lane's first of the next chunk. */
static uint64_t look_ahead(const struct lanes *all, const struct chunk *chunk, uint64_t fragment)
{
    do
        fragment += all->count;
    while (fragment < chunk->end && is_zero(chunk, fragment));
    return fragment;
}

static uint32_t name_next(struct lanes *all, uint32_t number)
{
    const uint64_t fragment = all->lanes[number].current;
    uint64_t *next = &((struct blocks *)all)->next[number];
    if (*next <= fragment)
        *next = look_ahead(all, chunk_of(&all->flow.chunks, fragment), fragment);
    return (uint32_t)*next;
}

static uint64_t take_block(struct lanes *all, uint32_t number, const struct packet *sum)
{
    struct lane *lane = &all->lanes[number];
    const uint64_t fragment = lane->current;
    const uint64_t next = fragment + (be32toh(sum->header.next_slot) - (uint32_t)fragment);
    const bool follows = next > fragment && next <= ((struct blocks *)all)->next[number];
    if (!follows || next % all->count != number)
        return fragment;
    store_packet(chunk_of(&all->flow.chunks, fragment), fragment, sum->values);
    lane->reached = next;
    return next;
}

static int blocks_open(struct flow *flow, const struct role *role)
{
    static const struct lane_rules rules = {.name = name_next, .take = take_block};
    struct blocks *blocks = (struct blocks *)flow;
    blocks->next = calloc(role->window, sizeof *blocks->next);
    return blocks->next ? lanes_open(flow, role, &rules) : -ENOMEM;
}

static void blocks_close(struct flow *flow)
{
    free(((struct blocks *)flow)->next);
    lanes_close(flow);
}

static const int32_t *block_values(struct flow *flow, const struct outgoing *packet, int32_t *stage)
{
    if (!lane_of((const struct lanes *)flow, packet))
        return NULL;
    int32_t whole[VALUES];
    swap_values(stage, packet_of(chunk_of(&flow->chunks, packet->fragment), packet->fragment, whole));
    return stage;
}

const struct protocol omnireduce = {
    ON_LANES,
    .size = sizeof(struct blocks),
    .open = blocks_open,
    .close = blocks_close,
    .values = block_values,
};
