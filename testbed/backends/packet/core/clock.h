/* Simulated time and its events. Events at the same instant happen in the order in which they were
   set, so that a run is the same everywhere. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef int64_t instant; /* picoseconds since the start: a byte at 400 Gbit/s takes 20 */

#define NEVER INT64_MAX
#define MICROSECOND INT64_C(1000000)
#define SECOND INT64_C(1000000000000)

struct event {
    void (*happen)(struct event *event, instant now);
    uint32_t place; /* in the heap, plus 1; 0 when it is not set */
};

struct entry {
    instant at;
    uint64_t order;
    struct event *event;
};

struct clock {
    instant now;
    uint64_t orders;
    struct entry *heap;
    uint32_t count, room;
    bool is_root_free; /* the first event happens, and its place is not taken yet */
};

void clock_close(struct clock *clock);

/* A number that orders events of the same instant. */
static inline uint64_t clock_order(struct clock *clock)
{
    return clock->orders++;
}

/* Sets `event`, or moves it, to `at`; `order` as `clock_order` gave it. */
void clock_set(struct clock *clock, struct event *event, instant at, uint64_t order);
void clock_cancel(struct clock *clock, struct event *event);

static inline bool is_set(const struct event *event)
{
    return event->place != 0;
}

/* The time of the next event; NEVER if there is none. */
static inline instant clock_next(const struct clock *clock)
{
    return clock->count ? clock->heap[0].at : NEVER;
}

/* Runs the next event. There must be one. */
void clock_step(struct clock *clock);

#endif
