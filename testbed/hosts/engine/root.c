/* The root of a tree, a host: completes what switches summed below it. It counts each member's
   contribution once, whatever the network did to it. A server answers a complete fragment with its
   sum: acknowledgement, result and slot release in one (ATP, section 4); a rank adds the sum to
   its own values. What it sends to all itself is in sender.c; here come the receipts. */
#include <stdlib.h>

#include "flow.h"

static void answer(struct flow *flow, const struct header *header, uint64_t to)
{
    for (uint32_t i = 0; i < flow->peers; i++)
        if (flow->queues[i].ranks & to)
            queue_put(&flow->queues[i], header);
}

/* One member that asked again is answered alone where the style wants it, not its whole subtree. */
static void answer_again(struct flow *flow, const struct header *header, uint64_t ranks)
{
    flow->counters.answered_again++;
    if (flow->style != STYLE_ATP) {
        answer(flow, header, ranks);
        return;
    }
    for (uint64_t left = ranks; left; left &= left - 1) {
        int queue = flow->queue_of[__builtin_ctzll(left)];
        if (queue >= 0)
            queue_put(&flow->queues[queue], header);
    }
}

static struct header reply(const struct flow *flow, uint8_t kind, uint64_t sequence,
                           const struct place *place)
{
    return (struct header){
        .kind = kind,
        .flags = place->flags,
        .tree = htobe16(flow->tree),
        .sequence = htobe32((uint32_t)sequence),
        .slot = htobe32(place->slot),
        .next_slot = htobe32(place->next_slot),
        .bitmap = htobe64(flow->everyone),
    };
}

/* Dynamic re-hash: the fragment that follows in this place uses another slot. */
static uint32_t rehash(struct flow *flow, uint32_t slot)
{
    if (flow->next_spare == flow->slots_count)
        flow->next_spare = 0;
    uint32_t fresh = flow->slots[flow->next_spare];
    flow->slots[flow->next_spare++] = slot;
    return fresh;
}

static void return_sum(struct flow *flow, uint64_t sequence)
{
    struct place *place = place_of(flow, sequence);
    place->next_slot = place->slot;
    if (place->flags & FLAG_COLLISION && flow->style == STYLE_ATP && flow->slots_count)
        place->next_slot = rehash(flow, place->slot);
    struct header header = reply(flow, KIND_RESULT, sequence, place);
    answer(flow, &header, flow->everyone);
    flow_finish(flow, sequence);
}

static void ask_for_floats(struct flow *flow, uint64_t sequence)
{
    struct place *place = place_of(flow, sequence);
    place->floats = calloc(VALUES, sizeof *place->floats);
    if (!place->floats)
        abort();
    place->counted = 0;
    place->next_slot = place->slot;
    struct header header = reply(flow, KIND_ACK, sequence, place);
    answer(flow, &header, flow->everyone);
}

static void keep_sum(struct flow *flow, const struct chunk *chunk, uint64_t sequence)
{
    struct place *place = place_of(flow, sequence);
    if (add_values(memory_of(chunk, sequence), row_of(flow, sequence)))
        place->flags |= FLAG_OVERFLOW;
    if (place->flags & FLAG_OVERFLOW)
        flow->counters.overflows++;
    place->next_slot = place->slot;
    struct header header = reply(flow, KIND_ACK, sequence, place);
    answer(flow, &header, flow->everyone);
    flow_finish(flow, sequence);
}

static void complete(struct flow *flow, uint64_t sequence)
{
    struct place *place = place_of(flow, sequence);
    if (!flow->serves) {
        const struct chunk *chunk = chunk_of(flow, sequence);
        place->kept = !chunk;
        if (chunk)
            keep_sum(flow, chunk, sequence);
        return;
    }
    bool too_wide = place->flags & FLAG_OVERFLOW;
    flow->counters.overflows += too_wide;
    if (too_wide && flow->style == STYLE_ATP) {
        ask_for_floats(flow, sequence);
    } else {
        swap_in_place(row_of(flow, sequence));
        return_sum(flow, sequence);
    }
}

static void take_floats(struct flow *flow, const struct packet *packet, uint64_t sequence,
                        uint64_t ranks)
{
    struct place *place = place_of(flow, sequence);
    if (place->counted & ranks || ranks & (ranks - 1))
        return; /* counted already; or a sum, but nobody adds floats */
    add_floats(place->floats, packet->values);
    place->counted |= ranks;
    if (place->counted != flow->everyone)
        return;
    float_sums_to_wire(row_of(flow, sequence), place->floats);
    place->flags = (uint8_t)((place->flags & ~FLAG_OVERFLOW) | FLAG_FLOATS);
    return_sum(flow, sequence);
}

/* A contribution to a fragment that needs none: its answer went missing, or is still wanting. */
static void take_late(struct flow *flow, const struct header *from, uint64_t sequence, uint64_t ranks)
{
    if (flow->style == STYLE_ATP && !(from->flags & FLAG_RESEND))
        return; /* a copy that the network made */
    if (flow->serves) {
        const struct place *place = place_of(flow, sequence);
        struct header header = reply(flow, place->done ? KIND_RESULT : KIND_ACK, sequence, place);
        answer_again(flow, &header, ranks);
        return;
    }
    const struct chunk *chunk = chunk_of(flow, sequence);
    if (!chunk || chunk->operation != REDUCE)
        return;
    struct header header = *from;
    header.kind = KIND_ACK;
    header.flags = 0;
    header.next_slot = header.slot;
    header.bitmap = htobe64(flow->everyone);
    answer_again(flow, &header, ranks);
}

static void take_data(struct flow *flow, const struct packet *packet, uint64_t sequence,
                      uint64_t ranks)
{
    bool finished = !flow->serves && sequence < flow->lowest;
    if (finished || (in_reach(flow, sequence) && place_of(flow, sequence)->done)) {
        take_late(flow, &packet->header, sequence, ranks);
        return;
    }
    if (!in_reach(flow, sequence))
        return;
    const struct chunk *chunk = chunk_of(flow, sequence);
    if (chunk && chunk->operation != REDUCE)
        return;
    struct place *place = place_of(flow, sequence);
    uint8_t flags = packet->header.flags;
    if (place->floats && flags & FLAG_FLOATS)
        take_floats(flow, packet, sequence, ranks);
    else if (place->floats)
        take_late(flow, &packet->header, sequence, ranks);
    if (place->floats || flags & FLAG_FLOATS || place->counted & ranks)
        return;
    if (flags & FLAG_COLLISION)
        flow->counters.collisions++;
    place->flags |= flags & (FLAG_COLLISION | FLAG_OVERFLOW | FLAG_ECN);
    place->slot = be32toh(packet->header.slot);
    int32_t *row = row_of(flow, sequence);
    if (!place->counted)
        swap_values(row, packet->values);
    else if (add_from_wire(row, packet->values))
        place->flags |= FLAG_OVERFLOW;
    place->counted |= ranks;
    if (place->counted == flow->everyone)
        complete(flow, sequence);
}

static void take_receipt(struct flow *flow, uint64_t sequence, uint64_t ranks, double now)
{
    if (sequence < flow->lowest || !in_reach(flow, sequence))
        return;
    struct place *place = place_of(flow, sequence);
    if (!place->sent || place->done)
        return;
    place->counted |= ranks;
    if (place->counted != flow->everyone)
        return;
    sender_done(flow, sequence, now);
    flow_finish(flow, sequence);
}

void root_take(struct flow *flow, const struct packet *packet, double now)
{
    uint64_t sequence = be32toh(packet->header.sequence);
    uint64_t ranks = be64toh(packet->header.bitmap);
    if (!ranks || ranks & ~flow->everyone)
        return;
    if (packet->header.kind == KIND_DATA)
        take_data(flow, packet, sequence, ranks);
    else if (packet->header.kind == KIND_RECEIPT)
        take_receipt(flow, sequence, ranks, now);
}

void root_pushed(struct flow *flow, const struct chunk *chunk)
{
    for (uint64_t s = chunk->first; s < chunk->end && in_reach(flow, s); s++) {
        struct place *place = place_of(flow, s);
        if (chunk->operation == MULTICAST)
            *place = (struct place){0}; /* whatever came: nobody had a reason to send it */
        else if (place->kept)
            complete(flow, s);
    }
}
