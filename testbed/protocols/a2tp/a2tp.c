/* A2TP at a host (Li et al., EuroSys 2023; rules and constants from its released code). It is ATP
   with two windows. ECN reduces the one for the network. Contention for the host's slots reduces
   the one for aggregators, and the longer others wait for stragglers, the larger the reduction.
   Fragments beyond the second window bypass the switches and go to the server.

   The code measures the degree of straggling at the first answer 20 to 100 us after an adjustment.
   Here clocks may be dilated, so it is one to five round trips. */
#include <math.h>

#include "atp.h"

static const double DEGREE_GAIN = 1.0 / 64, SHARE_GAIN = 1.0 / 8;
static const double TOLERATED = 0.1, SOFTENED = 1.9; /* of the share of contended fragments */
static const double SOONEST = 1, LATEST = 5;         /* round trips */

static void begin(struct congestion *congestion)
{
    congestion->aggregated = congestion->aggregated_before = congestion->allowed;
    congestion->degree = congestion->latest_degree = 1;
    congestion->began = congestion->next = congestion->begins;
}

static void watch_order(struct congestion *congestion, const struct feedback *answer)
{
    congestion->in_order += answer->fragment == congestion->next;
    if (answer->fragment >= congestion->next)
        congestion->next = answer->fragment + 1;
    const double round_trips = (answer->now - congestion->adjusted_at) / answer->round_trip;
    if (!congestion->watches || round_trips < SOONEST)
        return;
    congestion->watches = false;
    if (round_trips <= LATEST)
        congestion->latest_degree = fmin(1, (double)congestion->in_order / congestion->size_before);
}

static void adjust_aggregated(struct congestion *congestion)
{
    const double beyond = congestion->contended_share - TOLERATED;
    if (congestion->contended && beyond > 0)
        congestion->aggregated *= 1 - pow(beyond, congestion->degree) / SOFTENED;
    else
        congestion->aggregated++;
}

/* Windows are counted in fragments. All workers of a job see the same answers, so the same
   fragments bypass the switches at all of them. */
static void begin_window(struct congestion *congestion, double now)
{
    congestion->began = congestion->begins;
    congestion->begins = congestion->ends;
    congestion->ends += (uint64_t)congestion->allowed;
    congestion->size_before = (uint32_t)(congestion->begins - congestion->began);
    congestion->marked = congestion->contended = congestion->in_order = 0;
    congestion->latest_degree = 1;
    congestion->adjusted_at = now;
    congestion->watches = true;
}

static void answered(struct congestion *congestion, const struct feedback *answer)
{
    congestion->marked += (answer->flags & FLAG_ECN) != 0;
    congestion->contended += (answer->flags & FLAG_CONTENDED) != 0;
    watch_order(congestion, answer);
    if (answer->fragment < congestion->begins)
        return; /* of the window before: this one has no answer yet */
    congestion->degree =
        congestion_smoothed(congestion->degree, DEGREE_GAIN, congestion->latest_degree);
    congestion->marked_share = congestion_smoothed(congestion->marked_share, SHARE_GAIN,
                                                   congestion->marked / congestion->allowed);
    congestion->contended_share = congestion_smoothed(congestion->contended_share, SHARE_GAIN,
                                                      congestion->contended / congestion->aggregated);
    congestion->aggregated_before = congestion->aggregated;
    adjust_aggregated(congestion);
    congestion_adjust(congestion);
    congestion->aggregated = fmin(fmax(congestion->aggregated, 1), congestion->allowed);
    begin_window(congestion, answer->now);
}

static bool bypasses(const struct congestion *congestion, uint64_t fragment, uint64_t of_chunk)
{
    if (of_chunk < (uint64_t)congestion->allowed)
        return false; /* a tensor's first window always uses aggregators */
    if (fragment >= congestion->begins)
        return fragment - congestion->begins >= (uint64_t)congestion->aggregated;
    return fragment >= congestion->began &&
           fragment - congestion->began >= (uint64_t)congestion->aggregated_before;
}

/* The windows change once per window, and at no other time. */
static const struct control two_windows = {
    .open = begin,
    .answered = answered,
    .missed = congestion_ignore,
    .slow_down = congestion_go_on,
    .bypasses = bypasses,
};

static const struct rules rules = {
    ATP_RULES,
    .renamed = FLAG_COLLISION | FLAG_RESEND,
    .contended = FLAG_CONTENDED,
};

const struct protocol a2tp = {ON_TREES, .rules = &rules, .control = &two_windows};
