/* A member: contributes fragments, and takes the packets that come down from the root. */
#include <stdlib.h>
#include <string.h>

#include "tree.h"

static void send_receipt(struct tree *tree, uint64_t sequence)
{
    uint32_t slot = tree->rules->slot(tree, sequence);
    struct header header = {
        .kind = KIND_RECEIPT,
        .tree = htobe16(tree->flow.tree),
        .sequence = htobe32((uint32_t)sequence),
        .slot = htobe32(slot),
        .next_slot = origin_or(tree, slot),
        .bitmap = htobe64(tree->own),
    };
    put_header(&tree->flow.queues[0], &header);
}

static void remember_float_sum(struct tree *tree, uint64_t sequence)
{
    if (tree->flow.float_count == tree->flow.float_room) {
        size_t room = tree->flow.float_room ? 2 * tree->flow.float_room : 64;
        uint64_t *larger = realloc(tree->flow.float_sums, room * sizeof *larger);
        if (!larger)
            abort(); /* rather than report a sum with the wrong type */
        tree->flow.float_sums = larger;
        tree->flow.float_room = room;
    }
    tree->flow.float_sums[tree->flow.float_count++] = sequence - tree->flow.begins;
}

/* Counts what the root's answer to this member's fragment reports, and tells the window of it. */
static void note_answer(struct tree *tree, const struct header *header, uint64_t sequence, double now)
{
    if (header->flags & FLAG_COLLISION)
        tree->flow.counters.collisions++;
    if (header->flags & (FLAG_OVERFLOW | FLAG_FLOATS))
        tree->flow.counters.overflows++;
    if (header->flags & FLAG_ECN)
        tree->flow.counters.ecn++;
    if (tree->rules->answered)
        tree->rules->answered(tree, header, sequence);
    window_answered(tree, sequence, header->flags, now);
}

static void take_sum(struct tree *tree, const struct packet *packet, const struct chunk *chunk,
                     uint64_t sequence, double now)
{
    struct place *place = place_of(tree, sequence);
    if (!place->sent)
        return;
    store_packet(chunk, sequence, packet->values);
    if (packet->header.flags & FLAG_FLOATS)
        remember_float_sum(tree, sequence);
    note_answer(tree, &packet->header, sequence, now);
    tree_finish(tree, sequence);
}

static void take_copy(struct tree *tree, const int32_t *values, const struct chunk *chunk,
                      uint64_t sequence)
{
    store_packet(chunk, sequence, values);
    tree_finish(tree, sequence);
    send_receipt(tree, sequence);
}

static void take_result(struct tree *tree, const struct packet *packet, uint64_t sequence, double now)
{
    const struct chunk *chunk = chunk_of(&tree->flow.chunks, sequence);
    bool here = in_reach(tree, sequence);
    bool done = sequence < tree->lowest || (here && place_of(tree, sequence)->done);
    if (done) {
        if (chunk && chunk->operation == MULTICAST)
            send_receipt(tree, sequence); /* the first one was lost */
    } else if (here && !chunk) {
        /* Early: keep the values until their operation is pushed. */
        memcpy(row_of(tree, sequence), packet->values, sizeof packet->values);
        place_of(tree, sequence)->kept = true;
    } else if (here && chunk->operation == MULTICAST) {
        take_copy(tree, packet->values, chunk, sequence);
    } else if (here && chunk->operation == ALL_REDUCE) {
        take_sum(tree, packet, chunk, sequence, now);
    }
}

static void take_ack(struct tree *tree, const struct header *header, uint64_t sequence, double now)
{
    const struct chunk *chunk = chunk_of(&tree->flow.chunks, sequence);
    if (!chunk || sequence < tree->lowest || !in_reach(tree, sequence))
        return;
    struct place *place = place_of(tree, sequence);
    if (!place->sent || place->done)
        return;
    if (chunk->operation == REDUCE) {
        note_answer(tree, header, sequence, now);
        tree_finish(tree, sequence);
    } else if (chunk->operation == ALL_REDUCE && tree->rules->asked) {
        tree->rules->asked(tree, header, sequence, now);
    }
}

void member_take(struct tree *tree, const struct packet *packet, double now)
{
    uint64_t sequence = whole_sequence(tree, be32toh(packet->header.sequence));
    if (packet->header.kind == KIND_RESULT)
        take_result(tree, packet, sequence, now);
    else if (packet->header.kind == KIND_ACK)
        take_ack(tree, &packet->header, sequence, now);
}

void member_pushed(struct tree *tree, const struct chunk *chunk)
{
    for (uint64_t s = chunk->first; s < chunk->end && in_reach(tree, s); s++) {
        struct place *place = place_of(tree, s);
        if (place->kept && chunk->operation == MULTICAST)
            take_copy(tree, row_of(tree, s), chunk, s);
        place->kept = false;
    }
}
