/* Congestion control: how many fragments may be in flight. */
#ifndef CONGESTION_H
#define CONGESTION_H

#include <stdint.h>

struct congestion {
    const struct control *control;
    double allowed;       /* fragments in flight */
    double least, most;   /* limits of `allowed` */
    double last_cut;      /* time of the last halving */
};

struct control {
    void (*answered)(struct congestion *congestion); /* a fragment was answered */
    void (*missed)(struct congestion *congestion);   /* a gap shows that a fragment is missing */
    /* ECN marked a long queue, or a fragment timed out. */
    void (*slow_down)(struct congestion *congestion, double now, double round_trip);
};

extern const struct control none, aimd;

void congestion_open(struct congestion *congestion, const struct control *control, uint32_t window);

#endif
