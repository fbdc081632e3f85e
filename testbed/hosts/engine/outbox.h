/* The socket, and a queue of headers per address: what leaves in one turn leaves in few calls. */
#ifndef OUTBOX_H
#define OUTBOX_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "packet.h"

enum { BATCH = 64 }; /* packets per system call: their values stay in the first caches */

struct queue {
    struct sockaddr_in to;
    uint64_t ranks;          /* whose contributions come from there, as a mask */
    struct header *headers;  /* ring of `mask` + 1 */
    uint32_t mask, head, tail;
};

struct outbox {
    int fd;
    int burst;    /* packets that may leave back to back, as one long datagram */
    bool blocked; /* the socket is full; try again soon */
    struct packet arrived[BATCH];
    int32_t staged[BATCH][VALUES];
};

int queue_open(struct queue *queue, uint32_t address, uint64_t ranks, uint32_t least);
void queue_close(struct queue *queue);
bool queue_put(struct queue *queue, const struct header *header); /* false: no room */

static inline bool queue_is_empty(const struct queue *queue)
{
    return queue->head == queue->tail;
}

int outbox_open(struct outbox *outbox, uint32_t address, int burst);

/* Takes what is there, at most BATCH: how many, or -errno; and which have a packet's length. */
int outbox_receive(struct outbox *outbox, bool *whole);

/* The values for a header in the order of the wire, possibly made in `stage`; NULL drops it. */
typedef const int32_t *values_of(void *context, const struct header *header, int32_t *stage);

/* Sends what the socket takes of the queue; 0, or -errno. */
int outbox_flush(struct outbox *outbox, struct queue *queue, values_of *values, void *context);

static inline bool carries_values(uint8_t kind)
{
    return kind == KIND_DATA || kind == KIND_RESULT;
}

#endif
