#include "frame.h"

#include <string.h>

enum { TIME_TO_LIVE = 64 };

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value);
}

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) << 16 | get16(at + 2);
}

/* The checksum of an even number of bytes; `sum` is the sum of what else it covers. */
static uint32_t checksum(const uint8_t *bytes, size_t length, uint32_t sum)
{
    for (size_t i = 0; i < length; i += 2)
        sum += get16(bytes + i);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

static void frame_ipv4(uint8_t *bytes, const struct flow_key *key, size_t size)
{
    memset(bytes, 0, ETHERNET + IPV4);
    put16(bytes + 12, 0x0800);
    uint8_t *ip = bytes + ETHERNET;
    ip[0] = 0x45;
    put16(ip + 2, (uint32_t)(IPV4 + size));
    ip[6] = 0x40; /* may not be fragmented */
    ip[8] = TIME_TO_LIVE;
    ip[9] = key->protocol;
    put32(ip + 12, key->source);
    put32(ip + 16, key->to);
    put16(ip + 10, checksum(ip, IPV4, 0));
    put16(ip + IPV4, key->source_port);
    put16(ip + IPV4 + 2, key->to_port);
}

struct packet *packet_with_data(struct network *network)
{
    struct packet *packet = packet_new(network);
    packet->data = packet_data(packet);
    packet->length = 0;
    return packet;
}

void frame_udp(struct packet *packet, size_t size)
{
    frame_ipv4(packet->data, &packet->key, 8 + size);
    uint8_t *udp = packet->data + ETHERNET + IPV4;
    put16(udp + 4, (uint32_t)(8 + size));
    put16(udp + 6, 0); /* no checksum */
    packet->length = (uint32_t)(UDP_HEADERS + size);
}

size_t frame_tcp(uint8_t *bytes, const struct flow_key *key)
{
    memset(bytes + ETHERNET + IPV4, 0, 20);
    frame_ipv4(bytes, key, 20);
    return TCP_HEADERS;
}

size_t frame_segment(uint8_t *bytes, const struct packet *packet)
{
    enum { NOP = 1, SACK = 5, STAMPS = 8, STAMPS_LENGTH = 10, ACK = 0x10 };
    const struct segment *segment = &packet->segment;
    size_t length = packet->bytes - segment->length;
    if (length < TCP_HEADERS || length > TCP_LONGEST)
        length = TCP_HEADERS;
    size_t size = length - ETHERNET - IPV4; /* of the TCP header */
    frame_ipv4(bytes, &packet->key, size + segment->length);
    uint8_t *ip = bytes + ETHERNET, *tcp = ip + IPV4;
    put32(tcp + 4, 1 + (segment->length ? (uint32_t)segment->position : 0));
    put32(tcp + 8, 1 + (segment->length ? 0 : (uint32_t)segment->position));
    tcp[12] = (uint8_t)(size / 4 << 4);
    tcp[13] = ACK;
    put16(tcp + 14, UINT16_MAX);
    put32(tcp + 16, 0);
    memset(tcp + 20, NOP, size - 20);
    if (size >= 32) {
        tcp[22] = STAMPS;
        tcp[23] = STAMPS_LENGTH;
        memset(tcp + 24, 0, 8);
        put32(tcp + (segment->length ? 24 : 28), (uint32_t)(segment->stamp / MICROSECOND));
    }
    uint32_t blocks = segment->blocks_count;
    if (blocks && size >= 32 + 4 + 8 * blocks) {
        uint8_t *option = tcp + size - 2 - 8 * blocks;
        option[0] = SACK;
        option[1] = (uint8_t)(2 + 8 * blocks);
        for (uint32_t i = 0; i < blocks; i++) {
            put32(option + 2 + 8 * i, 1 + (uint32_t)segment->blocks[i].start);
            put32(option + 6 + 8 * i, 1 + (uint32_t)segment->blocks[i].end);
        }
    }
    uint32_t pseudo = checksum(ip + 12, 8, PROTOCOL_TCP + (uint32_t)size + segment->length);
    put16(tcp + 16, checksum(tcp, size, ~pseudo & 0xffff));
    return length;
}

void frame_lengthen(uint8_t *bytes, uint32_t more)
{
    uint8_t *ip = bytes + ETHERNET, *udp = ip + IPV4;
    put16(ip + 2, get16(ip + 2) + more);
    put16(udp + 4, get16(udp + 4) + more);
    put16(ip + 10, 0);
    put16(ip + 10, checksum(ip, IPV4, 0));
}

bool frame_key(const uint8_t *bytes, size_t length, struct flow_key *key)
{
    if (length < ETHERNET + IPV4 + 4 || get16(bytes + 12) != 0x0800)
        return false;
    const uint8_t *ip = bytes + ETHERNET;
    *key = (struct flow_key){
        .source = get32(ip + 12),
        .to = get32(ip + 16),
        .source_port = (uint16_t)get16(ip + IPV4),
        .to_port = (uint16_t)get16(ip + IPV4 + 2),
        .protocol = ip[9],
    };
    return key->protocol == PROTOCOL_UDP || key->protocol == PROTOCOL_TCP;
}
