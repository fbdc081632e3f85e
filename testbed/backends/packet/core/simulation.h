/* The interface to Python: a fabric is built node by node. A run returns at each event for which a
   rank waits. */
#ifndef SIMULATION_H
#define SIMULATION_H

#include "host.h"
#include "p4.h"
#include "tcp.h"

/* An event that a rank waits for. BROKEN: a connection was given up. */
enum happening_kind { STREAM, ENGINE, BROKEN };

struct happening {
    instant at;
    uint32_t kind, number; /* of a connection, or of an engine */
    uint32_t count; /* of the messages that have arrived */
};

struct simulation *simulation_open(uint32_t nodes, uint32_t data_room,
                                   const struct tcp_settings *settings);
void simulation_close(struct simulation *simulation);

void simulation_node(struct simulation *simulation, uint32_t number, int kind, uint32_t address,
                     uint64_t salt);

/* Costs of a host, and when its processor has handled a message; see network.h. */
void simulation_charge(struct simulation *simulation, uint32_t node, instant packet_cost,
                       instant message_cost);
instant simulation_handle(struct simulation *simulation, uint32_t node);

struct link {
    uint32_t a, b;
    int64_t rate;        /* bit/s, either way */
    instant delay_a, delay_b; /* of packets from either end */
    instant burst;
    uint64_t limit_a, limit_b; /* bytes that may wait at either end */
    instant jitter_a, jitter_b;
    uint64_t loss, duplication; /* of 2^64, either way */
    uint64_t seed;
};

void simulation_link(struct simulation *simulation, const struct link *link);

/* The ports on shortest paths from `node` to `to`. */
void simulation_next_hops(struct simulation *simulation, uint32_t node, uint32_t to, uint32_t count,
                    const uint32_t *ports);

/* Sends packets from address `source` to address `to` through `port` of `node`. */
void simulation_route(struct simulation *simulation, uint32_t node, uint32_t source, uint32_t to,
                      uint32_t port);

uint32_t simulation_connect(struct simulation *simulation, uint32_t source, uint32_t to,
                            uint16_t source_port, uint16_t to_port);

/* Appends a message of so many bytes to a stream. */
void simulation_write(struct simulation *simulation, uint32_t connection, uint64_t bytes);

/* Gives a host an engine that receives at `udp_port`; returns its number. `pace`: seconds of the
   engine in a simulated second. */
uint32_t simulation_engine(struct simulation *simulation, uint32_t node, void *engine,
                           const struct engine_calls *calls, uint16_t udp_port,
                           double pace);

/* Runs an engine after a push. */
void simulation_pump(struct simulation *simulation, uint32_t engine);

/* Makes a node a switch that runs a P4 program; `adds` as in p4.h. */
void simulation_program(struct simulation *simulation, uint32_t node, const struct p4_calls *calls,
                        instant adds);

/* How packets with values are counted; see network.h. */
void simulation_carry(struct simulation *simulation, uint32_t values_from, uint32_t uncarried);

/* Runs until a message has arrived, an engine has finished a chunk or a
   connection was given up (returns 1, and fills `happening`), until `until` (returns 0), or until
   no event is left (returns -1). `happening->at` is the time then. */
int simulation_run(struct simulation *simulation, instant until, struct happening *happening);

/* Takes a port out of service, or puts it back. What leaves or arrives meanwhile is lost. */
void simulation_set_down(struct simulation *simulation, uint32_t node, uint32_t port, bool is_down);

/* Sets what the link does, from now on, to frames that leave by a port. */
void simulation_impair(struct simulation *simulation, uint32_t node, uint32_t port,
                       const struct impairment *impaired);

/* Stops a host's engines, or lets them continue: see host_pause. */
void simulation_pause(struct simulation *simulation, uint32_t node, bool is_paused);

/* Lets a host send a frame that no engine made. Anything but UDP over IPv4 is ignored. */
void simulation_inject(struct simulation *simulation, uint32_t node, const uint8_t *frame,
                       uint32_t length);

/* Frames that are on a port's link, or wait for it. */
uint32_t simulation_held(const struct simulation *simulation, uint32_t node, uint32_t port);

/* Packets in memory that are neither on a link nor held by a paused host. There are none unless the
   simulation has lost track of some. */
uint64_t simulation_unaccounted(const struct simulation *simulation);

uint64_t simulation_hops(const struct simulation *simulation);
const struct digests *simulation_digests(const struct simulation *simulation);
const struct port_counters *simulation_port(const struct simulation *simulation, uint32_t node,
                                            uint32_t port);
/* The counters of a node's own queue: a host's processor, a switch's adder. NULL if it has none. */
const struct port_counters *simulation_inside(const struct simulation *simulation, uint32_t node);
const struct tcp_counters *simulation_counters(const struct simulation *simulation,
                                               uint32_t connection);

/* For look.c; NULL for an engine that does not exist. */
struct network *simulation_network(const struct simulation *simulation);
const struct tcp *simulation_tcp(const struct simulation *simulation);
const struct host *simulation_host(const struct simulation *simulation, uint32_t engine);

#endif
