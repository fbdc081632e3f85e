/* Packets to be sent to one address. Only their headers are stored; values are added when they
   leave. */
#ifndef QUEUE_H
#define QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LONGEST_HEAD = 40 };

struct outgoing {
    uint64_t fragment;
    _Alignas(8) uint8_t head[LONGEST_HEAD];
    uint8_t size; /* of the head */
    bool with_values;
};

struct queue {
    uint32_t to;    /* the address, in network order */
    struct outgoing *packets; /* ring of `mask` + 1 */
    uint32_t mask, head, tail;
};

int queue_open(struct queue *queue, uint32_t address, uint32_t least);
void queue_close(struct queue *queue);

static inline bool queue_is_empty(const struct queue *queue)
{
    return queue->head == queue->tail;
}

/* Returns false if the queue is full. */
static inline bool queue_put(struct queue *queue, uint64_t fragment, const void *head, size_t size,
                             bool with_values)
{
    if (queue->tail - queue->head > queue->mask)
        return false;
    struct outgoing *packet = &queue->packets[queue->tail++ & queue->mask];
    packet->fragment = fragment;
    packet->size = (uint8_t)size;
    packet->with_values = with_values;
    memcpy(packet->head, head, size);
    return true;
}

#endif
