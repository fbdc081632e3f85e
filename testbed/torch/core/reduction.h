/* One all-reduce of float32 values at a rank: as integers, piece by piece. */
#ifndef REDUCTION_H
#define REDUCTION_H

#include "driver.h"

struct reduction {
    struct node *node;
    void *engine;
    struct engine_calls calls;
    int flow;
    int operation; /* an all-reduce, by the engine's number */
    float *values; /* become the sums */
    uint64_t count;
    uint32_t block;              /* values in a packet */
    const double *to, *back;     /* of each block: the factors of its values, and of their sums */
    double divisor;              /* of each sum, if not 1; sums are also divided by `back` if so told */
    bool divides;
    int32_t *stage; /* `stage_values` of them */
    uint64_t pushed, restored; /* pieces so far */
    uint64_t begin; /* of the flow's fragments */
};

/* Blocks in a piece, and pieces in the stage, which stays in a core's cache. A rank has at most this
   many packets in flight, whatever its window is. */
enum { PIECE = 4, PIECES = 32 };

/* The int32 values of a stage. */
size_t stage_values(uint32_t block);

/* The bits of each block's largest magnitude, as a float32. */
void largest(const float *values, uint64_t count, uint32_t block, uint32_t *bits);

/* Works until all sums have come, or until `until`. Returns 1 if all have come, 0 if not, or
   -errno. */
int reduction_run(struct reduction *reduction, double until);

#endif
