/* A flow on an aggregation tree. Its fragments are numbered from 0 over the whole run. A window of
   them is in flight, each in a slot of its own. Fragment s follows fragment s - window in the same
   slot, independently of other slots. Its state is in places[s mod places_count], from well before
   it is complete until no rank can ask for it any more. */
#ifndef TREE_H
#define TREE_H

#include <endian.h>

#include "flow.h"
#include "ranks.h"
#include "window.h"

/* How many windows a fragment may be ahead of the lowest unfinished one. The limit is this host's
   memory, not the switches': it is how far others may proceed while one fragment is retransmitted
   repeatedly. */
enum { AHEAD = 7 };

struct place {
    double sent_at;
    uint64_t turn; /* number of its first sending among the flow's */
    double *floats; /* their sum, while members send floats because int32 was too narrow */
    uint32_t slot, next_slot;
    uint8_t flags; /* of the contributions, then of the result */
    bool sent, resent, done;
    bool kept;      /* came before its operation was pushed */
    bool as_floats; /* the root asked this member for floats */
};

struct tree {
    struct flow flow;
    const struct rules *rules;
    bool is_root, serves;
    uint32_t peers;
    uint64_t own; /* a member's bit */
    uint32_t origin;
    uint32_t *slots, slots_count, next_spare;

    /* At a root. Sets of ranks have `words` words (ranks.h). */
    uint32_t words, origins;
    uint64_t *everyone, *of_peers, *behind;
    uint64_t *counted; /* by place: ranks whose contributions or receipts have been counted */
    uint64_t *found;   /* the ranks in the packet that is being taken */
    int *queue_of;     /* by rank, if the root answers single workers; or -1 */

    struct place *places;
    int32_t (*rows)[VALUES]; /* a root's sums, and its results in wire order; early values */
    uint32_t places_count;
    uint64_t lowest; /* all fragments below it are done */

    struct window window;
    struct congestion congestion;
};

/* Where protocols on trees differ. A function that is NULL does nothing. */
struct rules {
    uint8_t resend_flag; /* of retransmitted fragments */
    uint8_t renamed;     /* flags of contributions for which the root names another slot, */
    uint8_t contended;   /* unless one has this flag, which the sum returns to its members */
    bool answers_one;    /* a marked repetition is answered to its sender alone, not to its whole
                            subtree; an unmarked one is not answered */
    uint32_t (*slot)(const struct tree *tree, uint64_t sequence);
    /* At a member: called for an answer to its fragment, and for a request for something else. */
    void (*answered)(struct tree *tree, const struct header *header, uint64_t sequence);
    void (*asked)(struct tree *tree, const struct header *header, uint64_t sequence, double now);
    /* At a root: choose the slot for the fragment after one that collided; recompute a sum that was
       too wide for int32; take contributions to that sum. */
    uint32_t (*rehash)(struct tree *tree, uint32_t slot);
    void (*too_wide)(struct tree *tree, uint64_t sequence);
    void (*take_again)(struct tree *tree, const struct packet *packet, uint64_t sequence,
                       const uint64_t *ranks);
};

/* Each tree has a pool of two windows of slots, used in turn. */
extern const struct rules pool;

/* The protocol functions shared by all protocols on trees. */
int tree_open(struct flow *flow, const struct role *role);
void tree_close(struct flow *flow);
int tree_push(struct flow *flow, enum operation operation, int32_t *values, uint64_t count);
int tree_of_packet(const void *packet, size_t size);
void tree_take(struct flow *flow, const void *packet, size_t size, double now);
void tree_pump(struct flow *flow, double now);
double tree_deadline(const struct flow *flow);
uint64_t tree_done(const struct flow *flow);
void tree_look(const struct flow *flow, struct flow_state *state);
const int32_t *tree_values(struct flow *flow, const struct outgoing *packet, int32_t *stage);

#define ON_TREES                                                                                   \
    .size = sizeof(struct tree), .bursts = true, .open = tree_open, .close = tree_close,           \
    .push = tree_push, .tree_of = tree_of_packet, .take = tree_take, .pump = tree_pump,            \
    .deadline = tree_deadline, .done = tree_done, .look = tree_look, .values = tree_values

/* member.c and root.c: process a packet, and what waited for a push. */
void member_take(struct tree *tree, const struct packet *packet, double now);
void member_pushed(struct tree *tree, const struct chunk *chunk);
void root_take(struct tree *tree, const struct packet *packet, double now);
void root_pushed(struct tree *tree, const struct chunk *chunk);

/* For the protocols' own functions. */
void root_answer(struct tree *tree, uint8_t kind, uint64_t sequence);
void root_return_sum(struct tree *tree, uint64_t sequence);
void root_take_late(struct tree *tree, const struct header *from, uint64_t sequence,
                    const uint64_t *ranks);

static inline struct place *place_of(const struct tree *tree, uint64_t sequence)
{
    return &tree->places[sequence % tree->places_count];
}

static inline uint64_t *counted_of(const struct tree *tree, uint64_t sequence)
{
    return &tree->counted[sequence % tree->places_count * tree->words];
}

static inline int32_t *row_of(const struct tree *tree, uint64_t sequence)
{
    return tree->rows[sequence % tree->places_count];
}

/* Number of finished fragments that keep their places: a server may be asked for a result again. */
static inline uint32_t kept_back(const struct tree *tree)
{
    return tree->serves ? tree->window.size : 0;
}

/* Whether a fragment has a place now. */
static inline bool in_reach(const struct tree *tree, uint64_t sequence)
{
    return sequence >= tree->flow.begins && sequence + kept_back(tree) >= tree->lowest &&
           sequence < tree->lowest + tree->places_count - kept_back(tree);
}

/* The full number of a fragment whose low 32 bits a packet has: the one closest to the lowest
   unfinished fragment. */
static inline uint64_t whole_sequence(const struct tree *tree, uint32_t sequence)
{
    return tree->lowest + (uint64_t)(int64_t)(int32_t)(sequence - (uint32_t)tree->lowest);
}

static inline bool put_header(struct queue *queue, const struct header *header)
{
    bool with_values = header->kind == KIND_DATA || header->kind == KIND_RESULT;
    return queue_put(queue, be32toh(header->sequence), header, sizeof *header, with_values);
}

/* What an upward packet has in next_slot: the slot, or on a tree of many workers the node whose
   children its bits stand for. */
static inline uint32_t origin_or(const struct tree *tree, uint32_t slot)
{
    return htobe32(tree->origin ? tree->origin : slot);
}

void place_clear(struct tree *tree, uint64_t sequence);
void tree_finish(struct tree *tree, uint64_t sequence);
void tree_advance(struct tree *tree);

#endif
