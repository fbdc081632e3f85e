/* Linux's TCP, as far as it decides how long a transfer takes: slow start and Reno's congestion
   avoidance (RFC 5681), SACK recovery with proportional rate reduction (RFC 6675, RFC 6937), loss
   detection by time and tail loss probes (RACK-TLP, RFC 8985), retransmission timeouts with
   back-off (RFC 6298), delayed acknowledgements, a receive window, and small queues (a sender
   limits its data in its own host's queue). A connection carries one stream in one direction. */
#ifndef TCP_H
#define TCP_H

#include "network.h"

struct tcp_settings {
    uint32_t mss;              /* bytes of data in a full segment, timestamps allowed for */
    uint32_t overhead;         /* bytes of headers on a link, Ethernet's among them */
    uint32_t initial_window;   /* segments */
    uint64_t receive_window;   /* bytes */
    instant queued_time;       /* a connection queues what it sends in this time in its host, */
    uint64_t most_queued;      /* at most so many bytes */
    instant least_timeout, longest_timeout, first_timeout;
    instant timer_slack;       /* added to probes and to checks for late segments */
    instant acknowledge_delay;
    instant gather_time;       /* a host collects arrivals for so long before it acknowledges them */
};

struct tcp_counters {
    uint64_t segments, retransmitted, timeouts, recoveries, probes;
};

struct tcp;

/* The user of the connections. */
struct tcp_listener {
    /* So many more messages have arrived. */
    void (*arrived)(struct tcp_listener *listener, uint32_t connection, uint32_t messages,
                    instant now);
    /* The connection is given up after too many timeouts in a row. */
    void (*broken)(struct tcp_listener *listener, uint32_t connection, instant now);
};

struct tcp *tcp_open(struct network *network, const struct tcp_settings *settings,
                     struct tcp_listener *listener);
void tcp_close(struct tcp *tcp);

/* Opens a connection between two hosts; returns its number. */
uint32_t tcp_connect(struct tcp *tcp, uint32_t source, uint32_t to, uint16_t source_port,
                     uint16_t to_port);

/* Appends a message of so many bytes to the stream. */
void tcp_write(struct tcp *tcp, uint32_t connection, uint64_t bytes);

const struct tcp_counters *tcp_counters(const struct tcp *tcp, uint32_t connection);

/* A segment has arrived at one of the hosts of its connection. */
void tcp_take(struct tcp *tcp, struct packet *packet, instant now);

/* A connection's state for a time series. */
struct tcp_state {
    uint64_t window, in_flight; /* bytes */
    instant round_trip;
};

/* The key of the data's direction; NULL if there is no such connection. */
const struct flow_key *tcp_key(const struct tcp *tcp, uint32_t connection);

struct tcp_state tcp_look(const struct tcp *tcp, uint32_t connection);

#endif
