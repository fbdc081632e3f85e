#include "driver.h"

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

static uint8_t *arrived(const struct node *node, struct link *link, uint32_t ahead, uint32_t *size)
{
    const uint32_t taken = atomic_load_explicit(&link->taken, memory_order_relaxed);
    uint8_t *slot = slot_of(node, link, taken + ahead);
    memcpy(size, slot, sizeof *size);
    return slot;
}

/* Sends what the engine has queued. Each packet is first written to the link that was used last,
   and moved if it belongs on another link. */
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
        slot_fill(slot, whole, 0);
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
            const uint8_t *slot = arrived(node, link, n, &size);
            calls->take(engine, packet_of(slot), size - HEADERS, now);
        }
        took(link, count);
        busy |= count > 0;
    }
    calls->pump(engine, now);
    busy |= send_all(node, engine, calls);
    node_publish(node);
    return busy;
}

static uint32_t *readers_of(const struct node *node, const struct way *way, uint32_t number)
{
    const size_t slot = (size_t)(way - node->ways) * node->frames + (number & (node->frames - 1));
    return node->readers + slot * node->ways_count;
}

static bool *shared_of(const struct node *node, const struct way *way, uint32_t number)
{
    return &node->shared[(way - node->ways) * node->frames + (number & (node->frames - 1))];
}

/* Whether a way's next slot is free, and nobody reads another's frame there. */
static bool is_free(const struct node *node, const struct way *way)
{
    if (!has_room(node, way))
        return false;
    bool *shared = shared_of(node, way, way->sent);
    const uint32_t *readers = readers_of(node, way, way->sent);
    for (uint32_t i = 0; *shared && i < node->ways_count; i++) {
        const uint32_t taken =
            atomic_load_explicit(&node->ways[i].link->taken, memory_order_acquire);
        if ((int32_t)(taken - readers[i]) < 0)
            return false;
    }
    *shared = false;
    return true;
}

/* Whether the first copy can be read instead of this one, which has the same values. */
static bool is_shared(const struct node *node, const struct way *way, const uint8_t *start,
                      const uint8_t *values)
{
    if (values != node->values || !way->to_host)
        return false;
    const uint8_t *first = slot_of(node, node->first->link, node->first_number);
    return !memcmp(packet_of(first), start + HEADERS, ALL_HEADERS - HEADERS);
}

/* A frame is read in the slot that the first copy has just filled. */
static void share(struct node *node, struct way *way, uint8_t *slot, const uint8_t *headers)
{
    uint32_t *readers = readers_of(node, node->first, node->first_number);
    bool *shared = shared_of(node, node->first, node->first_number);
    for (uint32_t i = 0; !*shared && i < node->ways_count; i++)
        readers[i] = atomic_load_explicit(&node->ways[i].link->taken, memory_order_relaxed);
    *shared = true;
    readers[way - node->ways] = way->sent;
    slot_fill(slot, node->full, slot_of(node, node->first->link, node->first_number) - slot);
    memcpy(slot + FRAME_AT, headers, HEADERS);
}

/* A packet that leaves the switch goes to the node to which it is addressed. Copies for hosts share
   the values in the frame that has arrived. */
static void put(void *owner, unsigned port, const struct iovec *pieces, unsigned count)
{
    struct node *node = owner;
    (void)port;
    uint8_t start[ALL_HEADERS];
    size_t known = 0, size = 0;
    for (unsigned i = 0; i < count; i++) {
        const size_t room = sizeof start - known, length = pieces[i].iov_len;
        memcpy(start + known, pieces[i].iov_base, length < room ? length : room);
        known += length < room ? length : room;
        size += length;
    }
    uint32_t to;
    memcpy(&to, start + DESTINATION, sizeof to);
    struct way *way = known >= DESTINATION + sizeof to ? way_to(node, to) : NULL;
    if (!way || !is_free(node, way) || size > node->full) {
        node->dropped++;
        return;
    }
    uint8_t *slot = slot_of(node, way->link, way->sent++);
    const struct iovec *last = &pieces[count - 1];
    const uint8_t *values = last->iov_base;
    const bool alone = last->iov_len + ALL_HEADERS == node->full && values >= node->frame &&
                       values + last->iov_len <= node->frame_end;
    if (alone && is_shared(node, way, start, values)) {
        share(node, way, slot, start);
        return;
    }
    slot_fill(slot, (uint32_t)size, 0);
    uint8_t *at = slot + FRAME_AT;
    for (unsigned i = 0; i < count; i++) {
        memcpy(at, pieces[i].iov_base, pieces[i].iov_len);
        at += pieces[i].iov_len;
    }
    if (alone && way->to_host) {
        node->values = values;
        node->first = way;
        node->first_number = way->sent - 1;
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
            uint8_t *frame = arrived(node, link, n, &size) + FRAME_AT;
            node->frame = frame;
            node->frame_end = frame + size;
            node->values = NULL;
            calls->process(i + 1, frame, size, microseconds);
        }
        took(link, count);
        busy |= count > 0;
    }
    node_publish(node);
    return busy;
}
