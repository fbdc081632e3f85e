/* What Python sees: a fabric is built node by node, and run from one happening to the next. */
#ifndef SIMULATION_H
#define SIMULATION_H

#include "host.h"
#include "p4.h"
#include "tcp.h"

/* Something that a rank waits for. */
enum happening_kind { STREAM, ENGINE };

struct happening {
    instant at;
    uint32_t kind, number; /* of a connection, or of an engine */
};

struct simulation *simulation_open(uint32_t nodes, uint32_t data_room,
                                   const struct tcp_settings *settings);
void simulation_close(struct simulation *simulation);

void simulation_node(struct simulation *simulation, uint32_t number, int kind, uint32_t address,
                     uint64_t salt);

struct link {
    uint32_t a, b;
    int64_t rate;        /* bit/s, either way */
    instant delay;
    uint64_t limit_a, limit_b; /* bytes that may wait at either end */
    uint64_t mark_from;
    instant jitter_a, jitter_b;
    uint64_t loss, duplication; /* of 2^64, either way */
    uint64_t seed;
};

void simulation_link(struct simulation *simulation, const struct link *link);

/* The ports by which a packet at `node` may go to `to`. */
void simulation_way(struct simulation *simulation, uint32_t node, uint32_t to, uint32_t count,
                    const uint32_t *ports);

uint32_t simulation_connect(struct simulation *simulation, uint32_t source, uint32_t to,
                            uint16_t source_port, uint16_t to_port);
void simulation_write(struct simulation *simulation, uint32_t connection, uint64_t bytes);
void simulation_expect(struct simulation *simulation, uint32_t connection, uint64_t position);
uint64_t simulation_received(const struct simulation *simulation, uint32_t connection);

/* Gives a host an engine, at whose UDP port its packets arrive; its number. */
uint32_t simulation_engine(struct simulation *simulation, uint32_t node, void *engine,
                           const struct engine_calls *calls, uint16_t udp_port);

/* Lets an engine go on after a push. */
void simulation_pump(struct simulation *simulation, uint32_t engine);

/* Makes a node a switch that runs a P4 program. */
void simulation_program(struct simulation *simulation, uint32_t node, const struct p4_calls *calls);

/* How packets with values are counted; see network.h. */
void simulation_carry(struct simulation *simulation, uint32_t values_from, uint32_t uncarried);

/* Runs until a stream has reached what is expected of it or an engine has finished a chunk (1, in
   `happening`), until `until` (0), or until nothing is left to happen (-1). */
int simulation_run(struct simulation *simulation, instant until, struct happening *happening);

instant simulation_now(const struct simulation *simulation);
uint64_t simulation_hops(const struct simulation *simulation);
uint64_t simulation_events(const struct simulation *simulation);
const struct port_counters *simulation_port(const struct simulation *simulation, uint32_t node,
                                            uint32_t port);
const struct tcp_counters *simulation_counters(const struct simulation *simulation,
                                               uint32_t connection);

#endif
