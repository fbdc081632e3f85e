/* What ATP's variants share with it: all rules of its hosts except two, congestion control and when
   the root names another slot. */
#ifndef ATP_H
#define ATP_H

#include "tree.h"

uint32_t atp_slot(const struct tree *tree, uint64_t sequence);
void atp_answered(struct tree *tree, const struct header *header, uint64_t sequence);
void atp_send_floats(struct tree *tree, const struct header *header, uint64_t sequence, double now);
uint32_t atp_rehash(struct tree *tree, uint32_t taken);
void atp_ask_for_floats(struct tree *tree, uint64_t sequence);
void atp_take_floats(struct tree *tree, const struct packet *packet, uint64_t sequence,
                     const uint64_t *ranks);

#define ATP_RULES                                                                                  \
    .resend_flag = FLAG_RESEND, .answers_one = true, .slot = atp_slot, .answered = atp_answered,   \
    .asked = atp_send_floats, .rehash = atp_rehash, .too_wide = atp_ask_for_floats,                \
    .take_again = atp_take_floats

extern const struct rules atp_rules;

#endif
