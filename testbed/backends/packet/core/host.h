/* A host's engines: its part in aggregation trees. The engine itself is the one that real hosts
   have; here it gets its packets and its time. */
#ifndef HOST_H
#define HOST_H

#include "network.h"

/* Functions of the hosts' engine (testbed/hosts/engine/engine.h). */
struct engine_calls {
    void (*take)(void *engine, const void *packet, size_t size, double now);
    void (*pump)(void *engine, double now);
    double (*deadline)(const void *engine);
    bool (*progress)(void *engine);
    size_t (*next)(void *engine, void *packet, uint32_t *address);
};

struct host {
    struct event timer;
    struct node *node;
    void *engine;
    const struct engine_calls *calls;
    uint16_t udp_port;
    uint32_t number;
    void (*progressed)(void *context, uint32_t number, instant now);
    void *context;
};

void host_open(struct host *host, struct node *node);

/* A packet for the engine's port has arrived; it belongs to the host. */
void host_take(struct host *host, struct packet *packet, instant now);

/* Lets the engine go on: after a push, or when its time has come. */
void host_pump(struct host *host, instant now);

#endif
