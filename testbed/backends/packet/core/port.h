/* One end of a link: a queue in bytes, the transmitter, and the wire to the other end. */
#ifndef PORT_H
#define PORT_H

#include <stddef.h>

#include "clock.h"
#include "packet.h"

struct frame {
    struct packet *packet;
    instant starts, arrives;
    uint64_t order;
};

struct port_counters {
    uint64_t sent_bytes, sent_frames, dropped, marked, lost, duplicated;
    uint64_t most_waiting; /* bytes */
};

struct network;

struct port {
    struct event arrival;       /* of the first frame on the wire */
    struct event room;          /* the queue has become shorter than a sender's share of it */
    struct network *network;
    uint32_t from, to, to_port; /* nodes, and the number of the port at the other end */
    int64_t rate;               /* bit/s */
    instant delay;              /* propagation */
    uint64_t limit;             /* bytes that may wait; a frame beyond is dropped */
    uint64_t mark_from;         /* bytes from which on packets are marked; 0: never */
    instant jitter;             /* a host that was idle begins up to so much later */
    uint64_t loss, duplication; /* of 2^64 */
    uint64_t random;            /* state */
    bool is_down;

    uint64_t waiting; /* bytes of frames whose transmission has not begun */
    instant free_at;
    struct frame *frames; /* a ring: on the wire, in transmission, waiting */
    uint32_t mask, head, begun, tail;
    struct port_counters counters;

    uint32_t *waiters; /* connections that wait for room, who has waited longest first */
    uint32_t waiters_count, waiters_room;
    uint64_t room_below; /* bytes */
};

void port_open(struct port *port, struct network *network);
void port_close(struct port *port);

/* Queues `packet`, or drops it. It belongs to the port from then on. */
void port_send(struct port *port, struct packet *packet, instant now);

/* Bytes that wait now. */
uint64_t port_waiting(struct port *port, instant now);

/* Frames that wait now, the one in transmission not among them. */
uint32_t port_depth(struct port *port, instant now);

/* Lets `connection` go on once no more than `bytes` wait. */
void port_call_when_below(struct port *port, uint32_t connection, uint64_t bytes, instant now);

#endif
