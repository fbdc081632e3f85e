#include "host.h"

#include <arpa/inet.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "frame.h"

enum { SOCKET_HOLDS = 256 }; /* packets */

static double engine_time(const struct host *host, instant at)
{
    return (double)at / (double)SECOND * host->pace;
}

static void send_all(struct host *host, instant now)
{
    struct network *network = host->node->network;
    for (;;) {
        struct packet *packet = packet_with_data(network);
        uint32_t to;
        size_t size = host->calls->next(host->engine, packet->data + UDP_HEADERS, &to);
        if (!size) {
            packet_free(network, packet);
            return;
        }
        packet->key = (struct flow_key){host->node->address, ntohl(to), host->udp_port,
                                        host->udp_port, PROTOCOL_UDP};
        frame_udp(packet, size);
        packet->bytes = counted(network, packet->length);
        network_send(host->node, packet, now);
    }
}

static void set_timer(struct host *host)
{
    struct clock *clock = &host->node->network->clock;
    host->timer_at = host->deadline;
    clock_set(clock, &host->timer, host->deadline, clock_order(clock));
}

static void settle(struct host *host, instant now)
{
    host->calls->pump(host->engine, engine_time(host, now));
    send_all(host, now);
    double deadline = host->calls->deadline(host->engine);
    instant at = isinf(deadline) ? NEVER
                                 : (instant)ceil(deadline / host->pace * (double)SECOND);
    host->deadline = at > now ? at : now + 1;
    /* Most deadlines are postponed by each packet: a timer that expires early is set again. */
    if (host->deadline != NEVER && (!is_set(&host->timer) || host->timer_at > host->deadline))
        set_timer(host);
    if (host->calls->progress(host->engine))
        host->progressed(host->context, host->number, now);
}

static void timer(struct event *event, instant now)
{
    struct host *host = (struct host *)((char *)event - offsetof(struct host, timer));
    if (host->is_paused)
        return;
    if (host->deadline <= now)
        settle(host, now);
    else if (host->deadline != NEVER)
        set_timer(host);
}

void host_open(struct host *host, struct node *node)
{
    host->node = node;
    host->timer.happen = timer;
    host->held_end = &host->held;
}

static void hold(struct host *host, struct packet *packet)
{
    if (host->held_count == SOCKET_HOLDS) {
        packet_free(host->node->network, packet);
        return;
    }
    packet->next = NULL;
    *host->held_end = packet;
    host->held_end = &packet->next;
    host->held_count++;
}

void host_pause(struct host *host, bool is_paused, instant now)
{
    host->is_paused = is_paused;
    if (is_paused)
        return;
    struct packet *packet = host->held;
    host->held = NULL;
    host->held_end = &host->held;
    host->held_count = 0;
    while (packet) {
        struct packet *next = packet->next;
        host->calls->take(host->engine, packet->data + UDP_HEADERS, packet->length - UDP_HEADERS,
                          engine_time(host, now));
        packet_free(host->node->network, packet);
        packet = next;
    }
    settle(host, now);
}

void host_take(struct host *host, struct packet *packet, instant now)
{
    if (host->is_paused) {
        hold(host, packet);
        return;
    }
    host->calls->take(host->engine, packet->data + UDP_HEADERS, packet->length - UDP_HEADERS,
                      engine_time(host, now));
    packet_free(host->node->network, packet);
    settle(host, now);
}

void host_pump(struct host *host, instant now)
{
    if (!host->is_paused)
        settle(host, now);
}
