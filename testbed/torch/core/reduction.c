#include "reduction.h"

#include <math.h>
#include <string.h>

#include "clock.h"

static const double FULL_LINK = 0.001; /* until the next look whether there is room */

size_t stage_values(uint32_t block)
{
    return (size_t)PIECES * PIECE * block;
}

void largest(const float *values, uint64_t count, uint32_t block, uint32_t *bits)
{
    for (uint64_t first = 0; first < count; first += block) {
        const uint64_t end = first + block < count ? first + block : count;
        uint32_t found = 0;
        for (uint64_t i = first; i < end; i++) {
            uint32_t each;
            memcpy(&each, &values[i], sizeof each);
            each &= 0x7fffffff;
            found = each > found ? each : found;
        }
        *bits++ = found;
    }
}

static void quantise(const float *restrict from, int32_t *restrict to, uint64_t count, double factor)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = (int32_t)rint((double)from[i] * factor);
}

static void restore(const struct reduction *r, const int32_t *restrict from, float *restrict to,
                    uint64_t count, double factor)
{
    if (!r->divides && r->divisor == 1)
        for (uint64_t i = 0; i < count; i++)
            to[i] = (float)((double)from[i] * factor);
    else if (!r->divides)
        for (uint64_t i = 0; i < count; i++)
            to[i] = (float)((double)from[i] * factor / r->divisor);
    else
        for (uint64_t i = 0; i < count; i++)
            to[i] = (float)((double)from[i] / factor / r->divisor);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t blocks_of(const struct reduction *r)
{
    return (r->count + r->block - 1) / r->block;
}

static int32_t *stage_of(const struct reduction *r, uint64_t piece)
{
    return r->stage + piece % PIECES * PIECE * r->block;
}

/* Prefetches values while those before them are made integers. */
static void fetch(const float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i += 64 / sizeof *values)
        __builtin_prefetch(values + i);
}

static int push(struct reduction *r)
{
    const uint64_t first = r->pushed * PIECE, end = smaller(first + PIECE, blocks_of(r));
    int32_t *stage = stage_of(r, r->pushed);
    for (uint64_t b = first; b < end; b++) {
        const uint64_t next = smaller((b + 1) * r->block, r->count);
        fetch(r->values + next, smaller(r->block, r->count - next));
        quantise(r->values + b * r->block, stage + (b - first) * r->block,
                 smaller(r->block, r->count - b * r->block), r->to[b]);
    }
    r->pushed++;
    const uint64_t values = smaller(end * r->block, r->count) - first * r->block;
    return r->calls.push(r->engine, r->flow, r->operation, stage, values, 0);
}

static void restore_piece(struct reduction *r)
{
    const uint64_t first = r->restored * PIECE, end = smaller(first + PIECE, blocks_of(r));
    const int32_t *stage = stage_of(r, r->restored);
    for (uint64_t b = first; b < end; b++)
        restore(r, stage + (b - first) * r->block, r->values + b * r->block,
                smaller(r->block, r->count - b * r->block), r->back[b]);
    r->restored++;
}

int reduction_run(struct reduction *r, double until)
{
    const uint64_t blocks = blocks_of(r), pieces = (blocks + PIECE - 1) / PIECE;
    for (;;) {
        const double now = monotonic();
        bool busy = drive_engine(r->node, r->engine, &r->calls, now);
        const uint64_t done = r->calls.done(r->engine, r->flow) - r->begin;
        while (r->restored < r->pushed && done >= smaller((r->restored + 1) * PIECE, blocks)) {
            restore_piece(r);
            busy = true;
        }
        if (r->restored == pieces) {
            node_ring(r->node);
            return 1;
        }
        if (r->pushed < pieces && r->pushed - r->restored < PIECES) {
            const int error = push(r);
            if (error < 0)
                return error;
            busy = true;
        }
        if (now >= until) {
            node_ring(r->node);
            return 0;
        }
        if (busy)
            continue;
        bool blocked = false;
        for (uint32_t i = 0; i < r->node->ways_count; i++)
            blocked |= !has_room(r->node, &r->node->ways[i]);
        double wake = fmin(until, r->calls.deadline(r->engine));
        if (blocked)
            wake = fmin(wake, now + FULL_LINK);
        bell_wait(r->node->bell, &r->node, 1, wake - now);
    }
}
