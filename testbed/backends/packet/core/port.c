#include "port.h"

#include <stdlib.h>
#include <string.h>

#include "network.h"

enum { FIRST_FRAMES = 64 };

static const int64_t PICOSECOND_BITS = INT64_C(8) * SECOND; /* of a byte at 1 bit/s */

static struct port *of_arrival(struct event *event)
{
    return (struct port *)((char *)event - offsetof(struct port, arrival));
}

static struct port *of_room(struct event *event)
{
    return (struct port *)((char *)event - offsetof(struct port, room));
}

static struct frame *frame_at(const struct port *port, uint32_t index)
{
    return &port->frames[index & port->mask];
}

/* Frames whose transmission has begun do not wait any more. */
static void begin(struct port *port, instant now)
{
    while (port->begun != port->tail && frame_at(port, port->begun)->starts <= now)
        port->waiting -= frame_at(port, port->begun++)->packet->bytes;
}

static void set_arrival(struct port *port)
{
    const struct frame *first = frame_at(port, port->head);
    clock_set(&port->network->clock, &port->arrival, first->arrives, first->order);
}

static bool happens(struct port *port, uint64_t chance)
{
    return chance && random_next(&port->random) < chance;
}

static void arrive(struct event *event, instant now)
{
    struct port *port = of_arrival(event);
    begin(port, now); /* what arrives has begun */
    struct packet *packet = frame_at(port, port->head++)->packet;
    if (port->head != port->tail)
        set_arrival(port);
    struct node *node = &port->network->nodes[port->to];
    if (port->is_down || happens(port, port->loss)) {
        port->counters.lost++;
        packet_free(port->network, packet);
        return;
    }
    struct packet *again = NULL;
    if (happens(port, port->duplication)) {
        port->counters.duplicated++;
        again = packet_copy(port->network, packet);
    }
    node->receive(node, port->to_port, packet, now);
    if (again)
        node->receive(node, port->to_port, again, now);
}

/* Wakes the waiters when enough of the queue is on its way. */
static void set_room(struct port *port, instant now)
{
    instant at = now;
    uint64_t left = port_waiting(port, now);
    for (uint32_t i = port->begun; i != port->tail && left > port->room_below; i++) {
        left -= frame_at(port, i)->packet->bytes;
        at = frame_at(port, i)->starts;
    }
    struct clock *clock = &port->network->clock;
    clock_set(clock, &port->room, at, clock_order(clock));
}

static void has_room(struct event *event, instant now)
{
    struct port *port = of_room(event);
    /* Connections take turns: one that has sent waits behind those that have not. */
    uint32_t left = port->waiters_count;
    while (left-- && port_waiting(port, now) <= port->room_below) {
        uint32_t first = port->waiters[0];
        memmove(port->waiters, port->waiters + 1, --port->waiters_count * sizeof first);
        port->network->has_room(port->network, first, now);
    }
    if (port->waiters_count && !is_set(&port->room))
        set_room(port, now);
}

void port_open(struct port *port, struct network *network)
{
    port->network = network;
    port->arrival.happen = arrive;
    port->room.happen = has_room;
    port->mask = FIRST_FRAMES - 1;
    port->frames = malloc(FIRST_FRAMES * sizeof *port->frames);
    if (!port->frames)
        abort();
}

void port_close(struct port *port)
{
    free(port->frames);
    free(port->waiters);
}

static struct frame *frame_new(struct port *port)
{
    if (port->tail - port->head > port->mask) {
        uint32_t mask = 2 * port->mask + 1;
        struct frame *frames = malloc(((size_t)mask + 1) * sizeof *frames);
        if (!frames)
            abort();
        for (uint32_t i = port->head; i != port->tail; i++)
            frames[i & mask] = *frame_at(port, i);
        free(port->frames);
        port->frames = frames;
        port->mask = mask;
    }
    return frame_at(port, port->tail++);
}

void port_send(struct port *port, struct packet *packet, instant now)
{
    struct network *network = port->network;
    begin(port, now);
    bool is_idle = port->free_at <= now;
    if (port->is_down || (!is_idle && port->waiting + packet->bytes > port->limit)) {
        port->counters.dropped++;
        if (network->drop)
            network->drop(network, port, packet, now);
        packet_free(network, packet);
        return;
    }
    if (port->mark_from && port->waiting >= port->mark_from) {
        port->counters.marked++;
        packet->congested = true;
    }
    instant starts = is_idle ? now : port->free_at;
    if (is_idle && port->jitter)
        starts += (instant)(random_next(&port->random) % (uint64_t)port->jitter);
    instant ends = starts + (instant)packet->bytes * PICOSECOND_BITS / port->rate;
    *frame_new(port) = (struct frame){packet, starts, ends + port->delay,
                                      clock_order(&network->clock)};
    port->free_at = ends;
    if (starts == now) {
        port->begun = port->tail;
    } else {
        port->waiting += packet->bytes;
        if (port->waiting > port->counters.most_waiting)
            port->counters.most_waiting = port->waiting;
    }
    port->counters.sent_bytes += packet->bytes;
    port->counters.sent_frames++;
    network->hops++;
    if (network->watch)
        network->watch(network, port, packet, starts);
    if (!is_set(&port->arrival))
        set_arrival(port);
}

uint64_t port_waiting(struct port *port, instant now)
{
    begin(port, now);
    return port->waiting;
}

uint32_t port_depth(struct port *port, instant now)
{
    begin(port, now);
    return port->tail - port->begun;
}

void port_call_when_below(struct port *port, uint32_t connection, uint64_t bytes, instant now)
{
    if (port->waiters_count == port->waiters_room) {
        port->waiters_room = port->waiters_room ? 2 * port->waiters_room : 8;
        port->waiters = realloc(port->waiters, port->waiters_room * sizeof *port->waiters);
        if (!port->waiters)
            abort();
    }
    port->waiters[port->waiters_count++] = connection;
    port->room_below = bytes;
    if (!is_set(&port->room))
        set_room(port, now);
}
