#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "socket.h"

static const double SIGNALS = 0.25;      /* the longest that the interpreter may miss a signal */
static const double FULL_SOCKET = 0.001; /* retry time: no event reports that there is room */

struct endpoint {
    struct engine *engine;
    struct socket socket;
    double tick, quiet_until, pace;
};

struct endpoint *endpoint_open(uint32_t address, uint16_t port, double tick, int burst, double pace,
                               int *error)
{
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    struct engine *engine = engine_open();
    *error = endpoint && engine ? -socket_open(&endpoint->socket, address, port, burst) : ENOMEM;
    if (*error) {
        free(engine);
        free(endpoint);
        return NULL;
    }
    endpoint->engine = engine;
    endpoint->tick = tick;
    endpoint->pace = pace;
    return endpoint;
}

void endpoint_close(struct endpoint *endpoint)
{
    close(endpoint->socket.fd);
    engine_close(endpoint->engine);
    free(endpoint);
}

struct engine *endpoint_engine(struct endpoint *endpoint)
{
    return endpoint->engine;
}

int endpoint_descriptor(const struct endpoint *endpoint)
{
    return endpoint->socket.fd;
}

/* Takes the packets that have arrived; returns their number, or -errno. */
static int receive(struct endpoint *endpoint)
{
    struct socket *socket = &endpoint->socket;
    int count = socket_receive(socket);
    double now = monotonic();
    for (int i = 0; i < count; i++)
        engine_take(endpoint->engine, &socket->arrived[i], socket->sizes[i], now * endpoint->pace);
    if (count > 0 && endpoint->tick > 0)
        endpoint->quiet_until = now + endpoint->tick;
    return count;
}

/* Sends as much as the socket accepts; 0, or -errno. */
static int flush(struct endpoint *endpoint)
{
    const struct engine *engine = endpoint->engine;
    endpoint->socket.blocked = false;
    for (int i = 0; i < engine->count; i++) {
        struct flow *flow = engine->flows[(engine->first + i) % engine->count];
        for (uint32_t q = 0; q < flow->queues_count && !endpoint->socket.blocked; q++) {
            int error = socket_flush(&endpoint->socket, flow, &flow->queues[q]);
            if (error)
                return error;
        }
    }
    return 0;
}

int endpoint_wait(struct endpoint *endpoint, double deadline, int other)
{
    struct pollfd files[] = {{endpoint->socket.fd, POLLIN, 0}, {other, POLLIN, 0}};
    double now = monotonic(), signals = now + SIGNALS;
    bool readable = now >= endpoint->quiet_until;
    for (;;) {
        int count = readable ? receive(endpoint) : 0;
        if (count < 0)
            return count;
        now = monotonic();
        engine_pump(endpoint->engine, now * endpoint->pace);
        int error = flush(endpoint);
        if (error)
            return error;
        int reasons = engine_progress(endpoint->engine) ? PROGRESS : 0;
        if (now >= deadline)
            reasons |= DEADLINE;
        double next = endpoint->socket.blocked ? now + FULL_SOCKET
                                               : engine_deadline(endpoint->engine) / endpoint->pace;
        double until = fmin(fmin(deadline, signals), next);
        if (reasons || now >= signals || count == BATCH) {
            until = now;
        } else if (endpoint->quiet_until > now) {
            /* It is cheaper to read the packets that arrive meanwhile together. */
            struct timespec nap = duration(fmin(endpoint->quiet_until, until) - now);
            if (nanosleep(&nap, NULL))
                return 0;
        }
        struct timespec rest = duration(until - monotonic());
        int ready = ppoll(files, other < 0 ? 1 : 2, &rest, NULL);
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready > 0 && files[1].revents)
            reasons |= OTHER;
        if (reasons || ready < 0 || now >= signals)
            return reasons;
        readable = ready > 0 && files[0].revents && monotonic() >= endpoint->quiet_until;
    }
}
