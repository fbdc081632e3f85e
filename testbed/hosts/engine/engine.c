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
    free(engine->woken);
    free(engine->finished);
    free(engine->deadlines);
    free(engine);
}

static void mark(uint64_t *set, int flow)
{
    set[flow / 64] |= UINT64_C(1) << flow % 64;
}

/* The first flow of `set` from number `from` on; `count` if there is none. */
static int next_of(const uint64_t *set, int from, int count)
{
    while (from < count) {
        const uint64_t left = set[from / 64] >> from % 64;
        if (left)
            return from + __builtin_ctzll(left);
        from = from / 64 * 64 + 64;
    }
    return count;
}

static int next_woken(const struct engine *engine, int from)
{
    return next_of(engine->woken, from, engine->count);
}

/* Makes room for one more flow. */
static bool make_room(struct engine *engine)
{
    const size_t count = (size_t)engine->count + 1, words = (count + 63) / 64;
    struct flow **flows = realloc(engine->flows, count * sizeof *flows);
    engine->flows = flows ? flows : engine->flows;
    double *deadlines = realloc(engine->deadlines, count * sizeof *deadlines);
    engine->deadlines = deadlines ? deadlines : engine->deadlines;
    uint64_t *woken = realloc(engine->woken, words * sizeof *woken);
    engine->woken = woken ? woken : engine->woken;
    uint64_t *finished = realloc(engine->finished, words * sizeof *finished);
    engine->finished = finished ? finished : engine->finished;
    if (!flows || !deadlines || !woken || !finished)
        return false;
    if (count % 64 == 1)
        woken[words - 1] = finished[words - 1] = 0;
    deadlines[count - 1] = INFINITY;
    return true;
}

int engine_add(struct engine *engine, const struct role *role)
{
    static const struct protocol otherwise = {ON_TREES, .rules = &pool, .control = &none};
    if (engine->flow_of[role->tree])
        return -EEXIST;
    if (!make_room(engine))
        return -ENOMEM;
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
    engine->flows[engine->count++] = flow;
    engine->flow_of[role->tree] = (uint16_t)engine->count;
    return engine->count - 1;
}

int engine_push(struct engine *engine, int flow, int operation, int32_t *values, uint64_t count,
                uint8_t priority)
{
    struct flow *own = engine->flows[flow];
    own->priority = priority;
    mark(engine->woken, flow);
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
    if (!flow)
        return;
    mark(engine->woken, flow - 1);
    engine->flows[flow - 1]->protocol->take(engine->flows[flow - 1], packet, size, now);
}

static void set_deadline(struct engine *engine, int flow, double deadline)
{
    double *deadlines = engine->deadlines;
    const bool later = deadline > deadlines[flow];
    deadlines[flow] = deadline;
    if (deadline < deadlines[engine->soonest])
        engine->soonest = flow;
    else if (flow == engine->soonest && later)
        for (int i = 0; i < engine->count; i++)
            if (deadlines[i] < deadlines[engine->soonest])
                engine->soonest = i;
}

static void pump(struct engine *engine, int number, double now)
{
    struct flow *flow = engine->flows[number];
    flow->protocol->pump(flow, now);
    set_deadline(engine, number, flow->protocol->deadline(flow));
    if (!queues_are_empty(flow, flow->queues_count))
        mark(engine->woken, number); /* it may have more to send when they are */
    if (flow->chunks.progress) {
        flow->chunks.progress = false;
        mark(engine->finished, number);
        engine->progress = true;
    }
}

void engine_pump(struct engine *engine, double now)
{
    if (!engine->count)
        return;
    engine->first = (engine->first + 1) % engine->count;
    if (engine->deadlines[engine->soonest] <= now)
        for (int i = 0; i < engine->count; i++)
            if (engine->deadlines[i] <= now)
                mark(engine->woken, i);
    for (int i = next_woken(engine, 0); i < engine->count; i = next_woken(engine, i + 1)) {
        engine->woken[i / 64] &= ~(UINT64_C(1) << i % 64);
        pump(engine, i, now);
    }
}

double engine_deadline(const struct engine *engine)
{
    return engine->count ? engine->deadlines[engine->soonest] : INFINITY;
}

bool engine_progress(struct engine *engine)
{
    const bool progress = engine->progress;
    engine->progress = false;
    return progress;
}

int engine_finished(struct engine *engine)
{
    const int flow = next_of(engine->finished, 0, engine->count);
    if (flow == engine->count)
        return -1;
    engine->finished[flow / 64] &= ~(UINT64_C(1) << flow % 64);
    return flow;
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
    for (int i = next_woken(engine, engine->first); i < engine->count && !size;
         i = next_woken(engine, i + 1))
        size = flow_next(engine->flows[i], packet, address);
    for (int i = next_woken(engine, 0); i < engine->first && !size; i = next_woken(engine, i + 1))
        size = flow_next(engine->flows[i], packet, address);
    return size;
}
