/* Looks inside a run without changing it: captures, spells in which links and switches are busy,
   and the state of queues, connections and engines. Open it when the fabric is complete, and close
   it before the simulation is closed. */
#ifndef LOOK_H
#define LOOK_H

#include "capture.h"
#include "simulation.h"
#include "spells.h"

struct look;

struct look *look_open(struct simulation *simulation);

/* Returns 0, or errno of the first capture that is incomplete. */
int look_close(struct look *look);

/* Writes the packets of a node's port to a file. Returns 0 or errno. */
int look_capture(struct look *look, uint32_t node, uint32_t port, const char *path);

/* Records spells of all ports, and of the INA packets that arrive at switches with a P4 program. A
   pause in which a port could send `pause` bytes ends a spell. */
void look_record(struct look *look, uint64_t pause);

/* Set `spells` to the spells of a port or of a switch; return their number. */
uint32_t look_port_spells(const struct look *look, uint32_t node, uint32_t port,
                          const struct spell **spells);
uint32_t look_switch_spells(const struct look *look, uint32_t node, const struct spell **spells);

/* A packet put on a link. */
struct listed {
    uint64_t number; /* among all packets, from 1 */
    instant at;      /* when it leaves */
    uint32_t from, to; /* nodes */
    uint32_t bytes;
    uint32_t source, destination; /* addresses */
    uint16_t source_port, destination_port;
    uint32_t protocol;
};

/* Lists packets number `first` to `last`. */
void look_list(struct look *look, uint64_t first, uint64_t last);

/* Sets `listed` to the packets listed so far; returns their number. */
uint32_t look_listed(const struct look *look, const struct listed **listed);

/* Whether no event is left. */
bool look_is_idle(const struct look *look);

/* Bytes that wait at each port, in the order of nodes and their ports. */
void look_queues(struct look *look, uint64_t *waiting);

struct connection_state {
    struct flow_key key;
    struct tcp_state tcp;
};

/* The state of connection number `connection`; false if there is none. */
bool look_connection(const struct look *look, uint32_t connection, struct connection_state *state);

struct engine_state {
    uint32_t node;
    struct flow_state flow;
};

/* The state of flow number `flow` of an engine; false if there is none. */
bool look_engine(const struct look *look, uint32_t engine, uint32_t flow,
                 struct engine_state *state);

#endif
