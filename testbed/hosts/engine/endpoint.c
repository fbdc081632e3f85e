#include "endpoint.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"

enum { TREES = 1 << 16 };

static const double SIGNALS = 0.25;      /* how long the interpreter may not see a signal */
static const double FULL_SOCKET = 0.001; /* no event tells when there is room */

struct endpoint {
    struct outbox outbox;
    struct flow **flows;
    int count;
    int first; /* flows take turns in being first at the socket */
    double tick, quiet_until;
    uint16_t flow_of[TREES]; /* index + 1, 0 for none */
};

struct endpoint *endpoint_open(uint32_t address, double tick, int burst, int *error)
{
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    *error = endpoint ? -outbox_open(&endpoint->outbox, address, burst) : ENOMEM;
    if (*error) {
        free(endpoint);
        return NULL;
    }
    endpoint->tick = tick;
    return endpoint;
}

void endpoint_close(struct endpoint *endpoint)
{
    close(endpoint->outbox.fd);
    for (int i = 0; i < endpoint->count; i++) {
        flow_close(endpoint->flows[i]);
        free(endpoint->flows[i]);
    }
    free(endpoint->flows);
    free(endpoint);
}

int endpoint_descriptor(const struct endpoint *endpoint)
{
    return endpoint->outbox.fd;
}

int endpoint_add(struct endpoint *endpoint, const struct role *role)
{
    if (endpoint->flow_of[role->tree])
        return -EEXIST;
    struct flow **flows =
        realloc(endpoint->flows, (size_t)(endpoint->count + 1) * sizeof *flows);
    if (!flows)
        return -ENOMEM;
    endpoint->flows = flows;
    struct flow *flow = malloc(sizeof *flow);
    if (!flow)
        return -ENOMEM;
    int error = flow_open(flow, role);
    if (error) {
        flow_close(flow);
        free(flow);
        return error;
    }
    flows[endpoint->count++] = flow;
    endpoint->flow_of[role->tree] = (uint16_t)endpoint->count;
    return endpoint->count - 1;
}

int endpoint_push(struct endpoint *endpoint, int flow, int operation, int32_t *values,
                  uint64_t fragments)
{
    return flow_push(endpoint->flows[flow], (enum operation)operation, values, fragments);
}

uint64_t endpoint_done(const struct endpoint *endpoint, int flow)
{
    return endpoint->flows[flow]->lowest;
}

const struct counters *endpoint_counters(const struct endpoint *endpoint, int flow)
{
    return &endpoint->flows[flow]->counters;
}

const uint64_t *endpoint_float_sums(const struct endpoint *endpoint, int flow, uint64_t *count)
{
    *count = endpoint->flows[flow]->float_count;
    return endpoint->flows[flow]->float_sums;
}

/* Takes what has arrived; how many packets, or -errno. */
static int receive(struct endpoint *endpoint)
{
    bool whole[BATCH];
    int count = outbox_receive(&endpoint->outbox, whole);
    double now = monotonic();
    for (int i = 0; i < count; i++) {
        const struct packet *packet = &endpoint->outbox.arrived[i];
        int flow = whole[i] ? endpoint->flow_of[be16toh(packet->header.tree)] : 0;
        if (flow)
            flow_take(endpoint->flows[flow - 1], packet, now);
    }
    if (count > 0 && endpoint->tick > 0)
        endpoint->quiet_until = now + endpoint->tick;
    return count;
}

/* Everything that needs no packet: what came is settled, windows are filled, queues sent. */
static int turn(struct endpoint *endpoint, double now)
{
    endpoint->outbox.blocked = false;
    endpoint->first = endpoint->count ? (endpoint->first + 1) % endpoint->count : 0;
    for (int i = 0; i < endpoint->count; i++) {
        struct flow *flow = endpoint->flows[(endpoint->first + i) % endpoint->count];
        if (flow->touched)
            sender_settle(flow, now);
        sender_pump(flow, now);
        for (uint32_t q = 0; q < flow->queues_count && !endpoint->outbox.blocked; q++) {
            int error = outbox_flush(&endpoint->outbox, &flow->queues[q], flow_values, flow);
            if (error)
                return error;
        }
    }
    return 0;
}

static bool take_progress(struct endpoint *endpoint)
{
    bool progress = false;
    for (int i = 0; i < endpoint->count; i++) {
        progress |= endpoint->flows[i]->progress;
        endpoint->flows[i]->progress = false;
    }
    return progress;
}

static double next_look(const struct endpoint *endpoint, double now)
{
    if (endpoint->outbox.blocked)
        return now + FULL_SOCKET;
    double look = INFINITY;
    for (int i = 0; i < endpoint->count; i++) {
        const struct flow *flow = endpoint->flows[i];
        if (flow->outstanding)
            look = fmin(look, fmin(flow->look_again, flow->probe_at));
    }
    return look;
}

int endpoint_wait(struct endpoint *endpoint, double deadline, int other)
{
    struct pollfd files[] = {{endpoint->outbox.fd, POLLIN, 0}, {other, POLLIN, 0}};
    double now = monotonic(), signals = now + SIGNALS;
    bool readable = now >= endpoint->quiet_until;
    for (;;) {
        int count = readable ? receive(endpoint) : 0;
        if (count < 0)
            return count;
        now = monotonic();
        int error = turn(endpoint, now);
        if (error)
            return error;
        int reasons = take_progress(endpoint) ? PROGRESS : 0;
        if (now >= deadline)
            reasons |= DEADLINE;
        double until = fmin(fmin(deadline, signals), next_look(endpoint, now));
        if (reasons || now >= signals || count == BATCH) {
            until = now;
        } else if (endpoint->quiet_until > now) {
            /* What arrives meanwhile is cheaper to take together. */
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
