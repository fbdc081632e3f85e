/* A UDP socket: what leaves in one turn leaves in few calls, and so does what has arrived. */
#ifndef SOCKET_H
#define SOCKET_H

#include "flow.h"

enum {
    BATCH = 64, /* packets per system call: their values stay in the first caches */
    LONGEST_PACKET = LONGEST_HEAD + sizeof(int32_t[VALUES]),
};

struct socket {
    int fd;
    uint16_t port;
    int burst;    /* packets that may leave back to back, as one long datagram */
    bool blocked; /* it is full; try again soon */
    size_t sizes[BATCH]; /* of what has arrived; 0 if it was longer than any packet */
    struct {
        _Alignas(8) uint8_t bytes[LONGEST_PACKET];
    } arrived[BATCH];
    int32_t staged[BATCH][VALUES];
};

int socket_open(struct socket *made, uint32_t address, uint16_t port, int burst);
int socket_receive(struct socket *from); /* how many are there now, at most BATCH; or -errno */

/* Sends what the socket takes of a flow's queue; 0, or -errno. */
int socket_flush(struct socket *through, struct flow *flow, struct queue *queue);

#endif
