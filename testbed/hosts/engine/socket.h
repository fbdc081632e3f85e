/* A UDP socket that sends and receives many packets per system call. */
#ifndef SOCKET_H
#define SOCKET_H

#include "flow.h"

enum {
    BATCH = 64, /* packets per system call: few enough that their values stay in L1 or L2 */
    LONGEST_PACKET = LONGEST_HEAD + sizeof(int32_t[VALUES]),
};

struct socket {
    int fd;
    uint16_t port;
    int burst;    /* packets that may leave back to back, as one long datagram */
    bool is_wide; /* the send buffer has room for bursts */
    bool blocked; /* the send buffer is full; try again soon */
    size_t sizes[BATCH]; /* of arrived packets; 0 if longer than any valid one */
    struct {
        _Alignas(8) uint8_t bytes[LONGEST_PACKET];
    } arrived[BATCH];
    int32_t staged[BATCH][VALUES];
};

int socket_open(struct socket *made, uint32_t address, uint16_t port, int burst);
int socket_receive(struct socket *from); /* number of packets, at most BATCH; or -errno */

/* Sends as much of a flow's queue as the socket accepts; 0, or -errno. */
int socket_flush(struct socket *through, struct flow *flow, struct queue *queue);

#endif
