// Meters: two rates, three colours, as BMv2 computes them. A packet is red, and takes no tokens, if
// the peak rate's bucket has too few for it. Otherwise it is yellow if the committed rate's has.
#ifndef METER_H
#define METER_H

#include "bits.h"

enum colour { GREEN, YELLOW, RED };

struct bucket {
    double rate; // units per microsecond
    uint64_t burst, tokens, last; // last: tokens that the rate had produced since the start
};

struct meter {
    bool set; // until then every packet is green
    struct bucket committed, peak;
};

static void bucket_set(struct bucket *b, double rate, uint64_t burst) {
    *b = (struct bucket){.rate = rate, .burst = burst, .tokens = burst};
}

static bool bucket_pay(struct bucket *b, uint64_t units, uint64_t now) {
    const double earned = (double)now * b->rate;
    const uint64_t given = earned < 1e18 ? (uint64_t)earned : (uint64_t)1e18;
    const uint64_t room = b->burst - b->tokens, more = given - b->last;
    b->tokens += more < room ? more : room;
    b->last = given;
    if (b->tokens < units)
        return false;
    b->tokens -= units;
    return true;
}

static __attribute__((unused)) uint64_t meter_execute(struct meter *m, uint64_t units,
                                                      uint64_t now) {
    if (!m->set)
        return GREEN;
    if (!bucket_pay(&m->peak, units, now))
        return RED;
    return bucket_pay(&m->committed, units, now) ? GREEN : YELLOW;
}

#endif
