/* The receiving half of a TCP stream: what has arrived in order, and the spans beyond gaps. */
#ifndef REASSEMBLY_H
#define REASSEMBLY_H

#include <stdbool.h>

#include "packet.h"

struct reassembly {
    uint64_t received; /* all bytes before this position have arrived */
    uint32_t count, room, recent_count;
    struct span *spans; /* arrived beyond a gap, disjoint, in order */
    uint64_t recent[SACK_BLOCKS]; /* a position in each span reported last, the latest first */
};

void reassembly_close(struct reassembly *stream);

/* Adds a segment; returns whether `received` has grown. */
bool reassembly_take(struct reassembly *stream, struct span segment);

/* The spans to report (RFC 2018, section 4): the one that changed last comes first. Returns their
   number. */
uint32_t reassembly_report(const struct reassembly *stream, struct span blocks[SACK_BLOCKS]);

#endif
