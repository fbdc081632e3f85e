// Packets that pass through the switch again: clones of either kind, resubmitted and recirculated
// packets. Each is a pass with its own memory, and waits until the packet that made it is done.
#ifndef PASS_H
#define PASS_H

#include "packet.h"

#define MAX_PASSES 4096 // passes caused by one packet; a program may request endless ones
#define MAX_SESSIONS (1 << 15)

enum instance { INGRESS_CLONE = 1, EGRESS_CLONE = 2, RECIRCULATED = 4, RESUBMITTED = 6 };

struct pass {
    struct pass *next;
    enum instance instance;
    unsigned session; // of a clone
    size_t length;
    struct state state; // its metadata are the kept ones
    struct wide wide;
    uint8_t bytes[]; // the packet; for EGRESS_CLONE its valid headers in order, then the payload
};

struct mirror {
    bool set, multicast;
    uint16_t to; // port or group
};

static struct mirror mirrors[MAX_SESSIONS];
static struct pass *waiting, **waiting_end = &waiting;
static struct pass *spent; // done, but their packets may not have left yet
static unsigned passes;    // of the current packet: through egress, and waiting
static uint8_t original[MAX_PACKET];

// A waiting pass with the metadata of a field list; NULL if there are too many.
static struct pass *pass_new(enum instance instance, size_t length, unsigned list,
                             const struct state *s, const struct wide *w) {
    if (++passes > MAX_PASSES) {
        endless++;
        return NULL;
    }
    struct pass *p;
    if (posix_memalign((void **)&p, 64, sizeof *p + length) != 0)
        abort();
    memset(p, 0, sizeof *p); // not the bytes
    p->instance = instance;
    p->length = length;
    preserve(list, s, w, &p->state, &p->wide);
    p->state.port = s->port;
    *waiting_end = p;
    waiting_end = &p->next;
    return p;
}

static void passes_free(void) {
    while (spent != NULL) {
        struct pass *p = spent;
        spent = p->next;
        free(p);
    }
}

// A clone of the packet as it came in, to be parsed again.
static void clone_ingress(struct state *s, const struct wide *w) {
    const unsigned session = s->clone % MAX_SESSIONS;
    s->clone = 0;
    if (!mirrors[session].set)
        return;
    struct pass *p = pass_new(INGRESS_CLONE, s->received, s->clone_list, s, w);
    if (p == NULL)
        return;
    p->session = session;
    memcpy(p->bytes, original, s->received);
}

static void resubmit(struct state *s, const struct wide *w) {
    struct pass *p = pass_new(RESUBMITTED, s->received, s->resubmit, s, w);
    if (p != NULL)
        memcpy(p->bytes, original, s->received);
}

// A clone of the packet after egress, with its current headers.
static void clone_egress(struct state *s, const struct wide *w) {
    const unsigned session = s->clone % MAX_SESSIONS;
    s->clone = 0;
    if (!mirrors[session].set)
        return;
    const size_t payload = (size_t)(s->end - s->cursor);
    size_t length = payload;
    for (unsigned i = 0; i < HEADERS; i++)
        length += s->h[i] == zeros ? 0 : header_bytes[i];
    struct pass *p = pass_new(EGRESS_CLONE, length, s->clone_list, s, w);
    if (p == NULL)
        return;
    p->session = session;
    const struct metadata kept = p->state.m;
    p->state = *s;
    p->state.m = kept;
    p->state.recirculate = 0;
    uint8_t *to = p->bytes;
    for (unsigned i = 0; i < HEADERS; i++)
        if (s->h[i] != zeros) {
            memcpy(to, s->h[i], header_bytes[i]);
            p->state.h[i] = to;
            to += header_bytes[i];
        }
    memcpy(to, s->cursor, payload);
    p->state.cursor = to;
    p->state.end = to + payload;
}

// The deparsed packet is parsed again; truncate() does not apply to it, as in BMv2.
static void recirculate(struct state *s, const struct wide *w) {
    output_begin(0);
    deparse(s);
    output_segment(s->cursor, (size_t)(s->end - s->cursor));
    const struct output *const o = &outputs[output_count];
    segment_count = o->first; // undo the output
    if (o->bytes > MAX_PACKET) {
        oversize++;
        return;
    }
    struct pass *const p = pass_new(RECIRCULATED, o->bytes, s->recirculate, s, w);
    uint8_t *to = p != NULL ? p->bytes : NULL;
    for (unsigned i = 0; p != NULL && i < o->segments; i++) {
        const struct iovec *const v = &segments[o->first + i];
        memcpy(to, v->iov_base, v->iov_len);
        to += v->iov_len;
    }
}

#endif
