// The stages of a packet in the switch, as in BMv2's simple_switch: parser, ingress, what ingress
// requested, egress once per copy, checksums, deparser.
//
// The program defines struct state, the four stages, and which parts of this file it needs:
//   SET(field, value), GET(field)   a field of the standard metadata
//   HEADERS                         number of headers, and with PASSES header_bytes[] of each
//   SEGMENTS                        the most segments of an outgoing packet
//   EGRESS_SCRATCH                  bytes of the arena that one pass through egress may take
//   PASSES                          clones, resubmits or recirculates (pass.h)
//   TRUNCATES                       calls truncate()
//   QUEUE_DEPTH                     reads a queue's length
#ifndef PIPELINE_H
#define PIPELINE_H

#include "packet.h"
#if PASSES
#include "pass.h"
#endif

#define REPLICATION 5 // instance_type of a multicast copy

#define SET(field, value) SET_##field(value)
#define GET(field) GET_##field

#if PASSES
#define STAGE static // called from several places
#else
#define STAGE INLINE
#endif

INLINE void arrive(struct state *s, uint8_t *packet, size_t length) {
    s->cursor = packet;
    s->end = packet + length;
    s->received = s->length = length;
    for (unsigned i = 0; i < HEADERS; i++)
        s->h[i] = zeros;
#if TRUNCATES
    s->limit = SIZE_MAX;
#endif
    output_room(SEGMENTS, ARENA / 2, 0);
}

// Egress and deparser, for a packet or one copy of it.
STAGE void leave(struct state *s, struct wide *w, unsigned port) {
#if PASSES
    passes++;
#endif
    SET(egress_port, port);
    SET(egress_spec, 0);
    SET(packet_length, s->length);
    SET(egress_global_timestamp, now);
#if QUEUE_DEPTH
    // The queue is the interface's, after egress: the packet has not waited in it yet.
    const unsigned depth = queue_depth(port);
    SET(enq_timestamp, now);
    SET(enq_qdepth, depth);
    SET(deq_qdepth, depth);
#endif
    egress(s, w);
    s->exit = false;
#if PASSES
    if (s->clone != 0)
        clone_egress(s, w);
#endif
    if (GET(egress_spec) == DROP_PORT)
        return;
    update_checksums(s, w);
#if PASSES
    if (s->recirculate != 0) {
        recirculate(s, w);
        return;
    }
#endif
    output_begin(port);
    deparse(s);
    output_segment(s->cursor, (size_t)(s->end - s->cursor));
#if TRUNCATES
    output_truncate(s->limit);
#endif
    output_end();
}

// A copy shares the payload and the header images that egress does not change.
STAGE void multicast(const struct state *from, const struct wide *wide, unsigned id) {
    const struct group *const group = groups[id];
    const size_t keep = arena_used;
    for (unsigned i = 0; group != NULL && i < group->count; i++) {
        struct state copy = *from, *const s = &copy;
        struct wide wide_copy, *const w = &wide_copy;
        copy_wide(w, wide);
        output_room(SEGMENTS, EGRESS_SCRATCH, keep);
        if (i + 1 < group->count)
            own_headers(s);
#if PASSES
        s->clone = s->recirculate = 0;
#endif
#if TRUNCATES
        s->limit = SIZE_MAX;
#endif
        SET(egress_rid, group->replicas[i].rid);
        leave(s, w, group->replicas[i].port);
    }
}

// Runs all stages from the parser on; the caller has set the packet's initial metadata.
STAGE void enter(struct state *s, struct wide *w, uint8_t *packet, size_t length) {
    arrive(s, packet, length);
#if PASSES
    memcpy(original, packet, length);
#endif
    parse(s, w);
    ingress(s, w);
    s->exit = false;
#if PASSES
    if (s->clone != 0)
        clone_ingress(s, w);
    if (s->resubmit != 0) {
        resubmit(s, w);
        return;
    }
#endif
    if (GET(mcast_grp) != 0) {
        SET(instance_type, REPLICATION);
        multicast(s, w, (unsigned)GET(mcast_grp));
    } else if (GET(egress_spec) != DROP_PORT) {
        SET(instance_type, 0);
        leave(s, w, (unsigned)GET(egress_spec));
    }
}

#if PASSES

// Sends a clone to its session's destination.
static void deliver(struct pass *p) {
    struct state *const s = &p->state;
    const struct mirror *const mirror = &mirrors[p->session];
    SET(instance_type, p->instance);
#if TRUNCATES
    s->limit = SIZE_MAX;
#endif
    if (mirror->multicast)
        multicast(s, &p->wide, mirror->to);
    else
        leave(s, &p->wide, mirror->to);
}

static void run(struct pass *p) {
    struct state *const s = &p->state;
    if (p->instance == INGRESS_CLONE) { // parsed as on arrival, but with the kept metadata
        const struct metadata kept = s->m;
        struct wide scratch;
        memset(&scratch, 0, sizeof scratch);
        memset(&s->m, 0, sizeof s->m);
        SET(ingress_port, s->port);
        arrive(s, p->bytes, p->length);
        parse(s, &scratch);
        s->m = kept;
        deliver(p);
    } else if (p->instance == EGRESS_CLONE) {
        output_room(SEGMENTS, ARENA / 2, 0);
        deliver(p);
    } else {
        SET(instance_type, p->instance);
        SET(packet_length, p->length);
        enter(s, &p->wide, p->bytes, p->length);
    }
}

static void run_passes(void) {
    while (waiting != NULL) {
        struct pass *const p = waiting;
        if (passes > MAX_PASSES)
            endless++;
        else
            run(p);
        waiting = p->next;
        p->next = spent;
        spent = p;
    }
    waiting_end = &waiting;
    passes = 0;
}

#endif

static void process(unsigned port, uint8_t *packet, size_t length) {
    struct state state = {0}, *const s = &state;
    struct wide wide, *const w = &wide;
    clear_wide(w);
    SET(ingress_port, port);
    SET(packet_length, length);
    SET(ingress_global_timestamp, now);
#if PASSES
    s->port = port;
#endif
    enter(s, w, packet, length);
#if PASSES
    run_passes();
#endif
}

#endif
