/* Drives engines and switches at nodes: takes the frames that have arrived, and sends others. */
#ifndef DRIVER_H
#define DRIVER_H

#include <sys/uio.h>

#include "links.h"

/* Functions of the hosts' engine (testbed/hosts/engine/engine.h). */
struct engine_calls {
    void (*take)(void *engine, const void *packet, size_t size, double now);
    void (*pump)(void *engine, double now);
    double (*deadline)(const void *engine);
    size_t (*next)(void *engine, void *packet, uint32_t *address);
    int (*push)(void *engine, int flow, int operation, int32_t *values, uint64_t count,
                uint8_t priority);
    uint64_t (*done)(const void *engine, int flow);
};

/* Functions of a native switch (testbed/switches/native/runtime/embedded.h). */
typedef void put_packet(void *owner, unsigned port, const struct iovec *pieces, unsigned count);
typedef unsigned depth_of(void *owner, unsigned port);

struct switch_calls {
    void (*attach)(void *owner, put_packet *put, depth_of *depth);
    void (*process)(unsigned port, uint8_t *packet, size_t length, uint64_t microseconds);
};

/* The most frames of a link that are taken before new ones are published. They are fewer than a
   window, so that ranks and switch work at the same time. */
enum { BATCH = 4 };

/* Takes one turn; returns whether there was anything to do. */
bool drive_engine(struct node *node, void *engine, const struct engine_calls *calls, double now);
bool drive_switch(struct node *node, const struct switch_calls *calls, double now);

#endif
