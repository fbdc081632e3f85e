/* One rank's pair of reliable connections on a ring of hosts (NetReduce over RoCEv2): it sends its
   values to the next rank and receives from the one before, and switches on the way put the sum in
   their place. The interface that ring.py loads. */
#ifndef RING_H
#define RING_H

#include <stdint.h>

struct ring_role {
    uint16_t tree;
    uint8_t rank;
    uint32_t to;       /* whereto its values go, in network order: a switch, or who is after it */
    uint32_t after;    /* the rank that it sends to: whereto a sum goes that is sent again */
    uint32_t before;   /* the rank that it receives from, and acknowledges to */
    uint32_t outgoing; /* numbers of the two connections */
    uint32_t incoming;
    uint32_t message; /* packets in a message, at most */
    uint32_t window;  /* messages in flight */
};

struct ring;

struct ring *ring_open(uint32_t address, const struct ring_role *role, double tick, int *error);
void ring_close(struct ring *ring);
int ring_descriptor(const struct ring *ring);
int ring_push(struct ring *ring, int32_t *values, uint64_t fragments);
uint64_t ring_done(const struct ring *ring);
uint64_t ring_retransmitted(const struct ring *ring);
int ring_wait(struct ring *ring, double deadline, int other); /* as endpoint_wait */

#endif
