#include "look.h"

#include <errno.h>
#include <stdlib.h>

struct look {
    struct simulation *simulation;
    struct network *network;
    receive **receive;      /* the nodes' own, where this one stands before it; else NULL */
    struct capture **captures;
    uint32_t captures_count;
    uint32_t *first;        /* by node: the index of its first port */
    struct spells *ports, *switches; /* NULL if not recorded */
    uint64_t list_from, list_until;  /* numbers of packets; 0 for no list */
    struct listed *listed;
    uint32_t listed_count;
};

static void *zeroed(size_t count, size_t each)
{
    void *array = calloc(count ? count : 1, each);
    if (!array)
        abort();
    return array;
}

static struct spells *spells_of(const struct look *look, const struct port *port)
{
    const struct node *there = &look->network->nodes[port->to];
    return &look->ports[look->first[port->from] + there->ports[port->to_port]->to_port];
}

/* A shaper's burst counts from a time before `now`, but leaves at `now`. */
static instant not_before(instant at, instant now)
{
    return at > now ? at : now;
}

static void left(struct network *network, const struct port *port, const struct packet *packet,
                 instant starts)
{
    struct look *look = network->watcher;
    instant now = network->clock.now;
    starts = not_before(starts, now);
    for (uint32_t i = 0; i < look->captures_count; i++)
        if (capture_port(look->captures[i]) == port)
            capture_left(look->captures[i], packet, starts, now);
    uint64_t number = network->digests.packets;
    if (number >= look->list_from && number <= look->list_until)
        look->listed[look->listed_count++] = (struct listed){
            number, starts, port->from, port->to, packet->bytes, packet->key.source,
            packet->key.to, packet->key.source_port, packet->key.to_port, packet->key.protocol};
    if (look->ports) {
        instant ends = not_before(port->free_at, now);
        struct spell *spell = spells_add(spells_of(look, port), starts, ends);
        spell->packets++;
        spell->bytes += packet->bytes;
    }
}

static void dropped(struct network *network, const struct port *port, const struct packet *packet,
                    instant now)
{
    (void)packet;
    struct look *look = network->watcher;
    spells_add(spells_of(look, port), now, now)->dropped++;
}

static void arrived(struct node *node, uint32_t number, struct packet *packet, instant now)
{
    struct look *look = node->network->watcher;
    bool is_link = number < node->ports_count; /* else a switch's adder, or a host's processor */
    for (uint32_t i = 0; is_link && i < look->captures_count; i++)
        if (capture_port(look->captures[i]) == node->ports[number])
            capture_arrived(look->captures[i], packet, now);
    if (is_link && look->switches && node->kind == SWITCH && packet->key.protocol == PROTOCOL_UDP) {
        struct spell *spell = spells_add(&look->switches[node->number], now, now);
        spell->packets++;
        spell->bytes += packet->bytes;
    }
    look->receive[node->number](node, number, packet, now);
}

static void stand_before(struct look *look, struct node *node)
{
    if (look->receive[node->number])
        return;
    look->receive[node->number] = node->receive;
    node->receive = arrived;
}

struct look *look_open(struct simulation *simulation)
{
    struct look *look = zeroed(1, sizeof *look);
    struct network *network = simulation_network(simulation);
    look->simulation = simulation;
    look->network = network;
    look->receive = zeroed(network->nodes_count, sizeof *look->receive);
    look->first = zeroed(network->nodes_count + 1, sizeof *look->first);
    for (uint32_t i = 0; i < network->nodes_count; i++)
        look->first[i + 1] = look->first[i] + network->nodes[i].ports_count;
    network->watcher = look;
    return look;
}

int look_close(struct look *look)
{
    struct network *network = look->network;
    int failed = 0;
    network->watch = NULL;
    network->drop = NULL;
    network->watcher = NULL;
    for (uint32_t i = 0; i < look->captures_count; i++) {
        int own = capture_close(look->captures[i], network->clock.now);
        failed = failed ? failed : own;
    }
    for (uint32_t i = 0; i < network->nodes_count; i++) {
        if (look->receive[i])
            network->nodes[i].receive = look->receive[i];
        if (look->switches)
            spells_close(&look->switches[i]);
    }
    for (uint32_t i = 0; look->ports && i < look->first[network->nodes_count]; i++)
        spells_close(&look->ports[i]);
    free(look->listed);
    free(look->ports);
    free(look->switches);
    free(look->captures);
    free(look->receive);
    free(look->first);
    free(look);
    return failed;
}

int look_capture(struct look *look, uint32_t node, uint32_t port, const char *path)
{
    struct network *network = look->network;
    struct capture *capture = capture_open(network->nodes[node].ports[port], path);
    if (!capture)
        return errno;
    struct capture **captures =
        realloc(look->captures, (look->captures_count + 1) * sizeof(struct capture *));
    if (!captures)
        abort();
    look->captures = captures;
    captures[look->captures_count++] = capture;
    network->watch = left;
    stand_before(look, &network->nodes[node]);
    return 0;
}

void look_record(struct look *look, uint64_t pause)
{
    struct network *network = look->network;
    look->ports = zeroed(look->first[network->nodes_count], sizeof *look->ports);
    look->switches = zeroed(network->nodes_count, sizeof *look->switches);
    for (uint32_t i = 0; i < network->nodes_count; i++) {
        struct node *node = &network->nodes[i];
        for (uint32_t p = 0; p < node->ports_count; p++) {
            instant longest = (instant)pause * 8 * SECOND / node->ports[p]->rate;
            look->ports[look->first[i] + p].pause = longest;
            if (longest > look->switches[i].pause)
                look->switches[i].pause = longest;
        }
        if (node->kind == SWITCH)
            stand_before(look, node);
    }
    network->watch = left;
    network->drop = dropped;
}

void look_list(struct look *look, uint64_t first, uint64_t last)
{
    look->listed = zeroed(last - first + 1, sizeof *look->listed);
    look->list_from = first;
    look->list_until = last;
    look->network->watch = left;
}

uint32_t look_listed(const struct look *look, const struct listed **listed)
{
    *listed = look->listed;
    return look->listed_count;
}

uint32_t look_port_spells(const struct look *look, uint32_t node, uint32_t port,
                          const struct spell **spells)
{
    const struct spells *found = &look->ports[look->first[node] + port];
    *spells = found->all;
    return found->count;
}

uint32_t look_switch_spells(const struct look *look, uint32_t node, const struct spell **spells)
{
    *spells = look->switches[node].all;
    return look->switches[node].count;
}

bool look_is_idle(const struct look *look)
{
    return clock_next(&look->network->clock) == NEVER;
}

void look_queues(struct look *look, uint64_t *waiting)
{
    struct network *network = look->network;
    for (uint32_t i = 0; i < network->nodes_count; i++)
        for (uint32_t p = 0; p < network->nodes[i].ports_count; p++)
            *waiting++ = port_waiting(network->nodes[i].ports[p], network->clock.now);
}

bool look_connection(const struct look *look, uint32_t connection, struct connection_state *state)
{
    const struct tcp *tcp = simulation_tcp(look->simulation);
    const struct flow_key *key = tcp_key(tcp, connection);
    if (!key)
        return false;
    *state = (struct connection_state){*key, tcp_look(tcp, connection)};
    return true;
}

bool look_engine(const struct look *look, uint32_t engine, uint32_t flow,
                 struct engine_state *state)
{
    const struct host *host = simulation_host(look->simulation, engine);
    if (!host || !host->calls->look(host->engine, (int)flow, &state->flow))
        return false;
    state->flow.round_trip /= host->pace;
    state->node = host->node->number;
    return true;
}
