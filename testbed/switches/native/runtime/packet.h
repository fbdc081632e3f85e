// Shared by a program and the switch around it: header images, outgoing packets, multicast groups,
// registers and counters.
#ifndef PACKET_H
#define PACKET_H

#include "bits.h"
#include "hash.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(enable)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define DROP_PORT 511
#define MAX_HEADER 4096 // bytes; the size of `zeros`
#define MAX_PACKET 65792 // bytes: more than an Ethernet frame of the largest possible MTU
#define NO_ACTION (~0u)

// The image of every invalid header: it is all 0 and never written to.
static uint8_t zeros[MAX_HEADER] __attribute__((aligned(64)));

struct registers {
    void *cells;
    unsigned size, cell; // entries, and bytes of one
};

struct counter {
    uint64_t packets, bytes;
};

struct counters {
    struct counter *cells;
    unsigned size;
    struct table *table; // whose entries count, if it is a direct counter
};

struct meters {
    struct meter *cells;
    unsigned size;
    struct table *table; // whose entries are metered, if it is a direct meter
};

struct replica {
    uint16_t port, rid;
};

struct group {
    unsigned count;
    struct replica replicas[];
};

static struct group *groups[1 << 16];
static uint64_t now; // microseconds since the start, as of the current batch

static uint64_t oversize; // packets beyond the ring's frames, or MAX_PACKET
static uint64_t endless;  // clones and other passes beyond MAX_PASSES

// Memory for headers that a program adds, until the packets with these headers have left. Under a
// sanitizer, unallocated memory is out of bounds, and gaps separate allocations.

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define ARENA_STEP(n) (((n) + 71) & ~(size_t)7)
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)0)
#define ARENA_STEP(n) (n)
#endif
#define ARENA (1 << 20)

static uint8_t arena[ARENA] __attribute__((aligned(64)));
static size_t arena_used = ARENA; // until arena_reset()

// NULL if a program asks for more than any packet can need.
INLINE uint8_t *arena_take(size_t n) {
    if (ARENA_STEP(n) > ARENA - arena_used)
        return NULL;
    uint8_t *p = arena + arena_used;
    arena_used += ARENA_STEP(n);
    ASAN_UNPOISON_MEMORY_REGION(p, n);
    return p;
}

INLINE void arena_reset(size_t keep) {
    ASAN_POISON_MEMORY_REGION(arena + keep, arena_used - keep);
    arena_used = keep;
}

// Outgoing packets: segments of memory, sent or collected by flush().

#define MAX_OUTPUTS 256
#define MAX_SEGMENTS 4096

struct output {
    unsigned port, first, segments;
    size_t bytes;
};

static struct output outputs[MAX_OUTPUTS];
static struct iovec segments[MAX_SEGMENTS];
static unsigned output_count, segment_count;

// Defined by the switch around the program: send or collect all outputs; the length of a port's
// queue; handle a request that not every switch supports.
struct request;
static void flush(void);
static unsigned queue_depth(unsigned port);
static uint32_t other_request(char op, struct request *r);

// Sends all outputs, and frees the arena except for its first `keep` bytes.
INLINE void outputs_done(size_t keep) {
    flush();
    arena_reset(keep);
}

// Makes room for a packet of up to n segments, and for `scratch` bytes of the arena.
INLINE void output_room(unsigned n, size_t scratch, size_t keep) {
    if (output_count == MAX_OUTPUTS || segment_count + n > MAX_SEGMENTS ||
        arena_used + scratch > ARENA) {
        outputs_done(keep);
    }
}

INLINE void output_begin(unsigned port) {
    outputs[output_count] = (struct output){port, segment_count, 0, 0};
}

INLINE void output_segment(uint8_t *p, size_t n) {
    struct output *o = &outputs[output_count];
    struct iovec *last = o->segments > 0 ? &segments[segment_count - 1] : NULL;
    o->bytes += n;
    if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == p) {
        last->iov_len += n;
    } else if (n > 0) {
        segments[segment_count++] = (struct iovec){p, n};
        o->segments++;
    }
}

// Keeps the packet's first `limit` bytes.
INLINE void output_truncate(size_t limit) {
    struct output *o = &outputs[output_count];
    while (o->bytes > limit) {
        struct iovec *last = &segments[segment_count - 1];
        const size_t excess = o->bytes - limit;
        const size_t cut = excess < last->iov_len ? excess : last->iov_len;
        last->iov_len -= cut;
        o->bytes -= cut;
        if (last->iov_len == 0) {
            segment_count--;
            o->segments--;
        }
    }
}

INLINE void output_end(void) {
    if (outputs[output_count].segments > 0)
        output_count++;
}

// Headers

INLINE uint8_t **element_slot(uint8_t **first, unsigned size, uint64_t index) {
    static uint8_t *nowhere;
    if (index < size)
        return first + index;
    nowhere = zeros;
    return &nowhere;
}

INLINE uint8_t *element(uint8_t **first, unsigned size, uint64_t index) {
    return index < size ? first[index] : zeros;
}

INLINE bool same_header(const uint8_t *x, const uint8_t *y, size_t n) {
    return x != zeros && y != zeros && memcmp(x, y, n) == 0;
}

INLINE bool header_add(uint8_t **slot, size_t n) {
    if (*slot != zeros)
        return false;
    uint8_t *p = arena_take(n);
    if (p == NULL)
        return false;
    memset(p, 0, n);
    *slot = p;
    return true;
}

INLINE bool header_remove(uint8_t **slot) {
    const bool was = *slot != zeros;
    *slot = zeros;
    return was;
}

INLINE void header_copy(uint8_t **to, uint8_t *from, size_t n) {
    if (from == zeros) {
        *to = zeros;
        return;
    }
    if (*to == zeros) {
        uint8_t *p = arena_take(n);
        if (p == NULL)
            return;
        *to = p;
    }
    memmove(*to, from, n);
}

// A separate image, for a copy of the packet that will change it.
INLINE void header_own(uint8_t **slot, size_t n) {
    if (*slot != zeros) {
        uint8_t *p = arena_take(n);
        if (p != NULL)
            memcpy(p, *slot, n);
        *slot = p != NULL ? p : zeros;
    }
}

// P4-16's push_front: the first `count` elements become invalid.
static inline __attribute__((unused)) void stack_push(uint8_t **first, unsigned size,
                                                      unsigned count, uint64_t *next) {
    for (unsigned i = size; i-- > 0;)
        first[i] = i >= count ? first[i - count] : zeros;
    *next = *next + count < size ? *next + count : size;
}

static inline __attribute__((unused)) void stack_pop(uint8_t **first, unsigned size,
                                                     unsigned count, uint64_t *next) {
    for (unsigned i = 0; i < size; i++)
        first[i] = count < size - i ? first[i + count] : zeros;
    *next = *next > count ? *next - count : 0;
}

// assert() and assume()
static __attribute__((unused, noreturn)) void claim_failed(const char *text) {
    fprintf(stderr, "%s\n", text);
    exit(1);
}

// Arithmetic that v1model defines and C does not

INLINE uint64_t quotient(uint64_t x, uint64_t y) {
    return y ? x / y : 0;
}

INLINE uint64_t remainder_of(uint64_t x, uint64_t y) {
    return y ? x % y : 0;
}

INLINE __int128 clamp(__int128 x, __int128 low, __int128 high) {
    return x < low ? low : x > high ? high : x;
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;

// Nearly uniform over low..high; BMv2 leaves the target unchanged if low > high.
INLINE uint64_t random_between(uint64_t low, uint64_t high) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    const uint64_t span = high - low + 1;
    return low + (uint64_t)(((unsigned __int128)random_state * span) >> 64) +
           (span == 0 ? random_state : 0);
}

#endif
