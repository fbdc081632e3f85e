#include "p4.h"

#include <stdlib.h>
#include <string.h>

#include "frame.h"

/* See testbed/wire.py and p4/headers.p4. */
enum { ROCE_PORT = 4791, BTH_RESERVED = 4, IS_SUM = 1, DATA = 1 };

#define FROM_ADDER UINT32_MAX
#define ADDER_QUEUE (UINT64_C(1) << 40) /* senders' windows bound it */

/* The program's output is a new packet. A TCP segment has no data here and is forwarded unchanged;
   the program decides only its port. */
static void put(void *owner, unsigned number, const struct iovec *pieces, unsigned count)
{
    struct p4 *p4 = owner;
    struct network *network = p4->node->network;
    /* The program's ports count from 1. */
    if (number == 0 || number > p4->node->ports_count)
        return;
    struct port *port = p4->node->ports[number - 1];
    const struct packet *taken = p4->taken;
    if (taken->key.protocol == PROTOCOL_TCP) {
        port_send(port, packet_copy(network, taken), p4->now);
        return;
    }
    struct packet *packet = packet_with_data(network);
    for (unsigned i = 0; i < count; i++) {
        if (packet->length + pieces[i].iov_len > network->data_room)
            break;
        memcpy(packet->data + packet->length, pieces[i].iov_base, pieces[i].iov_len);
        packet->length += (uint32_t)pieces[i].iov_len;
    }
    if (!frame_key(packet->data, packet->length, &packet->key)) {
        packet_free(network, packet);
        return;
    }
    packet->bytes = counted(network, packet->length);
    port_send(port, packet, p4->now);
}

static unsigned depth(void *owner, unsigned number)
{
    struct p4 *p4 = owner;
    if (number == 0 || number > p4->node->ports_count)
        return 0;
    return port_depth(p4->node->ports[number - 1], p4->now);
}

/* Whether the switch adds the packet's values to others: gradients that are sent to it, and
   gradients on RoCE connections through it, unless they are already sums. */
static bool is_contribution(const struct node *node, const struct packet *packet)
{
    if (packet->key.protocol != PROTOCOL_UDP || packet->length <= node->network->values_from)
        return false;
    if (packet->key.to_port == ROCE_PORT)
        return !(packet->data[UDP_HEADERS + BTH_RESERVED] & IS_SUM);
    return packet->key.to == node->address && packet->data[UDP_HEADERS] == DATA;
}

static void take(struct node *node, uint32_t port, struct packet *packet, instant now)
{
    struct p4 *p4 = node->owner;
    if (port == FROM_ADDER) {
        port = packet->ingress;
    } else if (p4->adder && is_contribution(node, packet)) {
        packet->ingress = port;
        port_send(p4->adder, packet, now);
        return;
    }
    p4->taken = packet;
    p4->now = now;
    p4->calls.attach(p4, put, depth);
    uint64_t microseconds = (uint64_t)(now / MICROSECOND);
    if (packet->key.protocol == PROTOCOL_TCP) {
        uint8_t headers[TCP_HEADERS];
        size_t length = frame_tcp(headers, &packet->key);
        p4->calls.process(port + 1, headers, length, microseconds);
    } else {
        p4->calls.process(port + 1, packet->data, packet->length, microseconds);
    }
    packet_free(node->network, packet);
}

void p4_open(struct p4 *p4, struct node *node, const struct p4_calls *calls, instant adds)
{
    *p4 = (struct p4){.node = node, .calls = *calls};
    if (adds) {
        p4->adder = calloc(1, sizeof *p4->adder);
        if (!p4->adder)
            abort();
        *p4->adder = (struct port){
            .from = node->number,
            .to = node->number,
            .to_port = FROM_ADDER,
            .rate = INT64_MAX, /* bytes take no time, so headers do not count */
            .each = adds,
            .limit = ADDER_QUEUE,
        };
        port_open(p4->adder, node->network);
    }
    node->owner = p4;
    node->receive = take;
}

void p4_close(struct p4 *p4)
{
    if (p4->adder)
        port_close(p4->adder);
    free(p4->adder);
}
