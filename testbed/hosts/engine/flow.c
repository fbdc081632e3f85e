#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int flow_open(struct flow *flow, const struct role *role)
{
    *flow = (struct flow){
        .tree = role->tree,
        .style = role->style,
        .is_root = role->is_root,
        .serves = role->serves,
        .window = role->window,
        .places_count = (1 + AHEAD) * role->window,
        .own = role->is_root ? 0 : UINT64_C(1) << role->rank,
        .slots_count = role->slots_count,
        .peers = role->peers,
        .chunk_mask = 15,
    };
    /* Only ATP's root answers workers by themselves. */
    uint32_t workers = role->workers && role->style == STYLE_ATP ? MAX_WORKERS : 0;
    flow->slots = calloc(role->slots_count + 1, sizeof *flow->slots);
    flow->queues = calloc(role->peers + workers, sizeof *flow->queues);
    flow->chunks = calloc(flow->chunk_mask + 1, sizeof *flow->chunks);
    flow->places = calloc(flow->places_count, sizeof *flow->places);
    flow->rows = calloc(flow->places_count, sizeof *flow->rows);
    if (!flow->slots || !flow->queues || !flow->chunks || !flow->places || !flow->rows)
        return -ENOMEM;
    if (role->slots_count)
        memcpy(flow->slots, role->slots, role->slots_count * sizeof *flow->slots);
    for (uint32_t i = 0; i < role->peers; i++) {
        flow->everyone |= role->ranks[i];
        if (queue_open(&flow->queues[flow->queues_count++], role->addresses[i], role->ranks[i],
                       4 * flow->window))
            return -ENOMEM;
    }
    for (uint32_t rank = 0; rank < MAX_WORKERS; rank++) {
        flow->queue_of[rank] = -1;
        if (!workers || !role->workers[rank])
            continue;
        flow->queue_of[rank] = (int)flow->queues_count;
        if (queue_open(&flow->queues[flow->queues_count++], role->workers[rank],
                       UINT64_C(1) << rank, 4 * flow->window))
            return -ENOMEM;
    }
    sender_open(flow);
    return 0;
}

void flow_close(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->queues_count; i++)
        queue_close(&flow->queues[i]);
    for (uint32_t i = 0; flow->places && i < flow->places_count; i++)
        free(flow->places[i].floats);
    free(flow->slots);
    free(flow->queues);
    free(flow->chunks);
    free(flow->places);
    free(flow->rows);
    free(flow->float_sums);
}

static struct chunk *chunk_at(const struct flow *flow, uint64_t index)
{
    return &flow->chunks[index & flow->chunk_mask];
}

static int make_room(struct flow *flow)
{
    if (flow->chunk_tail - flow->chunk_head <= flow->chunk_mask)
        return 0;
    uint32_t mask = 2 * flow->chunk_mask + 1;
    struct chunk *chunks = calloc((size_t)mask + 1, sizeof *chunks);
    if (!chunks)
        return -ENOMEM;
    for (uint64_t i = flow->chunk_head; i != flow->chunk_tail; i++)
        chunks[i & mask] = *chunk_at(flow, i);
    free(flow->chunks);
    flow->chunks = chunks;
    flow->chunk_mask = mask;
    return 0;
}

int flow_push(struct flow *flow, enum operation operation, int32_t *values, uint64_t fragments)
{
    if (flow->serves || (flow->is_root && operation == ALL_REDUCE))
        return -EINVAL;
    if (fragments > UINT32_MAX - flow->pushed)
        return -EOVERFLOW; /* sequence numbers have 32 bits */
    if (!fragments)
        return 0;
    if (make_room(flow))
        return -ENOMEM;
    struct chunk *chunk = chunk_at(flow, flow->chunk_tail++);
    *chunk = (struct chunk){flow->pushed, flow->pushed + fragments, operation, values};
    flow->pushed = chunk->end;
    if (flow->is_root)
        root_pushed(flow, chunk);
    else
        member_pushed(flow, chunk);
    flow_advance(flow);
    return 0;
}

const struct chunk *chunk_of(struct flow *flow, uint64_t sequence)
{
    uint64_t low = flow->chunk_head, high = flow->chunk_tail;
    if (low == high || sequence < chunk_at(flow, low)->first || sequence >= flow->pushed)
        return NULL;
    /* Neighbours in sequence come one after the other: the last one found is a good guess. */
    if (flow->chunk_last >= low && flow->chunk_last < high) {
        const struct chunk *last = chunk_at(flow, flow->chunk_last);
        if (sequence >= last->first && sequence < last->end)
            return last;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (chunk_at(flow, middle)->first <= sequence)
            low = middle;
        else
            high = middle;
    }
    flow->chunk_last = low;
    return chunk_at(flow, low);
}

void flow_finish(struct flow *flow, uint64_t sequence)
{
    place_of(flow, sequence)->done = true;
    if (sequence >= flow->done_end)
        flow->done_end = sequence + 1;
    flow->touched = true;
}

void flow_advance(struct flow *flow)
{
    uint32_t kept = kept_back(flow);
    uint64_t end = flow->serves ? UINT64_MAX : flow->pushed;
    while (flow->lowest < end && place_of(flow, flow->lowest)->done) {
        /* The place that falls out of reach becomes that of the fragment that comes into it. */
        if (flow->lowest >= kept) {
            struct place *old = place_of(flow, flow->lowest - kept);
            free(old->floats);
            *old = (struct place){0};
        }
        flow->lowest++;
    }
    while (flow->chunk_finished != flow->chunk_tail &&
           chunk_at(flow, flow->chunk_finished)->end <= flow->lowest) {
        flow->chunk_finished++;
        flow->progress = true;
    }
    /* Of what is finished, duplicates may still come. */
    while (flow->chunk_head != flow->chunk_finished &&
           chunk_at(flow, flow->chunk_head)->end + flow->places_count <= flow->lowest)
        flow->chunk_head++;
}

void flow_take(struct flow *flow, const struct packet *packet, double now)
{
    if (flow->is_root)
        root_take(flow, packet, now);
    else
        member_take(flow, packet, now);
}

/* What goes out with a header that was queued: for a member its own values, for a root the row. */
const int32_t *flow_values(void *context, const struct header *header, int32_t *stage)
{
    struct flow *flow = context;
    uint64_t sequence = be32toh(header->sequence);
    if (flow->is_root)
        return in_reach(flow, sequence) ? row_of(flow, sequence) : NULL;
    const struct chunk *chunk = chunk_of(flow, sequence);
    if (!chunk || sequence < flow->lowest || place_of(flow, sequence)->done)
        return NULL; /* its result came while it waited: the values are gone, and not needed */
    const int32_t *values = memory_of(chunk, sequence);
    if (header->flags & FLAG_FLOATS)
        floats_to_wire(stage, values);
    else
        swap_values(stage, values);
    return stage;
}
