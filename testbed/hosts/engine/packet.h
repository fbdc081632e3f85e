/* The INA packet and its values. wire.h is generated from testbed/wire.py. */
#ifndef PACKET_H
#define PACKET_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

struct packet {
    struct header header; /* all fields big-endian */
    int32_t values[VALUES];
};

_Static_assert(sizeof(struct header) == HEADER_BYTES, "the header has no padding");
_Static_assert(sizeof(struct packet) == HEADER_BYTES + sizeof(int32_t[VALUES]),
               "a packet has no padding");

/* Loops that compilers turn into a byte shuffle per vector. Either side may be in wire order. */
static inline void swap_values(int32_t *to, const int32_t *from)
{
    for (int i = 0; i < VALUES; i++)
        to[i] = (int32_t)be32toh((uint32_t)from[i]);
}

static inline void swap_in_place(int32_t *values)
{
    for (int i = 0; i < VALUES; i++)
        values[i] = (int32_t)be32toh((uint32_t)values[i]);
}

/* Adds with wrap-around; returns whether any sum left the range of int32: its sign then differs
   from that of both terms. */
static inline bool add_values(int32_t *sum, const int32_t *values)
{
    uint32_t left = 0;
    for (int i = 0; i < VALUES; i++) {
        uint32_t a = (uint32_t)sum[i], b = (uint32_t)values[i], s = a + b;
        left |= (a ^ s) & (b ^ s);
        sum[i] = (int32_t)s;
    }
    return left >> 31;
}

static inline bool add_from_wire(int32_t *sum, const int32_t *values)
{
    uint32_t left = 0;
    for (int i = 0; i < VALUES; i++) {
        uint32_t a = (uint32_t)sum[i], b = be32toh((uint32_t)values[i]), s = a + b;
        left |= (a ^ s) & (b ^ s);
        sum[i] = (int32_t)s;
    }
    return left >> 31;
}

/* float32 on the wire: the bits of an IEEE single, big-endian in an int32's place. */
union single {
    float value;
    uint32_t bits;
};

static inline void floats_to_wire(int32_t *to, const int32_t *values)
{
    for (int i = 0; i < VALUES; i++) {
        union single single = {.value = (float)values[i]};
        to[i] = (int32_t)htobe32(single.bits);
    }
}

static inline void add_floats(double *sum, const int32_t *values)
{
    for (int i = 0; i < VALUES; i++) {
        union single single = {.bits = be32toh((uint32_t)values[i])};
        sum[i] += (double)single.value;
    }
}

static inline void float_sums_to_wire(int32_t *to, const double *sum)
{
    for (int i = 0; i < VALUES; i++) {
        union single single = {.value = (float)sum[i]};
        to[i] = (int32_t)htobe32(single.bits);
    }
}

#endif
