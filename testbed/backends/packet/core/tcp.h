/* TCP as Linux has it, where it decides how long a transfer takes: slow start and Reno's congestion
   avoidance (RFC 5681), recovery by SACK with proportional rate reduction (RFC 6675, RFC 6937),
   losses found by time and tail loss probes (RACK-TLP, RFC 8985), retransmission timeouts with
   back-off (RFC 6298), delayed acknowledgements, a receive window, and small queues: a sender keeps
   little in its own host's queue. A connection carries one stream in one direction. */
#ifndef TCP_H
#define TCP_H

#include "network.h"

struct tcp_settings {
    uint32_t mss;              /* bytes of data in a full segment, timestamps allowed for */
    uint32_t overhead;         /* bytes of headers on a link, Ethernet's among them */
    uint32_t initial_window;   /* segments */
    uint64_t receive_window;   /* bytes */
    uint64_t small_queue;      /* bytes that may wait in the host's own port */
    instant least_timeout, longest_timeout, first_timeout;
    instant acknowledge_delay;
};

struct tcp_counters {
    uint64_t segments, retransmitted, timeouts, recoveries, probes;
};

struct tcp;

struct tcp *tcp_open(struct network *network, const struct tcp_settings *settings);
void tcp_close(struct tcp *tcp);

/* A new connection between two hosts; its number. */
uint32_t tcp_connect(struct tcp *tcp, uint32_t source, uint32_t to, uint16_t source_port,
                     uint16_t to_port);

/* Appends to the stream. */
void tcp_write(struct tcp *tcp, uint32_t connection, uint64_t bytes);

/* Bytes that have arrived, in order. */
uint64_t tcp_received(const struct tcp *tcp, uint32_t connection);

const struct tcp_counters *tcp_counters(const struct tcp *tcp, uint32_t connection);

/* Lets `arrived` be called when the stream has reached `position`. */
void tcp_expect(struct tcp *tcp, uint32_t connection, uint64_t position);
void tcp_on_arrival(struct tcp *tcp, void (*arrived)(void *context, uint32_t connection, instant now),
                    void *context);

/* A segment has come to one of the hosts of its connection. */
void tcp_take(struct tcp *tcp, struct packet *packet, instant now);

/* What a time series shows of a connection. */
struct tcp_state {
    uint64_t window, in_flight, threshold; /* bytes */
    instant round_trip;
};

struct tcp_state tcp_look(const struct tcp *tcp, uint32_t connection);

#endif
