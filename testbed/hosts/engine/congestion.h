/* Congestion control: how many fragments may be in flight. */
#ifndef CONGESTION_H
#define CONGESTION_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct congestion {
    const struct control *control;
    double allowed;       /* fragments in flight */
    double least, most;   /* limits of `allowed` */
    double last_cut;      /* time of the last halving */

    /* For controls that adjust once per window: its fragments, begins to ends - 1; the answers
       since the last adjustment and how many of them were marked; and the smoothed share of marked
       answers. */
    uint64_t begins, ends;
    uint32_t answers, marked;
    double marked_share;

    /* A second window: how many fragments of this and of the previous window use switches' memory;
       the answers to fragments whose slots others wanted, and their smoothed share. */
    uint64_t began;
    double aggregated, aggregated_before;
    uint32_t contended;
    double contended_share;
    /* The degree of straggling, smoothed and in this window; then the state that measures it. */
    double degree, latest_degree, adjusted_at;
    bool watches;
    uint32_t in_order, size_before;
    uint64_t next; /* the fragment whose answer would be in order */
};

/* An answered fragment, with the answer's flags. Times are in seconds. */
struct feedback {
    uint64_t fragment;
    uint8_t flags;
    double now, round_trip;
};

struct control {
    void (*open)(struct congestion *congestion); /* may be NULL */
    void (*answered)(struct congestion *congestion, const struct feedback *answer);
    void (*missed)(struct congestion *congestion); /* a gap shows that a fragment is missing */
    /* A fragment timed out. */
    void (*slow_down)(struct congestion *congestion, double now, double round_trip);
    /* Whether a new fragment, number `of_chunk` in its chunk, is not to be summed in switches.
       NULL: all are summed. */
    bool (*bypasses)(const struct congestion *congestion, uint64_t fragment, uint64_t of_chunk);
};

extern const struct control none, aimd;

void congestion_open(struct congestion *congestion, const struct control *control, uint32_t window,
                     uint64_t begins);

/* For the protocols' own controls: ignore a missing fragment, and a timeout. */
void congestion_ignore(struct congestion *congestion);
void congestion_go_on(struct congestion *congestion, double now, double round_trip);
/* Or allow fewer fragments in flight after a missing fragment, and after a timeout. */
void congestion_shrink(struct congestion *congestion);
void congestion_halve(struct congestion *congestion, double now, double round_trip);
/* Adjusts `allowed` once per window, like DCTCP (RFC 8257): reduces it by half of `marked_share`,
   or adds one if no answer was marked. */
void congestion_adjust(struct congestion *congestion);

static inline double congestion_smoothed(double old, double gain, double sample)
{
    return (1 - gain) * old + gain * fmin(sample, 1);
}

#endif
