/* The fabric: nodes, their ports, and where packets go. */
#ifndef NETWORK_H
#define NETWORK_H

#include "clock.h"
#include "packet.h"
#include "port.h"

enum node_kind { HOST, ROUTER, SWITCH };

struct node;
typedef void receive(struct node *node, uint32_t port, struct packet *packet, instant now);

struct node {
    struct network *network;
    enum node_kind kind;
    uint32_t number, address;
    uint64_t salt;            /* of a router's hash */
    struct port **ports;
    uint32_t ports_count;
    uint32_t **ways;          /* by destination node: count, then ports of equally short ways */
    receive *receive;
    void *owner;              /* what `receive` needs */
};

struct network {
    struct clock clock;
    struct node *nodes;
    uint32_t nodes_count;
    struct node **by_address; /* open addressing, a power of two */
    uint32_t address_mask;
    struct packet *free_packets;
    uint32_t data_room;       /* bytes of the longest packet that is carried as bytes */
    uint32_t values_from;     /* a longer one carries values, */
    uint32_t uncarried;       /* and counts as so many bytes more */
    void **blocks;
    uint32_t blocks_count;
    uint64_t hops;            /* packets that went over a link */
    void (*watch)(struct network *network, const struct port *port, const struct packet *packet,
                  instant now); /* sees each packet that leaves; NULL for nobody */
    void *watcher;
    void (*drop)(struct network *network, const struct port *port, const struct packet *packet,
                 instant now);
    void (*has_room)(struct network *network, uint32_t connection, instant now);
    void *transport;
};

struct network *network_open(uint32_t nodes, uint32_t data_room);
void network_close(struct network *network);

struct packet *packet_new(struct network *network);
struct packet *packet_copy(struct network *network, const struct packet *packet);
void packet_free(struct network *network, struct packet *packet);

/* Makes the node known by its address. */
void network_name(struct network *network, struct node *node);

struct node *network_find(const struct network *network, uint32_t address);

/* Bytes on a link of a packet of which `length` are carried. */
static inline uint32_t counted(const struct network *network, uint32_t length)
{
    return length + (length > network->values_from ? network->uncarried : 0);
}

/* Sends a packet on from `node` by one of the shortest ways to its destination. */
void network_forward(struct node *node, struct packet *packet, instant now);

/* The next of a stream of 64 random bits. */
uint64_t random_next(uint64_t *state);

#endif
