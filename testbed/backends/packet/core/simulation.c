#include "simulation.h"

#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "ring.h"

/* The receivers of a host. */
struct station {
    struct tcp *tcp;
    struct host **engines;
    uint32_t count;
};

struct simulation {
    struct tcp_listener listener; /* first, for its address is the simulation's */
    struct network *network;
    struct tcp *tcp;
    struct station *stations; /* by node */
    struct host **engines;
    uint32_t engines_count;
    struct p4 **programs;
    uint32_t programs_count;
    struct ring happenings; /* not yet reported */
};

static void report(struct simulation *simulation, enum happening_kind kind, uint32_t number,
                   uint32_t count, instant now)
{
    struct happening *added =
        ring_add(&simulation->happenings, sizeof *added, &simulation->network->arena);
    *added = (struct happening){now, kind, number, count};
}

static void arrived(struct tcp_listener *listener, uint32_t connection, uint32_t messages,
                    instant now)
{
    report((struct simulation *)(void *)listener, STREAM, connection, messages, now);
}

static void broken(struct tcp_listener *listener, uint32_t connection, instant now)
{
    report((struct simulation *)(void *)listener, BROKEN, connection, 1, now);
}

static void progressed(void *context, uint32_t engine, instant now)
{
    report(context, ENGINE, engine, 1, now);
}

static void route(struct node *node, uint32_t port, struct packet *packet, instant now)
{
    (void)port;
    network_forward(node, packet, now);
}

static void take(struct node *node, uint32_t port, struct packet *packet, instant now)
{
    struct station *station = node->owner;
    if (packet->key.to != node->address) {
        packet_free(node->network, packet);
        return;
    }
    if (node->processor && port != FROM_PROCESSOR) {
        port_send(node->processor, packet, now);
        return;
    }
    if (packet->key.protocol == PROTOCOL_TCP) {
        tcp_take(station->tcp, packet, now);
        return;
    }
    for (uint32_t i = 0; i < station->count; i++)
        if (station->engines[i]->udp_port == packet->key.to_port) {
            host_take(station->engines[i], packet, now);
            return;
        }
    packet_free(node->network, packet);
}

struct simulation *simulation_open(uint32_t nodes, uint32_t data_room,
                                   const struct tcp_settings *settings)
{
    struct simulation *simulation = calloc(1, sizeof *simulation);
    if (!simulation)
        abort();
    simulation->network = network_open(nodes, data_room);
    simulation->listener = (struct tcp_listener){arrived, broken};
    simulation->tcp = tcp_open(simulation->network, settings, &simulation->listener);
    simulation->stations = calloc(nodes, sizeof *simulation->stations);
    if (!simulation->stations)
        abort();
    return simulation;
}

void simulation_close(struct simulation *simulation)
{
    for (uint32_t i = 0; i < simulation->engines_count; i++)
        free(simulation->engines[i]);
    for (uint32_t i = 0; i < simulation->programs_count; i++) {
        p4_close(simulation->programs[i]);
        free(simulation->programs[i]);
    }
    for (uint32_t i = 0; i < simulation->network->nodes_count; i++)
        free(simulation->stations[i].engines);
    free(simulation->stations);
    free(simulation->engines);
    free(simulation->programs);
    tcp_close(simulation->tcp);
    network_close(simulation->network);
    free(simulation);
}

void simulation_node(struct simulation *simulation, uint32_t number, int kind, uint32_t address,
                     uint64_t salt)
{
    struct network *network = simulation->network;
    struct node *node = &network->nodes[number];
    node->kind = (enum node_kind)kind;
    node->address = address;
    node->salt = salt;
    node->receive = kind == HOST ? take : route;
    simulation->stations[number].tcp = simulation->tcp;
    node->owner = &simulation->stations[number];
    network_name(network, node);
}

void simulation_charge(struct simulation *simulation, uint32_t node, instant packet_cost,
                       instant message_cost)
{
    network_charge(&simulation->network->nodes[node], packet_cost, message_cost);
}

instant simulation_handle(struct simulation *simulation, uint32_t node)
{
    return network_handle(&simulation->network->nodes[node], simulation->network->clock.now);
}

static struct port *add_port(struct network *network, uint32_t from, uint32_t to,
                             const struct link *link, instant delay, uint64_t limit,
                             instant jitter)
{
    struct node *node = &network->nodes[from];
    struct port *port = calloc(1, sizeof *port);
    struct port **ports = realloc(node->ports, (node->ports_count + 1) * sizeof *ports);
    if (!port || !ports)
        abort();
    node->ports = ports;
    ports[node->ports_count++] = port;
    port->from = from;
    port->to = to;
    port->rate = link->rate;
    port->delay = delay;
    port->burst = link->burst;
    port->free_at = -link->burst; /* nothing of it is used yet */
    port->limit = limit;
    port->jitter = jitter;
    port->impaired = (struct impairment){.loss = link->loss, .duplication = link->duplication};
    port->random = link->seed ^ ((uint64_t)from << 32 | to);
    port_open(port, network);
    return port;
}

void simulation_link(struct simulation *simulation, const struct link *link)
{
    struct network *network = simulation->network;
    struct port *there =
        add_port(network, link->a, link->b, link, link->delay_a, link->limit_a, link->jitter_a);
    struct port *back =
        add_port(network, link->b, link->a, link, link->delay_b, link->limit_b, link->jitter_b);
    there->to_port = network->nodes[link->b].ports_count - 1;
    back->to_port = network->nodes[link->a].ports_count - 1;
}

void simulation_next_hops(struct simulation *simulation, uint32_t node, uint32_t to, uint32_t count,
                    const uint32_t *ports)
{
    network_hops(&simulation->network->nodes[node], to, count, ports);
}

static void *grown(void *array, uint32_t count, size_t each)
{
    void *larger = realloc(array, (count + 1) * each);
    if (!larger)
        abort();
    return larger;
}

void simulation_route(struct simulation *simulation, uint32_t node, uint32_t source, uint32_t to,
                      uint32_t port)
{
    network_route(&simulation->network->nodes[node], source, to, port);
}

uint32_t simulation_connect(struct simulation *simulation, uint32_t source, uint32_t to,
                            uint16_t source_port, uint16_t to_port)
{
    return tcp_connect(simulation->tcp, source, to, source_port, to_port);
}

void simulation_write(struct simulation *simulation, uint32_t connection, uint64_t bytes)
{
    tcp_write(simulation->tcp, connection, bytes);
}

uint32_t simulation_engine(struct simulation *simulation, uint32_t node, void *engine,
                           const struct engine_calls *calls, uint16_t udp_port,
                           double pace)
{
    struct station *station = &simulation->stations[node];
    struct host *host = calloc(1, sizeof *host + sizeof *calls);
    if (!host)
        abort();
    struct engine_calls *own = (struct engine_calls *)(void *)(host + 1);
    *own = *calls;
    host_open(host, &simulation->network->nodes[node]);
    host->engine = engine;
    host->calls = own;
    host->udp_port = udp_port;
    host->pace = pace;
    host->number = simulation->engines_count;
    host->progressed = progressed;
    host->context = simulation;
    station->engines = grown(station->engines, station->count, sizeof *station->engines);
    station->engines[station->count++] = host;
    simulation->engines =
        grown(simulation->engines, simulation->engines_count, sizeof *simulation->engines);
    simulation->engines[simulation->engines_count] = host;
    return simulation->engines_count++;
}

void simulation_pump(struct simulation *simulation, uint32_t engine)
{
    host_pump(simulation->engines[engine], simulation->network->clock.now);
}

void simulation_program(struct simulation *simulation, uint32_t node, const struct p4_calls *calls,
                        instant adds)
{
    struct p4 *p4 = malloc(sizeof *p4);
    if (!p4)
        abort();
    p4_open(p4, &simulation->network->nodes[node], calls, adds);
    simulation->network->nodes[node].kind = SWITCH;
    simulation->programs =
        grown(simulation->programs, simulation->programs_count, sizeof *simulation->programs);
    simulation->programs[simulation->programs_count++] = p4;
}

void simulation_carry(struct simulation *simulation, uint32_t values_from, uint32_t uncarried)
{
    simulation->network->values_from = values_from;
    simulation->network->uncarried = uncarried;
}

int simulation_run(struct simulation *simulation, instant until, struct happening *happening)
{
    struct clock *clock = &simulation->network->clock;
    struct ring *happenings = &simulation->happenings;
    while (ring_is_empty(happenings)) {
        instant next = clock_next(clock);
        if (next == NEVER && until == NEVER) {
            happening->at = clock->now;
            return -1;
        }
        if (next > until) {
            happening->at = clock->now = until;
            return 0;
        }
        clock_step(clock);
    }
    *happening = *(struct happening *)ring_at(happenings, happenings->head++, sizeof *happening);
    return 1;
}

void simulation_set_down(struct simulation *simulation, uint32_t node, uint32_t port, bool is_down)
{
    simulation->network->nodes[node].ports[port]->is_down = is_down;
}

void simulation_impair(struct simulation *simulation, uint32_t node, uint32_t port,
                       const struct impairment *impaired)
{
    simulation->network->nodes[node].ports[port]->impaired = *impaired;
}

void simulation_pause(struct simulation *simulation, uint32_t node, bool is_paused)
{
    const struct station *station = &simulation->stations[node];
    for (uint32_t i = 0; i < station->count; i++)
        host_pause(station->engines[i], is_paused, simulation->network->clock.now);
}

void simulation_inject(struct simulation *simulation, uint32_t node, const uint8_t *frame,
                       uint32_t length)
{
    struct network *network = simulation->network;
    if (length < UDP_HEADERS || length > network->data_room)
        return;
    struct packet *packet = packet_with_data(network);
    memcpy(packet->data, frame, length);
    packet->length = length;
    if (!frame_key(frame, length, &packet->key) || packet->key.protocol != PROTOCOL_UDP) {
        packet_free(network, packet);
        return;
    }
    packet->bytes = counted(network, length);
    network_send(&network->nodes[node], packet, network->clock.now);
}

uint32_t simulation_held(const struct simulation *simulation, uint32_t node, uint32_t port)
{
    return port_holds(simulation->network->nodes[node].ports[port]);
}

uint64_t simulation_unaccounted(const struct simulation *simulation)
{
    const struct network *network = simulation->network;
    uint64_t used = network_used(network);
    for (uint32_t n = 0; n < network->nodes_count; n++) {
        const struct node *node = &network->nodes[n];
        for (uint32_t p = 0; p < node->ports_count; p++)
            used -= port_holds(node->ports[p]);
        if (node->processor)
            used -= port_holds(node->processor);
    }
    for (uint32_t i = 0; i < simulation->engines_count; i++)
        used -= simulation->engines[i]->held_count;
    for (uint32_t i = 0; i < simulation->programs_count; i++)
        if (simulation->programs[i]->adder)
            used -= port_holds(simulation->programs[i]->adder);
    return used;
}

const struct digests *simulation_digests(const struct simulation *simulation)
{
    return &simulation->network->digests;
}

uint64_t simulation_hops(const struct simulation *simulation)
{
    return simulation->network->digests.packets;
}

const struct port_counters *simulation_port(const struct simulation *simulation, uint32_t node,
                                            uint32_t port)
{
    return &simulation->network->nodes[node].ports[port]->counters;
}

const struct port_counters *simulation_inside(const struct simulation *simulation, uint32_t node)
{
    const struct node *found = &simulation->network->nodes[node];
    if (found->kind == HOST)
        return found->processor ? &found->processor->counters : NULL;
    const struct p4 *p4 = found->kind == SWITCH ? found->owner : NULL;
    return p4 && p4->adder ? &p4->adder->counters : NULL;
}

const struct tcp_counters *simulation_counters(const struct simulation *simulation,
                                               uint32_t connection)
{
    return tcp_counters(simulation->tcp, connection);
}

struct network *simulation_network(const struct simulation *simulation)
{
    return simulation->network;
}

const struct tcp *simulation_tcp(const struct simulation *simulation)
{
    return simulation->tcp;
}

const struct host *simulation_host(const struct simulation *simulation, uint32_t engine)
{
    return engine < simulation->engines_count ? simulation->engines[engine] : NULL;
}
