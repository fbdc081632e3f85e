/* ATP at a host (Lao et al., NSDI 2021). A retransmitted fragment has the resend flag, which makes
   switches flush their partial sum. The root names another slot for the fragment that follows a
   collision, and sends the answer to a repeated request only to its sender. If a sum leaves the
   range of int32, the root computes it again, from floats. */
#include <stdlib.h>

#include "atp.h"

uint32_t atp_slot(const struct tree *tree, uint64_t sequence)
{
    return tree->is_root ? place_of(tree, sequence)->slot
                         : tree->slots[sequence % tree->window.size];
}

void atp_answered(struct tree *tree, const struct header *header, uint64_t sequence)
{
    tree->slots[sequence % tree->window.size] = be32toh(header->next_slot);
}

/* Dynamic re-hash: the next fragment in this place uses another slot. */
uint32_t atp_rehash(struct tree *tree, uint32_t taken)
{
    if (!tree->slots_count)
        return taken;
    if (tree->next_spare == tree->slots_count)
        tree->next_spare = 0;
    uint32_t fresh = tree->slots[tree->next_spare];
    tree->slots[tree->next_spare++] = taken;
    return fresh;
}

void atp_ask_for_floats(struct tree *tree, uint64_t sequence)
{
    struct place *place = place_of(tree, sequence);
    place->floats = calloc(VALUES, sizeof *place->floats);
    if (!place->floats)
        abort();
    ranks_clear(counted_of(tree, sequence), tree->words);
    root_answer(tree, KIND_ACK, sequence);
}

void atp_send_floats(struct tree *tree, const struct header *header, uint64_t sequence, double now)
{
    struct place *place = place_of(tree, sequence);
    if (!(header->flags & FLAG_OVERFLOW) || place->as_floats)
        return;
    place->as_floats = place->resent = true;
    window_send(tree, sequence, 0, now);
}

void atp_take_floats(struct tree *tree, const struct packet *packet, uint64_t sequence,
                        const uint64_t *ranks)
{
    struct place *place = place_of(tree, sequence);
    if (!(packet->header.flags & FLAG_FLOATS)) {
        root_take_late(tree, &packet->header, sequence, ranks);
        return;
    }
    uint64_t *counted = counted_of(tree, sequence);
    if (ranks_meet(counted, ranks, tree->words) || ranks_count(ranks, tree->words) != 1)
        return; /* counted already, or a sum: switches do not add floats */
    add_floats(place->floats, packet->values);
    ranks_join(counted, ranks, tree->words);
    if (!ranks_equal(counted, tree->everyone, tree->words))
        return;
    float_sums_to_wire(row_of(tree, sequence), place->floats);
    place->flags = (uint8_t)((place->flags & ~FLAG_OVERFLOW) | FLAG_FLOATS);
    root_return_sum(tree, sequence);
}

const struct rules atp_rules = {ATP_RULES, .renamed = FLAG_COLLISION};

const struct protocol atp = {ON_TREES, .rules = &atp_rules, .control = &aimd};
