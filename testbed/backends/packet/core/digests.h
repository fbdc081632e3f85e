/* Digests of what went over the links: after each `every` packets, a digest of all packets so far.
   The first digest that differs between two runs shows between which packets they diverge. */
#ifndef DIGESTS_H
#define DIGESTS_H

#include <stdint.h>

enum { MOST_DIGESTS = 512, FIRST_EVERY = 16 };

struct digests {
    uint64_t state;
    uint64_t packets;
    uint32_t every; /* a power of two; it doubles when there is no room for another digest */
    uint32_t count;
    uint16_t kept[MOST_DIGESTS];
};

static inline uint16_t digests_now(const struct digests *digests)
{
    return (uint16_t)(digests->state >> 48);
}

/* Adds a packet, given as three numbers. Each is a bijection of the state (as in FNV, with 64
   bits). */
static inline void digests_add(struct digests *digests, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t state = (digests->state ^ a) * prime;
    state = (state << 32 | state >> 32) ^ b;
    state = (state * prime) ^ c;
    state *= prime;
    digests->state = state << 32 | state >> 32;
    if (++digests->packets & (digests->every - 1))
        return;
    digests->kept[digests->count++] = digests_now(digests);
    if (digests->count < MOST_DIGESTS)
        return;
    /* Each digest covers all packets before it, so every other one can be dropped. */
    digests->count /= 2;
    for (uint32_t i = 0; i < digests->count; i++)
        digests->kept[i] = digests->kept[2 * i + 1];
    digests->every *= 2;
}

#endif
