#include "port.h"

#include <stdlib.h>

#include "network.h"

static const int64_t BYTE_AT_1_BIT_PER_S = INT64_C(8) * SECOND;

static struct port *of_arrival(struct event *event)
{
    return (struct port *)((char *)event - offsetof(struct port, arrival));
}

static struct frame *frame_at(const struct port *port, uint32_t index)
{
    return ring_at(&port->frames, index, sizeof(struct frame));
}

/* Subtracts frames whose transmission has begun from the count of waiting bytes. */
static void begin(struct port *port, instant now)
{
    while (port->begun != port->frames.tail && frame_at(port, port->begun)->starts <= now)
        port->waiting -= frame_at(port, port->begun++)->bytes;
}

static void set_arrival(struct port *port)
{
    const struct frame *first = frame_at(port, port->frames.head);
    __builtin_prefetch(first->packet); /* it has waited, and is not in the cache any more */
    clock_set(&port->network->clock, &port->arrival, first->arrives, first->order);
}

static bool happens(struct port *port, uint64_t chance)
{
    return chance && random_next(&port->random) < chance;
}

static void deliver(struct port *port, struct packet *packet, instant now)
{
    struct node *node = &port->network->nodes[port->to];
    port->counters.delivered++;
    node->receive(node, port->to_port, packet, now);
}

struct late {
    struct event arrival;
    struct port *port;
    struct packet *packet;
    struct late *next;
};

static void lose(struct port *port, struct packet *packet)
{
    port->counters.lost++;
    packet_free(port->network, packet);
}

static void arrive_late(struct event *event, instant now)
{
    struct late *late = (struct late *)(void *)event;
    if (late->port->is_down) {
        lose(late->port, late->packet);
        return;
    }
    deliver(late->port, late->packet, now);
}

static void hold_up(struct port *port, struct packet *packet, instant now)
{
    struct late *late = port->late;
    while (late && is_set(&late->arrival))
        late = late->next;
    if (!late) {
        late = calloc(1, sizeof *late);
        if (!late)
            abort();
        *late = (struct late){.arrival = {.happen = arrive_late}, .port = port, .next = port->late};
        port->late = late;
    }
    late->packet = packet;
    struct clock *clock = &port->network->clock;
    const instant more = (instant)(random_next(&port->random) % (uint64_t)port->impaired.longest);
    clock_set(clock, &late->arrival, now + 1 + more, clock_order(clock));
}

static void arrive(struct event *event, instant now)
{
    struct port *port = of_arrival(event);
    begin(port, now);
    struct packet *packet = frame_at(port, port->frames.head++)->packet;
    if (!ring_is_empty(&port->frames))
        set_arrival(port);
    if (port->is_down || happens(port, port->impaired.loss)) {
        lose(port, packet);
        return;
    }
    if (happens(port, port->impaired.corruption)) {
        port->counters.corrupted++;
        packet_free(port->network, packet);
        return;
    }
    struct packet *again = NULL;
    if (happens(port, port->impaired.duplication)) {
        port->counters.duplicated++;
        again = packet_copy(port->network, packet);
    }
    if (happens(port, port->impaired.delay))
        hold_up(port, packet, now);
    else
        deliver(port, packet, now);
    if (again)
        deliver(port, again, now);
}

void port_open(struct port *port, struct network *network)
{
    port->network = network;
    port->arrival.happen = arrive;
}

void port_close(struct port *port)
{
    while (port->late) {
        struct late *next = port->late->next;
        free(port->late);
        port->late = next;
    }
}

instant port_send(struct port *port, struct packet *packet, instant now)
{
    struct network *network = port->network;
    begin(port, now);
    if (port->is_down) {
        port->counters.sent_frames++;
        lose(port, packet);
        return NEVER;
    }
    bool is_idle = port->free_at <= now;
    if (!is_idle && port->waiting + packet->bytes > port->limit) {
        port->counters.dropped++;
        if (network->drop)
            network->drop(network, port, packet, now);
        packet_free(network, packet);
        return NEVER;
    }
    instant takes = (instant)packet->bytes * BYTE_AT_1_BIT_PER_S / port->rate + port->each;
    instant earliest = now - port->burst;
    if (is_idle && port->jitter)
        earliest += (instant)(random_next(&port->random) % (uint64_t)port->jitter);
    instant starts = port->free_at > earliest ? port->free_at : earliest;
    instant ends = starts + takes;
    instant leaves = port->burst ? starts : ends;
    struct frame *frame = ring_add(&port->frames, sizeof *frame, &network->arena);
    *frame = (struct frame){packet, starts, (leaves > now ? leaves : now) + port->delay,
                            clock_order(&network->clock), packet->bytes};
    port->free_at = ends;
    if (starts <= now) {
        port->begun = port->frames.tail;
    } else {
        port->waiting += packet->bytes;
        if (port->waiting > port->counters.most_waiting)
            port->counters.most_waiting = port->waiting;
    }
    port->counters.sent_bytes += packet->bytes;
    port->counters.sent_frames++;
    bool is_link = port->from != port->to; /* else a switch's own adder */
    if (is_link) {
        const struct flow_key *key = &packet->key;
        digests_add(&network->digests, (uint64_t)starts, (uint64_t)port->from << 32 | port->to,
                    ((uint64_t)key->source << 32 | key->to) ^ (uint64_t)packet->bytes << 16);
        if (network->watch)
            network->watch(network, port, packet, starts);
    }
    if (!is_set(&port->arrival))
        set_arrival(port);
    return starts > now ? starts : now;
}

uint64_t port_waiting(struct port *port, instant now)
{
    begin(port, now);
    return port->waiting;
}

uint32_t port_depth(struct port *port, instant now)
{
    begin(port, now);
    return port->frames.tail - port->begun;
}

uint32_t port_holds(const struct port *port)
{
    uint32_t count = port->frames.tail - port->frames.head;
    for (const struct late *late = port->late; late; late = late->next)
        count += is_set(&late->arrival);
    return count;
}
