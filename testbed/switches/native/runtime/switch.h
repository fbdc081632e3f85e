// The switch around a program: control over a Unix socket on standard input; packets from the same
// socket (tests), or from the rings of ring.h.
#ifndef SWITCH_H
#define SWITCH_H

#include "reply.h"
#include "requests.h"
#include "ring.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_MESSAGE (1u << 20)

static bool offline; // packets come over the control socket, and outputs go back over it

static void flush(void) {
    if (offline) {
        for (unsigned n = 0; n < output_count; n++) {
            reply_u32(outputs[n].port);
            reply_u32((uint32_t)outputs[n].bytes);
            for (unsigned i = 0; i < outputs[n].segments; i++) {
                const struct iovec *v = &segments[outputs[n].first + i];
                reply_bytes(v->iov_base, v->iov_len);
            }
        }
    } else {
        ring_send();
    }
    output_count = segment_count = 0;
#if PASSES
    passes_free();
#endif
}

static uint32_t do_packet(struct request *r) {
    const unsigned port = (unsigned)take(r, 2);
    if (r->left > MAX_PACKET)
        return MALFORMED;
    uint8_t *copy = allocate(r->left); // exactly its size, so that sanitizers see its end
    memcpy(copy, r->at, r->left);
    offline = true;
    process(port, copy, r->left);
    outputs_done(0);
    offline = false;
    free(copy);
    return DONE;
}

static uint32_t other_request(char op, struct request *r) {
    if (op == 'P')
        return do_packet(r);
    if (op != 'S')
        return MALFORMED;
    ring_statistics();
    return DONE;
}

static bool read_exactly(void *to, size_t n) {
    for (uint8_t *p = to; n > 0;) {
        const ssize_t got = read(CONTROL, p, n);
        if (got == 0 || (got < 0 && errno != EINTR) || stopped)
            return false;
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
    return true;
}

// Serves one request; false once the control plane has closed the socket.
static bool serve(void) {
    static uint8_t message[MAX_MESSAGE];
    uint32_t size;
    if (!read_exactly(&size, sizeof size) || size > MAX_MESSAGE || !read_exactly(message, size))
        return false;
    reply_used = 0;
    reply_u32(0);
    reply_u32(0);
    const uint32_t head[2] = {0, answer((struct request){message, size})};
    memcpy(reply, (uint32_t[2]){(uint32_t)reply_used - 8, head[1]}, 8);
    for (size_t done = 0; done < reply_used;) {
        const ssize_t n = send(CONTROL, reply + done, reply_used - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void stop(int signal_number) {
    (void)signal_number;
    stopped = 1;
}

// Arguments: frames of a ring, packets that a frame may have, nanoseconds of the short sleep, seed
// of random(), and one PORT=INTERFACE per interface.
int main(int count, char **arguments) {
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    signal(SIGINT, SIG_IGN); // the control plane handles Ctrl-C, and then closes the socket
    if (count < 5)
        return 2;
    random_state ^= strtoull(arguments[4], NULL, 10) * 0x2545f4914f6cdd1du;
    longest = (unsigned)strtoul(arguments[2], NULL, 10);
    arena_reset(0);
    hash_setup();
    install();
    for (int i = 5; i < count; i++)
        ring_open(arguments[i], (unsigned)strtoul(arguments[1], NULL, 10));
    if (count == 5)
        while (!stopped && serve())
            continue;
    else
        ring_run(strtol(arguments[3], NULL, 10), serve);
    return 0;
}

#endif
