/* The packets of one link, in both directions, in a pcap file with times in nanoseconds, as tcpdump
   writes it at one of the link's ends. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include "network.h"

struct capture;

/* Captures at `port`. NULL, with errno, if the file cannot be written. */
struct capture *capture_open(const struct port *port, const char *path);

const struct port *capture_port(const struct capture *capture);

/* A packet leaves by the port at `starts`, which may be later than `now`. */
void capture_left(struct capture *capture, const struct packet *packet, instant starts, instant now);

/* A packet arrives by the port. */
void capture_arrived(struct capture *capture, const struct packet *packet, instant now);

/* Writes what has left by `now`. Returns 0, or errno if the file is incomplete. */
int capture_close(struct capture *capture, instant now);

#endif
