/* All flows of a rank, without clock or socket: the interface that aggregation.py loads. Its driver
   is endpoint.c, which has a socket, or a simulation. The driver hands in packets and the time,
   calls engine_pump, and takes the packets to be sent. */
#ifndef ENGINE_H
#define ENGINE_H

#include "flow.h"

enum { TREES = 1 << 16 };

/* A rank may take part in hundreds of trees, and a packet concerns one of them. So no call but
   engine_add may look at all flows for each packet. */
struct engine {
    struct flow **flows;
    int count;
    int first; /* the flow that sends first; rotates */
    /* Sets of flows, a bit for each. Woken flows have taken a packet or a chunk since they were
       pumped, or have packets to be sent. */
    uint64_t *woken, *finished;
    double *deadlines; /* of each flow */
    int soonest;       /* the flow with the earliest deadline */
    bool progress;
    uint16_t flow_of[TREES]; /* by tree: index + 1, 0 for none */
};

struct engine *engine_open(void);
void engine_close(struct engine *engine);
int engine_add(struct engine *engine, const struct role *role); /* index, or -errno */
int engine_push(struct engine *engine, int flow, int operation, int32_t *values, uint64_t count,
                uint8_t priority);
uint64_t engine_done(const struct engine *engine, int flow);
const struct counters *engine_counters(const struct engine *engine, int flow);
const uint64_t *engine_float_sums(const struct engine *engine, int flow, uint64_t *count);

/* The state of flow number `flow`; false if there is none. */
bool engine_look(const struct engine *engine, int flow, struct flow_state *state);

/* Times are seconds on the driver's clock: any origin, never backwards. */
void engine_take(struct engine *engine, const void *packet, size_t size, double now);
void engine_pump(struct engine *engine, double now); /* after packets, pushes or the deadline */
double engine_deadline(const struct engine *engine); /* INFINITY: it waits for packets only */
bool engine_progress(struct engine *engine); /* whether a chunk was finished since the last call */

/* Takes a flow that has finished a chunk since it was last taken; -1 if there is none. */
int engine_finished(struct engine *engine);

/* Takes the next packet to be sent, in wire order; returns its size, or 0 for none. */
size_t engine_next(struct engine *engine, void *packet, uint32_t *address);

#endif
