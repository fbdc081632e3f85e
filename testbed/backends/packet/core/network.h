/* The fabric: nodes, their ports, and next hops. */
#ifndef NETWORK_H
#define NETWORK_H

#include "arena.h"
#include "clock.h"
#include "digests.h"
#include "packet.h"
#include "port.h"

enum node_kind { HOST, ROUTER, SWITCH };

struct node;

/* Overrides the next hop of packets from one host to another. */
struct route {
    uint32_t source, to; /* addresses; 0 in an empty place */
    uint32_t port;
};

typedef void receive(struct node *node, uint32_t port, struct packet *packet, instant now);

struct node {
    struct network *network;
    enum node_kind kind;
    uint32_t number, address;
    uint64_t salt;            /* of a router's hash */
    struct port **ports;
    uint32_t ports_count;
    uint16_t *hops_to;        /* by destination node: which of `hops`, from 1; 0 for none */
    uint32_t **hops;          /* different ones only: count, then ports on shortest paths */
    uint32_t hops_count;
    struct route *routes;     /* tried first; open addressing, a power of two, NULL without any */
    uint32_t routes_mask, routes_count;
    receive *receive;
    void *owner;              /* used by `receive` */
    struct port *processor;   /* of a host: packets and messages take it one after another */
    instant message_cost;
};

struct name {
    uint32_t address, place; /* of the node, plus 1; 0 in an empty place */
};

struct network {
    struct clock clock;
    struct arena arena;       /* of what lives as long as the network */
    struct node *nodes;
    uint32_t nodes_count;
    struct name *by_address;  /* open addressing, a power of two */
    uint32_t address_mask;
    struct packet *free_packets;
    uint64_t packets_count;   /* free ones among them */
    uint32_t data_room;       /* bytes of the longest UDP packet */
    uint32_t values_from;     /* a longer packet carries values, */
    uint32_t uncarried;       /* and counts as so many bytes more */
    struct digests digests;   /* of packets put on links */
    void (*watch)(struct network *network, const struct port *port, const struct packet *packet,
                  instant now); /* sees each packet that leaves; may be NULL */
    void *watcher;
    void (*drop)(struct network *network, const struct port *port, const struct packet *packet,
                 instant now);
};

struct network *network_open(uint32_t nodes, uint32_t data_room);
void network_close(struct network *network);

struct packet *packet_new(struct network *network);
struct packet *packet_copy(struct network *network, const struct packet *packet);
void packet_free(struct network *network, struct packet *packet);

/* Packets that are not free. */
uint64_t network_used(const struct network *network);

/* Adds the node to the table of addresses. */
void network_name(struct network *network, struct node *node);

/* The bytes on a link of a packet of which `length` bytes are carried. */
static inline uint32_t counted(const struct network *network, uint32_t length)
{
    return length + (length > network->values_from ? network->uncarried : 0);
}

/* Sets the ports on shortest paths from `node` to another. */
void network_hops(struct node *node, uint32_t to, uint32_t count, const uint32_t *ports);

/* Sends packets from one address to another through a port of `node`. The first call for a pair of
   addresses counts. */
void network_route(struct node *node, uint32_t source, uint32_t to, uint32_t port);

/* Sends a packet on from `node` by one of the shortest paths. */
void network_forward(struct node *node, struct packet *packet, instant now);

/* The port by which packets from its own processor reach a host; it is not the number of a real
   port. */
#define FROM_PROCESSOR UINT32_MAX

/* Makes each packet and each message, sent or received, take this much of a host's time. */
void network_charge(struct node *host, instant packet_cost, instant message_cost);

/* Sends a packet by a host's link once the host's processor has done everything before it. See
   port_send. */
instant network_send(struct node *host, struct packet *packet, instant now);

/* The time when a host's processor will have handled a message that is there now. */
instant network_handle(struct node *host, instant now);

/* The next 64 bits of a random stream. */
uint64_t random_next(uint64_t *state);

#endif
