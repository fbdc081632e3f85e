#include "host.h"

#include <arpa/inet.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "frame.h"

static double seconds(instant at)
{
    return (double)at / (double)SECOND;
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
        port_send(host->node->ports[0], packet, now);
    }
}

static void settle(struct host *host, instant now)
{
    host->calls->pump(host->engine, seconds(now));
    send_all(host, now);
    double deadline = host->calls->deadline(host->engine);
    struct clock *clock = &host->node->network->clock;
    if (isinf(deadline)) {
        clock_cancel(clock, &host->timer);
    } else {
        instant at = (instant)ceil(deadline * (double)SECOND);
        clock_set(clock, &host->timer, at > now ? at : now + 1, clock_order(clock));
    }
    if (host->calls->progress(host->engine))
        host->progressed(host->context, host->number, now);
}

static void timer(struct event *event, instant now)
{
    settle((struct host *)((char *)event - offsetof(struct host, timer)), now);
}

void host_open(struct host *host, struct node *node)
{
    host->node = node;
    host->timer.happen = timer;
}

void host_take(struct host *host, struct packet *packet, instant now)
{
    host->calls->take(host->engine, packet->data + UDP_HEADERS, packet->length - UDP_HEADERS,
                      seconds(now));
    packet_free(host->node->network, packet);
    settle(host, now);
}

void host_pump(struct host *host, instant now)
{
    settle(host, now);
}
