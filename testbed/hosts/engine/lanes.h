/* A member's flow in which each sum decides which packet is next. Lane l has the fragments l, l +
   count, ... of each chunk, and one packet in flight at a time. The protocol decides what the
   packet holds and processes its sum. Each lane uses two slots in turn, which is enough because all
   members receive a lane's sums in the same order. */
#ifndef LANES_H
#define LANES_H

#include "tree.h"

struct lane {
    uint64_t current; /* number of the packet to be summed next, modulo the count the lane's own */
    uint64_t reached; /* the lane's fragments below it are done */
    uint64_t turn;    /* number of its sending among the flow's */
    double sent_at;
    bool second; /* of its two slots */
    bool sent, resent;
};

struct lane_rules;

struct lanes {
    struct flow flow;
    const struct lane_rules *rules;
    uint64_t own; /* the member's bit */
    uint32_t origin;
    uint32_t slot, count, in_flight;
    struct lane *lanes;
    uint64_t lowest; /* all fragments below it are done */
    uint32_t *ready, ready_head, ready_tail; /* lanes to send in, in order: a ring of `count` */
    uint64_t turns, overtaken; /* sendings so far; one past the latest that was answered */
    double shortest;      /* round trip of a lane that was sent once */
    double newest;        /* latest time of sending among those answered, */
    double answered;      /* and among those that were sent twice, if its answer may be to that */
    bool first_answers;   /* to lanes that were sent once have come since the last pump */
    double silence, probe_at; /* the longest silence allowed, and when it will be over */
    double heard;             /* when the latest answer came, or the first in flight was sent */
    uint32_t probes;          /* fragments to retransmit then */
    bool touched;             /* answers have come since the last pump */
};

/* Where protocols on lanes differ. */
struct lane_rules {
    /* The next_slot of a lane's packet that is about to be sent or retransmitted. */
    uint32_t (*name)(struct lanes *all, uint32_t lane);
    /* Takes the sum of a lane's packet and sets what the lane has reached. Returns the number of
       the lane's next packet. If the sum makes no sense, changes nothing and returns the number of
       this packet. */
    uint64_t (*take)(struct lanes *all, uint32_t lane, const struct packet *sum);
};

int lanes_open(struct flow *flow, const struct role *role, const struct lane_rules *rules);
void lanes_close(struct flow *flow);
int lanes_push(struct flow *flow, enum operation operation, int32_t *values, uint64_t count);
void lanes_take(struct flow *flow, const void *packet, size_t size, double now);
void lanes_pump(struct flow *flow, double now);
double lanes_deadline(const struct flow *flow);
uint64_t lanes_done(const struct flow *flow);
void lanes_look(const struct flow *flow, struct flow_state *state);

#define ON_LANES                                                                                   \
    .bursts = true, .control = &none, .push = lanes_push, .tree_of = tree_of_packet,               \
    .take = lanes_take, .pump = lanes_pump, .deadline = lanes_deadline, .done = lanes_done,        \
    .look = lanes_look

/* The lane of a packet that leaves now, or NULL if its sum came after it was queued. */
static inline struct lane *lane_of(const struct lanes *all, const struct outgoing *packet)
{
    struct lane *lane = &all->lanes[packet->fragment % all->count];
    return lane->current == packet->fragment ? lane : NULL;
}

#endif
