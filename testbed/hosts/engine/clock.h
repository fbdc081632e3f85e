/* Seconds on the monotonic clock. */
#ifndef CLOCK_H
#define CLOCK_H

#include <math.h>
#include <time.h>

static inline double monotonic(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline struct timespec duration(double seconds)
{
    if (seconds <= 0)
        return (struct timespec){0, 0};
    double whole = floor(seconds);
    return (struct timespec){(time_t)whole, (long)((seconds - whole) * 1e9)};
}

#endif
