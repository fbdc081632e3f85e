/* Ethernet, IPv4, UDP and TCP headers, as bytes for the P4 program, and back. */
#ifndef FRAME_H
#define FRAME_H

#include "network.h"

enum { ETHERNET = 14, IPV4 = 20, UDP_HEADERS = ETHERNET + IPV4 + 8, TCP_HEADERS = ETHERNET + IPV4 + 20 };
enum { TCP_LONGEST = TCP_HEADERS + 40 };

/* A new packet with room for data. */
struct packet *packet_with_data(struct network *network);

/* Writes the headers of `packet`, by its key, before `size` bytes of payload; sets its length. */
void frame_udp(struct packet *packet, size_t size);

/* The headers of a TCP segment with `key`; their length. */
size_t frame_tcp(uint8_t *bytes, const struct flow_key *key);

/* The headers of a segment, TCP_LONGEST bytes at most, as if every byte of data were 0; their length.
   A stream begins with sequence number 1, and its acknowledgements carry no data. Timestamps count
   microseconds; an acknowledgement has only the echo, its own is not modelled and 0. */
size_t frame_segment(uint8_t *bytes, const struct packet *packet);

/* Makes the headers of a UDP packet those of one that is longer by `more` bytes. */
void frame_lengthen(uint8_t *bytes, uint32_t more);

/* The key of a frame; false if it is not IPv4 over UDP or TCP. */
bool frame_key(const uint8_t *bytes, size_t length, struct flow_key *key);

#endif
