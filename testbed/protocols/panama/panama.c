/* PANAMA at a host (Gebara et al., MLSys 2021): a sum is the acknowledgement, and a mark of any
   contribution (ECN) is a mark of the sum. Hosts react to the share of marked sums as DCTCP does
   (RFC 8257), with its gain. The rest is our reading: slots and retransmissions are as in SwitchML,
   a gap reduces the window by an eighth for each missing fragment, and a timeout halves it. */
#include "tree.h"

static const double GAIN = 1.0 / 16;

static void begin(struct congestion *congestion)
{
    congestion->marked_share = 1; /* RFC 8257, 3.3: the first mark halves */
}

static void answered(struct congestion *congestion, const struct feedback *answer)
{
    congestion->answers++;
    congestion->marked += (answer->flags & FLAG_ECN) != 0;
    if (answer->fragment < congestion->ends)
        return;
    const double share = (double)congestion->marked / congestion->answers;
    congestion->marked_share = congestion_smoothed(congestion->marked_share, GAIN, share);
    congestion_adjust(congestion);
    congestion->ends = answer->fragment + (uint64_t)congestion->allowed;
    congestion->answers = congestion->marked = 0;
}

static const struct control dctcp = {
    .open = begin,
    .answered = answered,
    .missed = congestion_shrink,
    .slow_down = congestion_halve,
};

const struct protocol panama = {ON_TREES, .rules = &pool, .control = &dctcp};
