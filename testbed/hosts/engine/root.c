/* The root of a tree, a host: completes the partial sums of the switches below it. It counts each
   member's contribution once, however often it arrives. A server answers a complete fragment with
   its sum: acknowledgement, result and slot release in one (ATP, section 4). A rank adds the sum to
   its own values. window.c has a root's multicasts; their receipts arrive here. */
#include <stdlib.h>

#include "tree.h"

static void answer(struct tree *tree, const struct header *header, const uint64_t *to)
{
    for (uint32_t i = 0; i < tree->peers; i++)
        if (ranks_meet(&tree->of_peers[i * tree->words], to, tree->words))
            put_header(&tree->flow.queues[i], header);
}

static void answer_again(struct tree *tree, const struct header *header, const uint64_t *ranks)
{
    tree->flow.counters.answered_again++;
    if (!tree->rules->answers_one) {
        answer(tree, header, ranks);
        return;
    }
    for (uint32_t word = 0; word < tree->words; word++)
        for (uint64_t left = ranks[word]; left; left &= left - 1) {
            int queue = tree->queue_of[64 * word + (uint32_t)__builtin_ctzll(left)];
            if (queue >= 0)
                put_header(&tree->flow.queues[queue], header);
        }
}

static struct header reply(const struct tree *tree, uint8_t kind, uint64_t sequence,
                           const struct place *place)
{
    return (struct header){
        .kind = kind,
        .flags = place->flags,
        .tree = htobe16(tree->flow.tree),
        .sequence = htobe32((uint32_t)sequence),
        .slot = htobe32(place->slot),
        .next_slot = htobe32(place->next_slot),
        .bitmap = htobe64(tree->everyone[0]),
    };
}

void root_answer(struct tree *tree, uint8_t kind, uint64_t sequence)
{
    struct place *place = place_of(tree, sequence);
    place->next_slot = place->slot;
    const struct rules *rules = tree->rules;
    if (kind == KIND_RESULT && place->flags & rules->renamed && !(place->flags & rules->contended))
        place->next_slot = rules->rehash(tree, place->slot);
    struct header header = reply(tree, kind, sequence, place);
    answer(tree, &header, tree->everyone);
}

void root_return_sum(struct tree *tree, uint64_t sequence)
{
    root_answer(tree, KIND_RESULT, sequence);
    tree_finish(tree, sequence);
}

static void keep_sum(struct tree *tree, const struct chunk *chunk, uint64_t sequence)
{
    struct place *place = place_of(tree, sequence);
    if (add_packet(chunk, sequence, row_of(tree, sequence)))
        place->flags |= FLAG_OVERFLOW;
    if (place->flags & FLAG_OVERFLOW)
        tree->flow.counters.overflows++;
    root_answer(tree, KIND_ACK, sequence);
    tree_finish(tree, sequence);
}

static void complete(struct tree *tree, uint64_t sequence)
{
    struct place *place = place_of(tree, sequence);
    if (!tree->serves) {
        const struct chunk *chunk = chunk_of(&tree->flow.chunks, sequence);
        place->kept = !chunk;
        if (chunk)
            keep_sum(tree, chunk, sequence);
        return;
    }
    bool too_wide = place->flags & FLAG_OVERFLOW;
    tree->flow.counters.overflows += too_wide;
    if (too_wide && tree->rules->too_wide) {
        tree->rules->too_wide(tree, sequence);
    } else {
        swap_in_place(row_of(tree, sequence));
        root_return_sum(tree, sequence);
    }
}

/* Takes a contribution that is already in the sum: the answer was lost or is not sent yet. */
void root_take_late(struct tree *tree, const struct header *from, uint64_t sequence,
                    const uint64_t *ranks)
{
    if (tree->rules->answers_one && !(from->flags & FLAG_RESEND))
        return; /* a copy that the network made */
    if (tree->serves) {
        const struct place *place = place_of(tree, sequence);
        struct header header = reply(tree, place->done ? KIND_RESULT : KIND_ACK, sequence, place);
        answer_again(tree, &header, ranks);
        return;
    }
    const struct chunk *chunk = chunk_of(&tree->flow.chunks, sequence);
    if (!chunk || chunk->operation != REDUCE)
        return;
    struct header header = *from;
    header.kind = KIND_ACK;
    header.flags = 0;
    header.next_slot = header.slot;
    header.bitmap = htobe64(tree->everyone[0]);
    answer_again(tree, &header, ranks);
}

static void take_data(struct tree *tree, const struct packet *packet, uint64_t sequence,
                      const uint64_t *ranks)
{
    bool finished = !tree->serves && sequence < tree->lowest;
    if (finished || (in_reach(tree, sequence) && place_of(tree, sequence)->done)) {
        root_take_late(tree, &packet->header, sequence, ranks);
        return;
    }
    if (!in_reach(tree, sequence))
        return;
    const struct chunk *chunk = chunk_of(&tree->flow.chunks, sequence);
    if (chunk && chunk->operation != REDUCE)
        return;
    struct place *place = place_of(tree, sequence);
    uint8_t flags = packet->header.flags;
    if (place->floats)
        tree->rules->take_again(tree, packet, sequence, ranks);
    uint64_t *counted = counted_of(tree, sequence);
    if (place->floats || flags & FLAG_FLOATS || ranks_meet(counted, ranks, tree->words))
        return;
    if (flags & FLAG_COLLISION)
        tree->flow.counters.collisions++;
    place->flags |= flags & (FLAG_COLLISION | FLAG_OVERFLOW | FLAG_ECN | FLAG_RESEND |
                             tree->rules->contended);
    place->slot = be32toh(packet->header.slot);
    int32_t *row = row_of(tree, sequence);
    if (!ranks_count(counted, tree->words))
        swap_values(row, packet->values);
    else if (add_from_wire(row, packet->values))
        place->flags |= FLAG_OVERFLOW;
    ranks_join(counted, ranks, tree->words);
    if (ranks_equal(counted, tree->everyone, tree->words))
        complete(tree, sequence);
}

static void take_receipt(struct tree *tree, uint64_t sequence, const uint64_t *ranks, double now)
{
    if (sequence < tree->lowest || !in_reach(tree, sequence))
        return;
    struct place *place = place_of(tree, sequence);
    if (!place->sent || place->done)
        return;
    uint64_t *counted = counted_of(tree, sequence);
    ranks_join(counted, ranks, tree->words);
    if (!ranks_equal(counted, tree->everyone, tree->words))
        return;
    window_answered(tree, sequence, 0, now);
    tree_finish(tree, sequence);
}

/* The ranks whose contributions a packet has; NULL if it names ranks that are not on the tree. */
static const uint64_t *ranks_in(const struct tree *tree, const struct header *header)
{
    const uint64_t bits = be64toh(header->bitmap);
    if (!tree->origins) {
        *tree->found = bits;
        return bits && !(bits & ~*tree->everyone) ? tree->found : NULL;
    }
    const uint32_t origin = be32toh(header->next_slot);
    if (!bits || !origin || origin > tree->origins)
        return NULL;
    ranks_clear(tree->found, tree->words);
    for (uint64_t left = bits; left; left &= left - 1) {
        const size_t set = (size_t)(origin - 1) * BITMAP + (size_t)__builtin_ctzll(left);
        const uint64_t *behind = &tree->behind[set * tree->words];
        if (!ranks_count(behind, tree->words))
            return NULL;
        ranks_join(tree->found, behind, tree->words);
    }
    return tree->found;
}

void root_take(struct tree *tree, const struct packet *packet, double now)
{
    uint64_t sequence = whole_sequence(tree, be32toh(packet->header.sequence));
    const uint64_t *ranks = ranks_in(tree, &packet->header);
    if (!ranks)
        return;
    if (packet->header.kind == KIND_DATA)
        take_data(tree, packet, sequence, ranks);
    else if (packet->header.kind == KIND_RECEIPT)
        take_receipt(tree, sequence, ranks, now);
}

void root_pushed(struct tree *tree, const struct chunk *chunk)
{
    for (uint64_t s = chunk->first; s < chunk->end && in_reach(tree, s); s++) {
        struct place *place = place_of(tree, s);
        if (chunk->operation == MULTICAST)
            place_clear(tree, s); /* ignore early packets: there was no reason to send any */
        else if (place->kept)
            complete(tree, s);
    }
}
