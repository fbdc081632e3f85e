#include "p4.h"

#include <string.h>

#include "frame.h"

/* What the program sends is a packet of its own. A TCP segment stays as it came, its data being
   nowhere: only the way it takes is the program's. */
static void put(void *owner, unsigned number, const struct iovec *pieces, unsigned count)
{
    struct p4 *p4 = owner;
    struct network *network = p4->node->network;
    /* The program's ports count from 1. */
    if (number == 0 || number > p4->node->ports_count) {
        p4->unknown++;
        return;
    }
    struct port *port = p4->node->ports[number - 1];
    const struct packet *taken = p4->taken;
    if (taken->key.protocol == PROTOCOL_TCP) {
        port_send(port, packet_copy(network, taken), p4->now);
        return;
    }
    struct packet *packet = packet_with_data(network);
    packet->length = 0;
    for (unsigned i = 0; i < count; i++) {
        if (packet->length + pieces[i].iov_len > network->data_room)
            break;
        memcpy(packet->data + packet->length, pieces[i].iov_base, pieces[i].iov_len);
        packet->length += (uint32_t)pieces[i].iov_len;
    }
    if (!frame_key(packet->data, packet->length, &packet->key)) {
        p4->unknown++;
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

static void take(struct node *node, uint32_t port, struct packet *packet, instant now)
{
    struct p4 *p4 = node->owner;
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

void p4_open(struct p4 *p4, struct node *node, const struct p4_calls *calls)
{
    *p4 = (struct p4){.node = node, .calls = *calls};
    node->owner = p4;
    node->receive = take;
}
