/* A tree as one rank sees it, for every protocol. Nothing here uses a clock or a socket: the
   driver hands in packets and the time, and sends what is in the queues. */
#ifndef FLOW_H
#define FLOW_H

#include "chunks.h"
#include "congestion.h"
#include "queue.h"
#include "rtt.h"

/* A rank's part in a tree, as the caller gives it; aggregation.py has the same structure. */
struct role {
    uint16_t tree;
    uint8_t protocol; /* its number */
    uint8_t is_root;
    uint8_t serves; /* a root that sums and answers, and pushes nothing */
    uint8_t bit;    /* of a member */
    uint16_t rank, rank_before; /* on a ring */
    uint32_t origin;  /* of a member: the number that belongs to its bit, or 0 */
    uint32_t window;
    uint32_t message;     /* fragments per message, or 0 */
    uint32_t slots_count; /* if trees share slots: a member's window, or a root's spares; else 1 */
    uint32_t peers;       /* a member's parent, a root's children, or neighbours on a ring */
    const uint32_t *slots;
    const uint32_t *addresses; /* of peers, in network order */
    const uint64_t *ranks;     /* of a root's peers: sets of ranks, each of `words` */
    const uint32_t *workers;   /* of a root: addresses of the ranks, 0 for none; 64 * words */
    uint32_t words;            /* of a root: 64-bit words in a set of ranks */
    uint32_t origins;          /* of a root: 0, or numbers of bits, counted from 1; and the ranks */
    const uint64_t *behind;    /* behind each number and bit */
    uint64_t begins;           /* the number of the first fragment, on every host */
};

struct counters {
    uint64_t retransmitted, collisions, overflows, answered_again, ecn;
};

/* The start of every flow; a protocol's own fields follow. */
struct flow {
    const struct protocol *protocol;
    uint16_t tree;
    struct queue *queues;
    uint32_t queues_count;
    struct chunks chunks;
    uint64_t begins;
    struct rtt rtt;
    struct counters counters;
    uint8_t priority; /* of the chunk that is being pushed */
    uint64_t *float_sums; /* fragments whose values are float32 */
    size_t float_count, float_room;
};

/* A flow at one instant: how many fragments may be in flight, how many are, and the smoothed round
   trip in seconds, 0 before the first one. packet/core/host.h has the same structure. */
struct flow_state {
    uint32_t tree, window, in_flight;
    double round_trip;
};

/* A protocol's host side. */
struct protocol {
    size_t size; /* of its flow, in bytes */
    bool bursts; /* packets may leave back to back, as one long datagram, into a large send buffer;
                    otherwise the small buffer holds back what would only wait in the link's queue */
    const struct rules *rules; /* for protocols on the trees of tree.h */
    const struct control *control;
    int (*open)(struct flow *flow, const struct role *role);
    void (*close)(struct flow *flow); /* after `open`, even if that failed */
    int (*push)(struct flow *flow, enum operation operation, int32_t *values, uint64_t count);
    int (*tree_of)(const void *packet, size_t size); /* -1: not a packet of this protocol */
    void (*take)(struct flow *flow, const void *packet, size_t size, double now);
    void (*pump)(struct flow *flow, double now); /* after packets, a push or the deadline */
    double (*deadline)(const struct flow *flow);
    uint64_t (*done)(const struct flow *flow);   /* all fragments below it are done */
    void (*look)(const struct flow *flow, struct flow_state *state); /* window and in_flight */
    /* The values of a packet that leaves now, in wire order, possibly made in `stage`; NULL drops
       the packet. */
    const int32_t *(*values)(struct flow *flow, const struct outgoing *packet, int32_t *stage);
};

/* The protocols by number; generated from testbed/protocols. NULL: the defaults of protocols on
   trees. */
extern const struct protocol *const protocols[256];

static inline bool queues_are_empty(const struct flow *flow, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!queue_is_empty(&flow->queues[i]))
            return false;
    return true;
}

#endif
