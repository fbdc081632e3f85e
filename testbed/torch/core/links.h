/* Links between the nodes of a fabric in memory that processes share. A link carries frames in one
   direction; it has one sender and one receiver. Nodes of one thread share a bell, at which it
   sleeps. */
#ifndef LINKS_H
#define LINKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HEADERS = 42,   /* Ethernet, IPv4 and UDP */
    FRAME_AT = 22,  /* in a slot, after the frame's size: what follows the headers is aligned */
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

/* A link to the node at `address`. `sent` runs ahead of the link's until frames are published. */
struct way {
    uint32_t address; /* in network order */
    struct link *link;
    struct bell *bell;
    uint32_t sent;
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
};

/* Bytes of a link that holds so many frames. */
size_t link_bytes(uint32_t frames, uint32_t full);

struct node *node_open(struct bell *bell, uint32_t frames, uint32_t full);
void node_close(struct node *node);
int node_hear(struct node *node, struct link *from); /* 0, or -1 without memory */
int node_reach(struct node *node, uint32_t address, struct link *link, struct bell *bell,
               const uint8_t *with_values, const uint8_t *without);

/* Frames that were put become visible to their receivers, in the order of the ways. */
void node_publish(struct node *node);

void bell_ring(struct bell *bell);

/* Sleeps until the bell rings, or for `seconds`, unless something has arrived at a node. */
void bell_wait(struct bell *bell, struct node *const *nodes, uint32_t count, double seconds);

static inline size_t slot_bytes(uint32_t full)
{
    return ((size_t)FRAME_AT + full + 63) & ~(size_t)63;
}

static inline uint8_t *slot_of(const struct node *node, struct link *link, uint32_t number)
{
    return link->slots + (number & (node->frames - 1)) * slot_bytes(node->full);
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

/* The frames that wait on a link. */
static inline uint32_t waiting(struct link *link)
{
    return atomic_load_explicit(&link->sent, memory_order_acquire) -
           atomic_load_explicit(&link->taken, memory_order_relaxed);
}

#endif
