// The switch as a library without ports or clock: its caller supplies packets and times. A library
// is one switch, whose state is in static memory.
#ifndef EMBEDDED_H
#define EMBEDDED_H

#include "pipeline.h"
#include "reply.h"
#include "requests.h"

typedef void put_packet(void *owner, unsigned port, const struct iovec *pieces, unsigned count);
typedef unsigned depth_of(void *owner, unsigned port);

static void *switch_owner;
static put_packet *switch_put;
static depth_of *switch_depth;

static void flush(void) {
    for (unsigned n = 0; n < output_count; n++)
        switch_put(switch_owner, outputs[n].port, &segments[outputs[n].first],
                   outputs[n].segments);
    output_count = segment_count = 0;
#if PASSES
    passes_free();
#endif
}

static __attribute__((unused)) unsigned queue_depth(unsigned port) {
    return switch_depth(switch_owner, port);
}

static uint32_t other_request(char op, struct request *r) {
    (void)op, (void)r;
    return MALFORMED;
}

void switch_open(uint64_t seed) {
    random_state ^= seed * 0x2545f4914f6cdd1du;
    arena_reset(0);
    hash_setup();
    install();
}

// Sets the functions that take outgoing packets, and that tell how many frames wait at a port.
void switch_attach(void *owner, put_packet *put, depth_of *depth) {
    switch_owner = owner;
    switch_put = put;
    switch_depth = depth;
}

// Returns 0, or why the request was refused; the answer is valid until the next request.
uint32_t switch_request(const uint8_t *message, size_t size, const uint8_t **answered,
                        size_t *length) {
    reply_used = 0;
    const uint32_t refused = answer((struct request){message, size});
    *answered = reply;
    *length = reply_used;
    return refused;
}

// The cells of a register, each of `cell` bytes; NULL if there is no such register.
const void *switch_register(unsigned index, unsigned *size, unsigned *cell) {
    if (index >= register_count)
        return NULL;
    *size = registers[index].size;
    *cell = registers[index].cell;
    return registers[index].cells;
}

// Processes a packet in place.
void switch_process(unsigned port, uint8_t *packet, size_t length, uint64_t microseconds) {
    now = microseconds;
    process(port, packet, length);
    outputs_done(0);
}

#endif
