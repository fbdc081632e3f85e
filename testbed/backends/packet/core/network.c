#include "network.h"

#include <stdlib.h>
#include <string.h>

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t random_next(uint64_t *state)
{
    return mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

struct network *network_open(uint32_t nodes, uint32_t data_room)
{
    struct network *network = calloc(1, sizeof *network);
    uint32_t size = 16;
    while (size < 2 * nodes)
        size *= 2;
    if (!network || !(network->nodes = calloc(nodes, sizeof *network->nodes)) ||
        !(network->by_address = calloc(size, sizeof *network->by_address)))
        abort();
    network->nodes_count = nodes;
    network->address_mask = size - 1;
    network->data_room = data_room;
    network->digests.every = FIRST_EVERY;
    for (uint32_t i = 0; i < nodes; i++)
        network->nodes[i] = (struct node){.network = network, .number = i};
    return network;
}

void network_close(struct network *network)
{
    for (uint32_t i = 0; i < network->nodes_count; i++) {
        struct node *node = &network->nodes[i];
        for (uint32_t p = 0; p < node->ports_count; p++) {
            port_close(node->ports[p]);
            free(node->ports[p]);
        }
        free(node->ports);
        for (uint32_t h = 0; h < node->hops_count; h++)
            free(node->hops[h]);
        free(node->hops);
        free(node->hops_to);
        free(node->routes);
        if (node->processor)
            port_close(node->processor);
        free(node->processor);
    }
    arena_close(&network->arena);
    clock_close(&network->clock);
    free(network->by_address);
    free(network->nodes);
    free(network);
}

struct packet *packet_new(struct network *network)
{
    struct packet *packet = network->free_packets;
    if (!packet) {
        network->packets_count++;
        return arena_take(&network->arena, sizeof(struct packet) + DATA_PADDING + network->data_room);
    }
    network->free_packets = packet->next;
    return packet;
}

struct packet *packet_copy(struct network *network, const struct packet *packet)
{
    struct packet *copy = packet_new(network);
    *copy = *packet;
    if (packet->key.protocol == PROTOCOL_UDP) {
        copy->data = packet_data(copy);
        memcpy(copy->data, packet->data, packet->length);
    }
    return copy;
}

void packet_free(struct network *network, struct packet *packet)
{
    packet->next = network->free_packets;
    network->free_packets = packet;
}

uint64_t network_used(const struct network *network)
{
    uint64_t used = network->packets_count;
    for (const struct packet *packet = network->free_packets; packet; packet = packet->next)
        used--;
    return used;
}

static uint32_t spread(uint32_t address)
{
    return (address * UINT32_C(2654435761)) >> 8;
}

void network_name(struct network *network, struct node *node)
{
    uint32_t i = spread(node->address) & network->address_mask;
    while (network->by_address[i].place)
        i = (i + 1) & network->address_mask;
    network->by_address[i] = (struct name){node->address, node->number + 1};
}

void network_hops(struct node *node, uint32_t to, uint32_t count, const uint32_t *ports)
{
    if (!node->hops_to && !(node->hops_to = calloc(node->network->nodes_count, sizeof(uint16_t))))
        abort();
    /* Most destinations have the hops of others, so that all fit into the cache. */
    for (uint32_t h = 0; h < node->hops_count; h++)
        if (node->hops[h][0] == count && !memcmp(node->hops[h] + 1, ports, count * sizeof *ports)) {
            node->hops_to[to] = (uint16_t)(h + 1);
            return;
        }
    uint32_t *added = malloc((count + 1) * sizeof *added);
    node->hops = realloc(node->hops, (node->hops_count + 1) * sizeof *node->hops);
    if (!added || !node->hops || node->hops_count == UINT16_MAX)
        abort();
    added[0] = count;
    memcpy(added + 1, ports, count * sizeof *ports);
    node->hops[node->hops_count++] = added;
    node->hops_to[to] = (uint16_t)node->hops_count;
}

/* The ports on shortest paths to an address; NULL if there are none. */
static const uint32_t *hops_to(const struct node *node, uint32_t address)
{
    const struct network *network = node->network;
    uint32_t i = spread(address) & network->address_mask;
    while (network->by_address[i].place && network->by_address[i].address != address)
        i = (i + 1) & network->address_mask;
    const uint32_t place = network->by_address[i].place;
    const uint32_t which = place && node->hops_to ? node->hops_to[place - 1] : 0;
    return which ? node->hops[which - 1] : NULL;
}

/* Hashes like a router's ECMP: addresses, ports and protocol, with a salt for each router. */
static uint64_t hash(const struct node *node, const struct flow_key *key)
{
    uint64_t ends = mix(node->salt ^ ((uint64_t)key->source << 32 | key->to));
    return mix(ends ^ (uint64_t)key->source_port << 24 ^ (uint64_t)key->to_port << 8 ^
               key->protocol);
}

static struct route *place_of(const struct node *node, uint32_t source, uint32_t to)
{
    uint64_t i = mix((uint64_t)source << 32 | to);
    struct route *route;
    do
        route = &node->routes[i++ & node->routes_mask];
    while (route->source && (route->source != source || route->to != to));
    return route;
}

void network_route(struct node *node, uint32_t source, uint32_t to, uint32_t port)
{
    if (!node->routes || 2 * node->routes_count > node->routes_mask) {
        struct node larger = *node;
        larger.routes_mask = node->routes ? 2 * node->routes_mask + 1 : 15;
        larger.routes = calloc((size_t)larger.routes_mask + 1, sizeof *larger.routes);
        if (!larger.routes)
            abort();
        for (uint32_t i = 0; node->routes && i <= node->routes_mask; i++)
            if (node->routes[i].source)
                *place_of(&larger, node->routes[i].source, node->routes[i].to) = node->routes[i];
        free(node->routes);
        node->routes = larger.routes;
        node->routes_mask = larger.routes_mask;
    }
    struct route *route = place_of(node, source, to);
    if (route->source)
        return;
    *route = (struct route){source, to, port};
    node->routes_count++;
}

void network_forward(struct node *node, struct packet *packet, instant now)
{
    const uint32_t *hops = hops_to(node, packet->key.to);
    if (!hops) {
        packet_free(node->network, packet);
        return;
    }
    if (node->routes) {
        const struct route *route = place_of(node, packet->key.source, packet->key.to);
        if (route->source) {
            port_send(node->ports[route->port], packet, now);
            return;
        }
    }
    uint32_t count = hops[0];
    uint32_t chosen = count == 1 ? 0 : (uint32_t)(hash(node, &packet->key) % count);
    port_send(node->ports[hops[1 + chosen]], packet, now);
}

void network_charge(struct node *host, instant packet_cost, instant message_cost)
{
    struct port *processor = calloc(1, sizeof *processor);
    if (!processor)
        abort();
    *processor = (struct port){
        .from = host->number,
        .to = host->number,
        .to_port = FROM_PROCESSOR,
        .rate = INT64_MAX,
        .each = packet_cost,
        .limit = UINT64_MAX,
    };
    port_open(processor, host->network);
    host->processor = processor;
    host->message_cost = message_cost;
}

/* Keeps the processor busy for another `cost`. Returns the time when it is done. */
static instant occupy(struct port *processor, instant cost, instant now)
{
    instant begins = processor->free_at > now ? processor->free_at : now;
    return processor->free_at = begins + cost;
}

instant network_send(struct node *host, struct packet *packet, instant now)
{
    if (host->processor)
        now = occupy(host->processor, host->processor->each, now);
    return port_send(host->ports[0], packet, now);
}

instant network_handle(struct node *host, instant now)
{
    return host->processor ? occupy(host->processor, host->message_cost, now) : now;
}
