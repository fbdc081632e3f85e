#include "engine.h"

#include <errno.h>
#include <stdlib.h>

#include "tree.h"

struct engine *engine_open(void)
{
    return calloc(1, sizeof(struct engine));
}

static void flow_close(struct flow *flow)
{
    flow->protocol->close(flow);
    for (uint32_t i = 0; i < flow->queues_count; i++)
        queue_close(&flow->queues[i]);
    free(flow->queues);
    chunks_close(&flow->chunks);
    free(flow->float_sums);
    free(flow);
}

void engine_close(struct engine *engine)
{
    for (int i = 0; i < engine->count; i++)
        flow_close(engine->flows[i]);
    free(engine->flows);
    free(engine);
}

int engine_add(struct engine *engine, const struct role *role)
{
    static const struct protocol otherwise = {ON_TREES, .rules = &pool, .control = &none};
    if (engine->flow_of[role->tree])
        return -EEXIST;
    struct flow **flows = realloc(engine->flows, (size_t)(engine->count + 1) * sizeof *flows);
    if (!flows)
        return -ENOMEM;
    engine->flows = flows;
    const struct protocol *protocol = protocols[role->protocol];
    protocol = protocol ? protocol : &otherwise;
    struct flow *flow = calloc(1, protocol->size);
    if (!flow)
        return -ENOMEM;
    flow->protocol = protocol;
    flow->tree = role->tree;
    flow->begins = role->begins;
    int error = chunks_open(&flow->chunks, role->begins);
    error = error ? error : protocol->open(flow, role);
    if (error) {
        flow_close(flow);
        return error;
    }
    flows[engine->count++] = flow;
    engine->flow_of[role->tree] = (uint16_t)engine->count;
    return engine->count - 1;
}

int engine_push(struct engine *engine, int flow, int operation, int32_t *values, uint64_t count,
                uint8_t priority)
{
    struct flow *own = engine->flows[flow];
    own->priority = priority;
    return own->protocol->push(own, (enum operation)operation, values, count);
}

uint64_t engine_done(const struct engine *engine, int flow)
{
    return engine->flows[flow]->protocol->done(engine->flows[flow]) - engine->flows[flow]->begins;
}

const struct counters *engine_counters(const struct engine *engine, int flow)
{
    return &engine->flows[flow]->counters;
}

const uint64_t *engine_float_sums(const struct engine *engine, int flow, uint64_t *count)
{
    *count = engine->flows[flow]->float_count;
    return engine->flows[flow]->float_sums;
}

bool engine_look(const struct engine *engine, int flow, struct flow_state *state)
{
    if (flow >= engine->count)
        return false;
    const struct flow *own = engine->flows[flow];
    *state = (struct flow_state){.tree = own->tree, .round_trip = own->rtt.smoothed};
    own->protocol->look(own, state);
    return true;
}

void engine_take(struct engine *engine, const void *packet, size_t size, double now)
{
    if (!engine->count)
        return;
    /* All packets of an engine arrive at one port and have one format. */
    int tree = engine->flows[0]->protocol->tree_of(packet, size);
    int flow = tree < 0 ? 0 : engine->flow_of[tree];
    if (flow)
        engine->flows[flow - 1]->protocol->take(engine->flows[flow - 1], packet, size, now);
}

void engine_pump(struct engine *engine, double now)
{
    engine->first = engine->count ? (engine->first + 1) % engine->count : 0;
    for (int i = 0; i < engine->count; i++)
        engine->flows[i]->protocol->pump(engine->flows[i], now);
}

double engine_deadline(const struct engine *engine)
{
    double deadline = INFINITY;
    for (int i = 0; i < engine->count; i++)
        deadline = fmin(deadline, engine->flows[i]->protocol->deadline(engine->flows[i]));
    return deadline;
}

bool engine_progress(struct engine *engine)
{
    bool progress = false;
    for (int i = 0; i < engine->count; i++) {
        progress |= engine->flows[i]->chunks.progress;
        engine->flows[i]->chunks.progress = false;
    }
    return progress;
}

static size_t flow_next(struct flow *flow, uint8_t *packet, uint32_t *address)
{
    for (uint32_t q = 0; q < flow->queues_count; q++) {
        struct queue *queue = &flow->queues[q];
        while (!queue_is_empty(queue)) {
            const struct outgoing *head = &queue->packets[queue->head++ & queue->mask];
            int32_t stage[VALUES];
            const int32_t *values = NULL;
            if (head->with_values && !(values = flow->protocol->values(flow, head, stage)))
                continue;
            *address = queue->to;
            memcpy(packet, head->head, head->size);
            if (values)
                memcpy(packet + head->size, values, sizeof stage);
            return head->size + (values ? sizeof stage : 0);
        }
    }
    return 0;
}

size_t engine_next(struct engine *engine, void *packet, uint32_t *address)
{
    size_t size = 0;
    for (int i = 0; i < engine->count && !size; i++)
        size = flow_next(engine->flows[(engine->first + i) % engine->count], packet, address);
    return size;
}
