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

/* Writes the headers of a TCP segment with `key`; returns their length. */
size_t frame_tcp(uint8_t *bytes, const struct flow_key *key);

/* Writes the headers of a segment, at most TCP_LONGEST bytes, as if every byte of data were 0;
   returns their length. A stream begins with sequence number 1, and its acknowledgements carry no
   data. Timestamps count microseconds. An acknowledgement has only the echo; its own timestamp is
   not modelled, and is 0. */
size_t frame_segment(uint8_t *bytes, const struct packet *packet);

/* Changes the headers of a UDP packet to those of one that is longer by `more` bytes. */
void frame_lengthen(uint8_t *bytes, uint32_t more);

/* Reads the key of a frame; false if it is not UDP or TCP over IPv4. */
bool frame_key(const uint8_t *bytes, size_t length, struct flow_key *key);

#endif
