#include "driver.h"

#include <string.h>
#include <time.h>

double monotonic(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint32_t batch_of(struct link *link)
{
    const uint32_t count = waiting(link);
    return count < BATCH ? count : BATCH;
}

static void took(struct link *link, uint32_t count)
{
    const uint32_t before = atomic_load_explicit(&link->taken, memory_order_relaxed);
    atomic_store_explicit(&link->taken, before + count, memory_order_release);
}

static uint8_t *frame_of(const struct node *node, struct link *link, uint32_t ahead, uint32_t *size)
{
    const uint32_t taken = atomic_load_explicit(&link->taken, memory_order_relaxed);
    uint8_t *slot = slot_of(node, link, taken + ahead);
    memcpy(size, slot, sizeof *size);
    return slot + FRAME_AT;
}

/* Sends what the engine has queued. Its next packet is written into the link that was used last,
   and moved if it is for another one. */
static bool send_all(struct node *node, void *engine, const struct engine_calls *calls)
{
    struct way *way = node->ways;
    bool sent = false;
    while (node->ways_count && has_room(node, way)) {
        uint8_t *slot = slot_of(node, way->link, way->sent);
        uint32_t to;
        const size_t size = calls->next(engine, slot + FRAME_AT + HEADERS, &to);
        if (!size)
            return sent;
        if (to != way->address) {
            struct way *other = way_to(node, to);
            if (!other || !has_room(node, other)) {
                node->dropped++;
                continue;
            }
            uint8_t *moved = slot_of(node, other->link, other->sent);
            memcpy(moved + FRAME_AT + HEADERS, slot + FRAME_AT + HEADERS, size);
            way = other;
            slot = moved;
        }
        const uint32_t whole = (uint32_t)(HEADERS + size);
        memcpy(slot, &whole, sizeof whole);
        memcpy(slot + FRAME_AT, way->headers[whole != node->full], HEADERS);
        way->sent++;
        sent = true;
    }
    return sent;
}

bool drive_engine(struct node *node, void *engine, const struct engine_calls *calls, double now)
{
    bool busy = false;
    for (uint32_t i = 0; i < node->arriving_count; i++) {
        struct link *link = node->arriving[i];
        const uint32_t count = batch_of(link);
        for (uint32_t n = 0; n < count; n++) {
            uint32_t size;
            const uint8_t *frame = frame_of(node, link, n, &size);
            calls->take(engine, frame + HEADERS, size - HEADERS, now);
        }
        took(link, count);
        busy |= count > 0;
    }
    calls->pump(engine, now);
    busy |= send_all(node, engine, calls);
    node_publish(node);
    return busy;
}

/* A packet leaves the switch: it goes to the node that it is addressed to. */
static void put(void *owner, unsigned port, const struct iovec *pieces, unsigned count)
{
    struct node *node = owner;
    (void)port;
    uint8_t start[DESTINATION + 4];
    size_t known = 0, size = 0;
    for (unsigned i = 0; i < count; i++) {
        const size_t room = sizeof start - known, length = pieces[i].iov_len;
        memcpy(start + known, pieces[i].iov_base, length < room ? length : room);
        known += length < room ? length : room;
        size += length;
    }
    uint32_t to;
    memcpy(&to, start + DESTINATION, sizeof to);
    struct way *way = known == sizeof start ? way_to(node, to) : NULL;
    if (!way || !has_room(node, way) || size > node->full) {
        node->dropped++;
        return;
    }
    uint8_t *slot = slot_of(node, way->link, way->sent++);
    const uint32_t whole = (uint32_t)size;
    memcpy(slot, &whole, sizeof whole);
    uint8_t *at = slot + FRAME_AT;
    for (unsigned i = 0; i < count; i++) {
        memcpy(at, pieces[i].iov_base, pieces[i].iov_len);
        at += pieces[i].iov_len;
    }
}

static unsigned no_depth(void *owner, unsigned port)
{
    (void)owner, (void)port;
    return 0;
}

bool drive_switch(struct node *node, const struct switch_calls *calls, double now)
{
    bool busy = false;
    const uint64_t microseconds = (uint64_t)(now * 1e6);
    calls->attach(node, put, no_depth);
    for (uint32_t i = 0; i < node->arriving_count; i++) {
        struct link *link = node->arriving[i];
        const uint32_t count = batch_of(link);
        for (uint32_t n = 0; n < count; n++) {
            uint32_t size;
            uint8_t *frame = frame_of(node, link, n, &size);
            calls->process(i + 1, frame, size, microseconds);
        }
        took(link, count);
        busy |= count > 0;
    }
    node_publish(node);
    return busy;
}
