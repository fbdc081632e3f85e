/* Links between the nodes of a fabric in memory that processes share. A link carries frames in one
   direction; it has one sender and one receiver. The nodes of a thread share a bell, at which the
   thread sleeps. */
#ifndef LINKS_H
#define LINKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    HEADERS = 42,   /* Ethernet, IPv4 and UDP */
    ALL_HEADERS = HEADERS + 24, /* and INA's */
    ELSEWHERE_AT = 4, /* in a slot, after the frame's size: see packet_of */
    FRAME_AT = 22,  /* in a slot: what follows the headers is aligned */
    DESTINATION = 30, /* the IPv4 destination in a frame */
};

struct link {
    _Alignas(64) _Atomic uint32_t sent;  /* frames, by the sender */
    _Alignas(64) _Atomic uint32_t taken; /* by the receiver */
    _Alignas(64) uint8_t slots[];
};

struct bell {
    _Alignas(64) _Atomic uint32_t rung;
    _Atomic uint32_t sleeps;
};

/* A link to the node at `address`. `sent` is ahead of the link's own count until frames are
   published. */
struct way {
    uint32_t address; /* in network order */
    struct link *link;
    struct bell *bell;
    uint32_t sent;
    bool to_host; /* which does not write to frames */
    bool rings;   /* before its sender sleeps: few frames wait so far */
    uint8_t headers[2][HEADERS]; /* of a packet with values, and of one without */
};

struct node {
    struct bell *bell;
    uint32_t frames; /* slots of each link, a power of two */
    uint32_t full;   /* bytes of a frame with values */
    uint32_t arriving_count, ways_count;
    struct link **arriving;
    struct way *ways;
    uint64_t dropped; /* frames for which a link had no room, or that lead nowhere */

    /* Of a switch. Of each slot of each way, the frames of all ways that are read there: their
       numbers, if `shared` says so. */
    uint32_t *readers;
    bool *shared;
    /* The frame that it processes, and the first copy of its values that has left. */
    const uint8_t *frame, *frame_end, *values;
    struct way *first;
    uint32_t first_number;
};

/* The bytes of a link that holds `frames` frames. */
size_t link_bytes(uint32_t frames, uint32_t full);

struct node *node_open(struct bell *bell, uint32_t frames, uint32_t full);
void node_close(struct node *node);
int node_hear(struct node *node, struct link *from); /* 0, or -1 without memory */
int node_reach(struct node *node, uint32_t address, struct link *link, struct bell *bell,
               bool to_host, const uint8_t *with_values, const uint8_t *without);
int node_shares(struct node *node); /* after its ways; copies of a frame share their values */

/* Makes frames visible to their receivers, in the order of `ways`. A receiver that sleeps is woken
   when 1 / ENOUGH of its link is full, or by `node_ring`: waking it costs as much as several
   frames. */
enum { ENOUGH = 4 };
void node_publish(struct node *node);
void node_ring(struct node *node);

void bell_ring(struct bell *bell);

/* Rings for what the nodes have sent. Then sleeps until the bell rings, or for `seconds`, unless
   something has arrived at a node. */
void bell_wait(struct bell *bell, struct node *const *nodes, uint32_t count, double seconds);

static inline size_t slot_bytes(uint32_t full)
{
    return ((size_t)FRAME_AT + full + 63) & ~(size_t)63;
}

static inline uint8_t *slot_of(const struct node *node, struct link *link, uint32_t number)
{
    return link->slots + (number & (node->frames - 1)) * slot_bytes(node->full);
}

static inline void slot_fill(uint8_t *slot, uint32_t size, int64_t elsewhere)
{
    memcpy(slot, &size, sizeof size);
    memcpy(slot + ELSEWHERE_AT, &elsewhere, sizeof elsewhere);
}

/* What follows a frame's headers: in its slot, or in that of a copy for another host. */
static inline const uint8_t *packet_of(const uint8_t *slot)
{
    int64_t elsewhere;
    memcpy(&elsewhere, slot + ELSEWHERE_AT, sizeof elsewhere);
    return slot + elsewhere + FRAME_AT + HEADERS;
}

static inline bool has_room(const struct node *node, const struct way *way)
{
    return way->sent - atomic_load_explicit(&way->link->taken, memory_order_acquire) < node->frames;
}

static inline struct way *way_to(const struct node *node, uint32_t address)
{
    for (uint32_t i = 0; i < node->ways_count; i++)
        if (node->ways[i].address == address)
            return &node->ways[i];
    return NULL;
}

/* The number of frames that wait on a link. */
static inline uint32_t waiting(struct link *link)
{
    return atomic_load_explicit(&link->sent, memory_order_acquire) -
           atomic_load_explicit(&link->taken, memory_order_relaxed);
}

#endif
