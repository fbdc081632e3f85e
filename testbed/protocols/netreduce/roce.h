/* Packets of RoCEv2's reliable connections, as far as NetReduce needs them; wire.h has opcodes. */
#ifndef ROCE_H
#define ROCE_H

#include "packet.h"

enum { ACK = 0x00 };    /* a syndrome */
enum { IS_SUM = 0x01 }; /* in `reserved`: the values are the sum; switches only forward, and hosts take only these */

struct bth {
    uint8_t opcode, flags;
    uint16_t partition;
    uint8_t reserved, connection[3];
    uint8_t acknowledge, sequence[3];
};

struct data {
    struct bth bth;
    int32_t rest[HEADER_BYTES / 4 + VALUES]; /* values, after a header in a first packet */
};

struct answer {
    struct bth bth;
    uint8_t syndrome, messages[3];
};

enum { SHORT_DATA = sizeof(struct bth) + sizeof(int32_t[VALUES]) };

static inline void put24(uint8_t *to, uint64_t value)
{
    to[0] = (uint8_t)(value >> 16);
    to[1] = (uint8_t)(value >> 8);
    to[2] = (uint8_t)value;
}

static inline uint32_t get24(const uint8_t *from)
{
    return (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
}

/* The number closest to `near` whose low 24 bits are `psn`. */
static inline uint64_t whole_number(uint32_t psn, uint64_t near)
{
    int32_t ahead = (int32_t)((psn - (uint32_t)near) << 8) >> 8;
    return near + (uint64_t)(int64_t)ahead;
}

#endif
