/* A member: contributes fragments, and takes what comes down from the root. */
#include <stdlib.h>
#include <string.h>

#include "flow.h"

static void send_receipt(struct flow *flow, uint64_t sequence)
{
    uint32_t slot = slot_of(flow, sequence);
    struct header header = {
        .kind = KIND_RECEIPT,
        .tree = htobe16(flow->tree),
        .sequence = htobe32((uint32_t)sequence),
        .slot = htobe32(slot),
        .next_slot = htobe32(slot),
        .bitmap = htobe64(flow->own),
    };
    queue_put(&flow->queues[0], &header);
}

static void remember_float_sum(struct flow *flow, uint64_t sequence)
{
    if (flow->float_count == flow->float_room) {
        size_t room = flow->float_room ? 2 * flow->float_room : 64;
        uint64_t *larger = realloc(flow->float_sums, room * sizeof *larger);
        if (!larger)
            abort(); /* a sum of unknown type is worse */
        flow->float_sums = larger;
        flow->float_room = room;
    }
    flow->float_sums[flow->float_count++] = sequence;
}

/* The root's answer to what this member sent. */
static void note_answer(struct flow *flow, const struct header *header, uint64_t sequence, double now)
{
    if (header->flags & FLAG_COLLISION)
        flow->counters.collisions++;
    if (header->flags & (FLAG_OVERFLOW | FLAG_FLOATS))
        flow->counters.overflows++;
    if (header->flags & FLAG_ECN) {
        flow->counters.ecn++;
        sender_slow_down(flow, now);
    }
    if (flow->style == STYLE_ATP)
        flow->slots[sequence % flow->window] = be32toh(header->next_slot);
    sender_done(flow, sequence, now);
}

static void take_sum(struct flow *flow, const struct packet *packet, const struct chunk *chunk,
                     uint64_t sequence, double now)
{
    struct place *place = place_of(flow, sequence);
    if (!place->sent)
        return;
    swap_values(memory_of(chunk, sequence), packet->values);
    if (packet->header.flags & FLAG_FLOATS)
        remember_float_sum(flow, sequence);
    note_answer(flow, &packet->header, sequence, now);
    flow_finish(flow, sequence);
}

static void take_copy(struct flow *flow, const int32_t *values, const struct chunk *chunk,
                      uint64_t sequence)
{
    swap_values(memory_of(chunk, sequence), values);
    flow_finish(flow, sequence);
    send_receipt(flow, sequence);
}

static void take_result(struct flow *flow, const struct packet *packet, uint64_t sequence, double now)
{
    const struct chunk *chunk = chunk_of(flow, sequence);
    bool here = in_reach(flow, sequence);
    bool done = sequence < flow->lowest || (here && place_of(flow, sequence)->done);
    if (done) {
        if (chunk && chunk->operation == MULTICAST)
            send_receipt(flow, sequence); /* the first one went missing */
    } else if (here && !chunk) {
        /* Early: kept until it is known where it goes. */
        memcpy(row_of(flow, sequence), packet->values, sizeof packet->values);
        place_of(flow, sequence)->kept = true;
    } else if (here && chunk->operation == MULTICAST) {
        take_copy(flow, packet->values, chunk, sequence);
    } else if (here && chunk->operation == ALL_REDUCE) {
        take_sum(flow, packet, chunk, sequence, now);
    }
}

static void take_ack(struct flow *flow, const struct header *header, uint64_t sequence, double now)
{
    const struct chunk *chunk = chunk_of(flow, sequence);
    if (!chunk || sequence < flow->lowest || !in_reach(flow, sequence))
        return;
    struct place *place = place_of(flow, sequence);
    if (!place->sent || place->done)
        return;
    if (chunk->operation == REDUCE) {
        note_answer(flow, header, sequence, now);
        flow_finish(flow, sequence);
    } else if (chunk->operation == ALL_REDUCE && flow->style == STYLE_ATP &&
               header->flags & FLAG_OVERFLOW && !place->as_floats) {
        place->as_floats = place->resent = true;
        sender_send(flow, sequence, 0, now);
    }
}

void member_take(struct flow *flow, const struct packet *packet, double now)
{
    uint64_t sequence = be32toh(packet->header.sequence);
    if (packet->header.kind == KIND_RESULT)
        take_result(flow, packet, sequence, now);
    else if (packet->header.kind == KIND_ACK)
        take_ack(flow, &packet->header, sequence, now);
}

void member_pushed(struct flow *flow, const struct chunk *chunk)
{
    for (uint64_t s = chunk->first; s < chunk->end && in_reach(flow, s); s++) {
        struct place *place = place_of(flow, s);
        if (place->kept && chunk->operation == MULTICAST)
            take_copy(flow, row_of(flow, s), chunk, s);
        place->kept = false;
    }
}
