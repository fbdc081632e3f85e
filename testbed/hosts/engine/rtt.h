/* Round-trip times, smoothed as in RFC 6298; seconds. */
#ifndef RTT_H
#define RTT_H

#include <math.h>

#define LEAST_SILENCE 0.005 /* a busy machine may pause as long without a loss */
#define LATER 0.75          /* of a round trip: less may be a member's delay */
#define FIRST_TIMEOUT 0.2
#define LEAST_TIMEOUT 0.1
#define LONGEST_TIMEOUT 1.0
#define LONGEST_DOUBLED 60.0 /* RFC 6298, 2.5 */

struct rtt {
    double smoothed, variation; /* 0 before the first sample */
    double least;               /* of recent samples, see rtt_longest */
};

static inline void rtt_sample(struct rtt *rtt, double sample)
{
    if (rtt->smoothed > 0) {
        rtt->variation = 0.75 * rtt->variation + 0.25 * fabs(sample - rtt->smoothed);
        rtt->smoothed = 0.875 * rtt->smoothed + 0.125 * sample;
        rtt->least = fmin(sample, rtt->least + (sample - rtt->least) / 64);
    } else {
        rtt->smoothed = rtt->least = sample;
    }
}

/* A timeout, from what round trips usually take. A loss that another rank repairs lengthens some
   round trips, and must not lengthen the timeouts beyond LONGEST_TIMEOUT. A long link or queue
   lengthens all of them, and with them the least. */
static inline double rtt_timeout(const struct rtt *rtt, double usual)
{
    return fmin(fmax(usual, LEAST_TIMEOUT), fmax(LONGEST_TIMEOUT, 2 * rtt->least));
}

/* A timeout that has passed, doubled, as long as no answer comes. If a full queue makes round trips
   longer than a bound, retransmissions keep the queue full for ever. */
static inline double rtt_doubled(double timeout)
{
    return fmax(timeout, fmin(2 * timeout, LONGEST_DOUBLED));
}

/* A timeout while no round trip is known, because everything was retransmitted before its answer
   came: it stays (Karn), and is longer than this answer took. */
static inline double rtt_unknown(double timeout, double took)
{
    return fmax(timeout, 2 * took);
}

static inline double rtt_or(const struct rtt *rtt, double unknown)
{
    return rtt->smoothed > 0 ? rtt->smoothed : unknown;
}

#endif
