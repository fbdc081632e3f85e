#include "fabric.h"

#include <math.h>
#include <stdlib.h>

#include "clock.h"

struct station {
    void *engine; /* NULL for a switch */
    union {
        struct switch_calls of_switch;
        struct engine_calls of_engine;
    };
};

struct fabric {
    struct bell *bell;
    struct node **nodes;
    struct station *stations;
    uint32_t count;
    atomic_bool stopped;
};

static const double LONGEST_SLEEP = 1.0;

struct fabric *fabric_open(struct bell *bell)
{
    struct fabric *fabric = calloc(1, sizeof *fabric);
    if (fabric)
        fabric->bell = bell;
    return fabric;
}

void fabric_close(struct fabric *fabric)
{
    free(fabric->nodes);
    free(fabric->stations);
    free(fabric);
}

static int add(struct fabric *fabric, struct node *node, struct station station)
{
    const size_t count = fabric->count + 1;
    struct node **nodes = realloc(fabric->nodes, count * sizeof *nodes);
    if (!nodes)
        return -1;
    fabric->nodes = nodes;
    struct station *stations = realloc(fabric->stations, count * sizeof *stations);
    if (!stations)
        return -1;
    fabric->stations = stations;
    nodes[fabric->count] = node;
    stations[fabric->count++] = station;
    return 0;
}

int fabric_switch(struct fabric *fabric, struct node *node, const struct switch_calls *calls)
{
    if (node_shares(node))
        return -1;
    return add(fabric, node, (struct station){.of_switch = *calls});
}

int fabric_server(struct fabric *fabric, struct node *node, void *engine,
                  const struct engine_calls *calls)
{
    return add(fabric, node, (struct station){.engine = engine, .of_engine = *calls});
}

void fabric_stop(struct fabric *fabric)
{
    atomic_store(&fabric->stopped, true);
    bell_ring(fabric->bell);
}

void fabric_run(struct fabric *fabric)
{
    for (;;) {
        const bool last = atomic_load(&fabric->stopped);
        double now = monotonic(), deadline = now + LONGEST_SLEEP;
        bool busy = false;
        for (uint32_t i = 0; i < fabric->count; i++) {
            struct station *station = &fabric->stations[i];
            if (!station->engine) {
                busy |= drive_switch(fabric->nodes[i], &station->of_switch, now);
                continue;
            }
            busy |= drive_engine(fabric->nodes[i], station->engine, &station->of_engine, now);
            deadline = fmin(deadline, station->of_engine.deadline(station->engine));
        }
        if (busy)
            continue;
        if (last) {
            for (uint32_t i = 0; i < fabric->count; i++)
                node_ring(fabric->nodes[i]);
            return;
        }
        bell_wait(fabric->bell, fabric->nodes, fabric->count, deadline - now);
    }
}
