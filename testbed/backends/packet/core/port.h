/* One end of a link: a queue in bytes, the transmitter, and the wire to the other end. */
#ifndef PORT_H
#define PORT_H

#include <stddef.h>

#include "clock.h"
#include "packet.h"
#include "ring.h"

struct frame {
    struct packet *packet;
    instant starts, arrives;
    uint64_t order;
    uint32_t bytes; /* of the packet, which is not in the cache when it begins */
};

/* Each frame that was sent, and each duplicate, is lost, corrupted or delivered. */
struct port_counters {
    uint64_t sent_bytes, sent_frames, dropped, lost, duplicated;
    uint64_t most_waiting; /* bytes */
    uint64_t corrupted, delivered;
};

/* What a link does to frames: shares of 2^64. The receiver drops a corrupted frame by its checksum
   (FCS). A frame that is held up arrives at most `longest` later, and others overtake it. */
struct impairment {
    uint64_t loss, duplication, corruption, delay;
    instant longest;
};

struct late; /* a frame that was held up */

struct network;

struct port {
    struct event arrival;       /* of the first frame on the wire */
    struct network *network;
    uint32_t from, to, to_port; /* nodes, and the number of the port at the other end */
    int64_t rate;               /* bit/s */
    instant delay;              /* propagation */
    instant each;               /* of each packet, besides the time of its bytes */
    /* For a shaper: what an idle link may send at once, as a time. A shaper passes a frame on and
       then counts it (HTB), so the frame arrives when its transmission would begin. 0: a plain
       wire. */
    instant burst;
    uint64_t limit;             /* bytes that may wait; a frame beyond that is dropped */
    instant jitter;             /* an idle host starts to send up to so much later */
    struct impairment impaired;
    uint64_t random;            /* state */
    bool is_down;

    uint64_t waiting; /* bytes of frames whose transmission has not begun */
    instant free_at;
    struct ring frames; /* on the wire, in transmission, waiting */
    uint32_t begun;     /* the first that waits */
    struct late *late;  /* all that there ever were at once, some of them in use */
    struct port_counters counters;
};

void port_open(struct port *port, struct network *network);
void port_close(struct port *port);

/* Queues `packet`, which belongs to the port from then on. Returns when its transmission begins;
   NEVER if it was dropped, or lost because the link is down. */
instant port_send(struct port *port, struct packet *packet, instant now);

/* The number of frames that are on the wire, in transmission, waiting or held up. */
uint32_t port_holds(const struct port *port);

/* Bytes that wait at `now`. */
uint64_t port_waiting(struct port *port, instant now);

/* Frames that wait at `now`, without the one in transmission. */
uint32_t port_depth(struct port *port, instant now);

#endif
