/* Congestion control: how many fragments may be in flight. */
#ifndef CONGESTION_H
#define CONGESTION_H

#include <stdint.h>

struct congestion {
    const struct control *control;
    double allowed;       /* in flight */
    double least, most;
    double last_cut;      /* when it was halved last */
};

struct control {
    void (*answered)(struct congestion *congestion); /* one fragment was */
    void (*missed)(struct congestion *congestion);   /* one is, as a gap shows */
    /* A long queue was marked (ECN), or a fragment timed out. */
    void (*slow_down)(struct congestion *congestion, double now, double round_trip);
};

extern const struct control none, aimd;

void congestion_open(struct congestion *congestion, const struct control *control, uint32_t window);

#endif
