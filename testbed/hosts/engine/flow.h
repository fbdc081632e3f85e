/* A tree as one rank sees it. Its fragments are numbered from 0 over the whole run; a window of them
   is in flight, each in a slot of its own, and fragment s follows s - window in its slot, whatever
   other slots wait for. Here it lives in place s mod places_count, from long before it is complete
   until nobody can ask for it any more. */
#ifndef FLOW_H
#define FLOW_H

#include "outbox.h"

enum operation { ALL_REDUCE, REDUCE, MULTICAST };

/* Windows by which a fragment may be ahead of the lowest that is not done. Switches do not bound it,
   only the memory here: it is how long others go on while one is mended again and again. */
enum { AHEAD = 7 };

/* What is told from outside about a flow; aggregation.py has the same. */
struct role {
    uint16_t tree;
    uint8_t style;
    uint8_t is_root;
    uint8_t serves; /* a root that answers whatever comes, and pushes nothing */
    uint8_t rank;   /* of a member */
    uint32_t window;
    uint32_t slots_count; /* ATP: a member's, a window of them, or a root's spare ones; else 1 */
    uint32_t peers;       /* a member's parent, or a root's children */
    const uint32_t *slots;
    const uint32_t *addresses; /* of peers, in network order */
    const uint64_t *ranks;     /* of peers, as masks */
    const uint32_t *workers;   /* ATP's root: addresses of the ranks, 0 for none; MAX_WORKERS */
};

struct counters {
    uint64_t retransmitted, collisions, overflows, answered_again, ecn;
};

/* A piece of memory that an operation works on: fragments first .. end - 1. */
struct chunk {
    uint64_t first, end;
    enum operation operation;
    int32_t *values;
};

struct place {
    uint64_t counted; /* ranks whose contributions or receipts are in */
    double sent_at;
    uint64_t turn; /* of its first sending, among all of the flow's */
    double *floats; /* their sum, while members send floats because int32 was too narrow */
    uint32_t slot, next_slot;
    uint8_t flags; /* of the contributions, then of the result */
    bool sent, resent, done;
    bool kept;      /* came before its operation was pushed */
    bool as_floats; /* a member was asked for floats */
};

struct flow {
    uint16_t tree;
    enum style style;
    bool is_root, serves;
    uint32_t window, places_count;
    uint64_t own, everyone;
    uint32_t *slots, slots_count, next_spare;
    struct queue *queues; /* peers first, then one per worker where a root answers those */
    uint32_t peers, queues_count;
    int queue_of[MAX_WORKERS];

    struct chunk *chunks; /* a ring of a power of two; chunk i is in place i mod its size */
    uint64_t chunk_head, chunk_tail, chunk_finished, chunk_last;
    uint32_t chunk_mask;

    struct place *places;
    int32_t (*rows)[VALUES]; /* a root's sums, results in the order of the wire; early values */
    uint64_t pushed, lowest; /* below lowest all is done */
    uint64_t done_end;       /* one past the highest done */

    /* Of the sender. Times are seconds on the monotonic clock. */
    uint32_t outstanding;
    uint64_t next, sent_end;   /* the lowest that may be unsent; one past the highest sent */
    uint64_t turns, overtaken; /* taken so far; one past the latest of those done */
    double allowed;            /* in flight */
    double last_cut, look_again, timeout, round_trip, variation, newest;
    double heard;             /* when the latest answer came, or the first in flight was sent */
    double stalled;           /* what was sent before was in flight during a silence */
    double silence, probe_at; /* how long it may last, and when that is over */
    double answered;          /* when the latest one to be sent twice, and then done, was sent */
    uint64_t answered_end;    /* and where its chunk ends */
    bool touched, sampled, first_answers; /* in this batch of packets */
    bool settled; /* a batch was, and what it shows to be missing has not been sent */

    bool progress; /* some chunk was finished */
    uint64_t *float_sums; /* fragments whose values are float32 */
    size_t float_count, float_room;
    struct counters counters;
};

int flow_open(struct flow *flow, const struct role *role);
void flow_close(struct flow *flow);
int flow_push(struct flow *flow, enum operation operation, int32_t *values, uint64_t fragments);
void flow_take(struct flow *flow, const struct packet *packet, double now);
values_of flow_values;

/* member.c and root.c: what a packet does, and what waits for a push. */
void member_take(struct flow *flow, const struct packet *packet, double now);
void member_pushed(struct flow *flow, const struct chunk *chunk);
void root_take(struct flow *flow, const struct packet *packet, double now);
void root_pushed(struct flow *flow, const struct chunk *chunk);

/* sender.c: the window. */
void sender_open(struct flow *flow);
void sender_pump(struct flow *flow, double now);
void sender_done(struct flow *flow, uint64_t sequence, double now);
void sender_settle(struct flow *flow, double now); /* after a batch of packets */
void sender_slow_down(struct flow *flow, double now);
bool sender_send(struct flow *flow, uint64_t sequence, uint8_t flags, double now);

static inline struct place *place_of(const struct flow *flow, uint64_t sequence)
{
    return &flow->places[sequence % flow->places_count];
}

static inline int32_t *row_of(const struct flow *flow, uint64_t sequence)
{
    return flow->rows[sequence % flow->places_count];
}

static inline int32_t *memory_of(const struct chunk *chunk, uint64_t sequence)
{
    return chunk->values + (sequence - chunk->first) * VALUES;
}

static inline uint32_t slot_of(const struct flow *flow, uint64_t sequence)
{
    if (flow->style == STYLE_ATP)
        return flow->is_root ? place_of(flow, sequence)->slot
                             : flow->slots[sequence % flow->window];
    return flow->slots[0] + (uint32_t)(sequence % (2 * flow->window));
}

/* How many finished fragments keep their places: a server's results may be asked for again. */
static inline uint32_t kept_back(const struct flow *flow)
{
    return flow->serves ? flow->window : 0;
}

/* Whether a fragment has a place now. */
static inline bool in_reach(const struct flow *flow, uint64_t sequence)
{
    return sequence + kept_back(flow) >= flow->lowest &&
           sequence < flow->lowest + flow->places_count - kept_back(flow);
}

const struct chunk *chunk_of(struct flow *flow, uint64_t sequence); /* NULL: none, or forgotten */
void flow_finish(struct flow *flow, uint64_t sequence);
void flow_advance(struct flow *flow);

#endif
