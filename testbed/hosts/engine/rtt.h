/* Round-trip times, smoothed as in RFC 6298; seconds. */
#ifndef RTT_H
#define RTT_H

#include <math.h>

#define LEAST_SILENCE 0.005 /* a busy machine may pause as long without a loss */
#define LATER 0.75          /* of a round trip: less may be a member's delay */
#define FIRST_TIMEOUT 0.2
#define LEAST_TIMEOUT 0.1
#define LONGEST_TIMEOUT 1.0

struct rtt {
    double smoothed, variation; /* 0 before the first sample */
};

static inline void rtt_sample(struct rtt *rtt, double sample)
{
    if (rtt->smoothed > 0) {
        rtt->variation = 0.75 * rtt->variation + 0.25 * fabs(sample - rtt->smoothed);
        rtt->smoothed = 0.875 * rtt->smoothed + 0.125 * sample;
    } else {
        rtt->smoothed = sample;
    }
}

/* How long a timeout may be that follows from round trips, or that doubled. */
static inline double rtt_longest(const struct rtt *rtt)
{
    return fmax(LONGEST_TIMEOUT, 2 * rtt->smoothed);
}

static inline double rtt_or(const struct rtt *rtt, double unknown)
{
    return rtt->smoothed > 0 ? rtt->smoothed : unknown;
}

#endif
