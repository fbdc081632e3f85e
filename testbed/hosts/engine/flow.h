/* A tree as one rank sees it, whatever its protocol. Nothing here knows a clock or a socket: who
   drives it says what has arrived and what time it is, and sends what lies in the queues. */
#ifndef FLOW_H
#define FLOW_H

#include "chunks.h"
#include "congestion.h"
#include "queue.h"
#include "rtt.h"

/* What is told from outside about a flow; aggregation.py has the same. */
struct role {
    uint16_t tree;
    uint8_t protocol; /* its number */
    uint8_t is_root;
    uint8_t serves; /* a root that answers whatever comes, and pushes nothing */
    uint8_t rank;   /* of a member */
    uint32_t window;
    uint32_t message;     /* fragments in one, or 0 */
    uint32_t slots_count; /* where trees share slots: a member's window of them, or a root's spare
                             ones; else 1 */
    uint32_t peers;       /* a member's parent, a root's children, or neighbours on a ring */
    const uint32_t *slots;
    const uint32_t *addresses; /* of peers, in network order */
    const uint64_t *ranks;     /* of peers, as masks */
    const uint32_t *workers;   /* of a root: addresses of the ranks, 0 for none; MAX_WORKERS */
};

struct counters {
    uint64_t retransmitted, collisions, overflows, answered_again, ecn;
};

/* What every flow has; a protocol's own follows. */
struct flow {
    const struct protocol *protocol;
    uint16_t tree;
    struct queue *queues;
    uint32_t queues_count;
    struct chunks chunks;
    struct rtt rtt;
    struct counters counters;
    uint64_t *float_sums; /* fragments whose values are float32 */
    size_t float_count, float_room;
};

/* What a protocol does at a host. */
struct protocol {
    size_t size; /* of its flow */
    bool bursts; /* packets may leave back to back, as one long datagram */
    const struct rules *rules; /* of those on trees.h's trees */
    const struct control *control;
    int (*open)(struct flow *flow, const struct role *role);
    void (*close)(struct flow *flow); /* after `open`, even if that failed */
    int (*push)(struct flow *flow, enum operation operation, int32_t *values, uint64_t fragments);
    int (*tree_of)(const void *packet, size_t size); /* -1: it is none of this protocol's */
    void (*take)(struct flow *flow, const void *packet, size_t size, double now);
    void (*pump)(struct flow *flow, double now); /* after packets, a push or the deadline */
    double (*deadline)(const struct flow *flow);
    uint64_t (*done)(const struct flow *flow);   /* below it all fragments are */
    /* The values of a packet that leaves now, in the order of the wire, possibly made in `stage`;
       NULL drops it. */
    const int32_t *(*values)(struct flow *flow, const struct outgoing *packet, int32_t *stage);
};

/* The protocols by their numbers; made from testbed/protocols. NULL: as those on trees are unless
   they say otherwise. */
extern const struct protocol *const protocols[256];

static inline bool queues_are_empty(const struct flow *flow, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!queue_is_empty(&flow->queues[i]))
            return false;
    return true;
}

#endif
