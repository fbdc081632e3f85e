/* Sets of ranks, as words of 64 bits. */
#ifndef RANKS_H
#define RANKS_H

#include <stdbool.h>
#include <stdint.h>

static inline bool ranks_meet(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    uint64_t both = 0;
    for (uint32_t i = 0; i < words; i++)
        both |= a[i] & b[i];
    return both;
}

static inline void ranks_join(uint64_t *to, const uint64_t *from, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        to[i] |= from[i];
}

static inline bool ranks_equal(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    uint64_t either = 0;
    for (uint32_t i = 0; i < words; i++)
        either |= a[i] ^ b[i];
    return !either;
}

static inline uint32_t ranks_count(const uint64_t *set, uint32_t words)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < words; i++)
        count += (uint32_t)__builtin_popcountll(set[i]);
    return count;
}

static inline void ranks_clear(uint64_t *set, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        set[i] = 0;
}

#endif
