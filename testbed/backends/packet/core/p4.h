/* A switch that runs a compiled P4 program (testbed/switches/native/runtime/embedded.h). */
#ifndef P4_H
#define P4_H

#include <sys/uio.h>

#include "network.h"

struct p4_calls {
    void (*attach)(void *owner,
                   void (*put)(void *owner, unsigned port, const struct iovec *pieces,
                               unsigned count),
                   unsigned (*depth)(void *owner, unsigned port));
    void (*process)(unsigned port, uint8_t *packet, size_t length, uint64_t microseconds);
};

struct p4 {
    struct node *node;
    struct p4_calls calls;
    struct port *adder;   /* passes contributions one after another; NULL without a limit */
    struct packet *taken; /* the packet that the program processes */
    instant now;
};

/* `adds`: how long the switch takes to add the values of one packet; 0 for no limit. */
void p4_open(struct p4 *p4, struct node *node, const struct p4_calls *calls, instant adds);

void p4_close(struct p4 *p4);

#endif
