/* A host's engine: its part in aggregation trees. It is the engine of the emulator's hosts; here
   the simulation supplies its packets and its time. */
#ifndef HOST_H
#define HOST_H

#include "network.h"

/* See testbed/hosts/engine/flow.h. */
struct flow_state {
    uint32_t tree, window, in_flight;
    double round_trip;
};

/* Functions of the hosts' engine (testbed/hosts/engine/engine.h). */
struct engine_calls {
    void (*take)(void *engine, const void *packet, size_t size, double now);
    void (*pump)(void *engine, double now);
    double (*deadline)(const void *engine);
    bool (*progress)(void *engine);
    size_t (*next)(void *engine, void *packet, uint32_t *address);
    bool (*look)(const void *engine, int flow, struct flow_state *state);
};

struct host {
    struct event timer;
    instant deadline, timer_at; /* the timer is set for the deadline, or earlier */
    struct node *node;
    void *engine;
    const struct engine_calls *calls;
    uint16_t udp_port;
    uint32_t number;
    double pace; /* seconds of the engine in a simulated second */
    void (*progressed)(void *context, uint32_t number, instant now);
    void *context;
    bool is_paused;
    struct packet *held, **held_end; /* what arrives meanwhile */
    uint32_t held_count;
};

void host_open(struct host *host, struct node *node);

/* Takes a packet for the engine's port, which belongs to the host from then on. */
void host_take(struct host *host, struct packet *packet, instant now);

/* Stops a host's engine, as if its process were stopped, or lets it continue. Packets that arrive
   meanwhile wait in a socket buffer; those that do not fit are lost. */
void host_pause(struct host *host, bool is_paused, instant now);

/* Runs the engine: after a push, or at its deadline. */
void host_pump(struct host *host, instant now);

#endif
