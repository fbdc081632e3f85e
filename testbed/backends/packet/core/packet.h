/* A packet. A TCP segment is only a description, without data; an INA or RoCE packet has its bytes,
   from the Ethernet header on, for the P4 program. */
#ifndef PACKET_H
#define PACKET_H

#include <stdbool.h>
#include <stdint.h>

enum protocol { PROTOCOL_TCP = 6, PROTOCOL_UDP = 17 };
enum { SACK_BLOCKS = 3 }; /* beside timestamps there is room for so many (RFC 2018) */

struct flow_key {
    uint32_t source, to; /* IPv4 addresses, host order */
    uint16_t source_port, to_port;
    uint8_t protocol;
};

struct span {
    uint64_t start, end;
};

/* Data of the sender, or an acknowledgement of the receiver; positions are bytes of the stream. */
struct segment {
    uint64_t position;         /* of the data; or all bytes before it are acknowledged */
    int64_t stamp;             /* when the data left; in an acknowledgement, the echo (RFC 7323) */
    uint32_t length;           /* 0: an acknowledgement */
    uint32_t connection;
    uint32_t blocks_count;
    struct span blocks[SACK_BLOCKS];
};

/* Without SACK blocks, a segment fits into one cache line. */
struct packet {
    struct packet *next;       /* while it is free */
    uint32_t bytes;            /* on a link, with the Ethernet header: what it counts as */
    struct flow_key key;
    union {
        struct segment segment;
        struct {
            uint8_t *data;
            uint32_t length;   /* of `data` */
            uint32_t ingress;  /* the port of a switch with limited capacity at which it arrived */
        };
    };
};

/* So that what follows the headers of UDP is aligned to 8 bytes, as the hosts' engine reads it. */
enum { DATA_PADDING = 6 };

/* Where a packet's own data is, if it has any. */
static inline uint8_t *packet_data(struct packet *packet)
{
    return (uint8_t *)(packet + 1) + DATA_PADDING;
}

#endif
