#include "tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t in_turn(const struct tree *tree, uint64_t sequence)
{
    return tree->slots[0] + (uint32_t)(sequence % (2 * tree->window.size));
}

const struct rules pool = {.slot = in_turn};

int tree_open(struct flow *flow, const struct role *role)
{
    struct tree *tree = (struct tree *)flow;
    tree->rules = flow->protocol->rules;
    tree->is_root = role->is_root;
    tree->serves = role->serves;
    tree->places_count = (1 + AHEAD) * role->window;
    tree->own = role->is_root ? 0 : UINT64_C(1) << role->rank;
    tree->slots_count = role->slots_count;
    tree->peers = role->peers;
    const uint32_t workers = role->workers && tree->rules->answers_one ? MAX_WORKERS : 0;
    tree->slots = calloc(role->slots_count + 1, sizeof *tree->slots);
    flow->queues = calloc(role->peers + workers, sizeof *flow->queues);
    tree->places = calloc(tree->places_count, sizeof *tree->places);
    tree->rows = calloc(tree->places_count, sizeof *tree->rows);
    if (!tree->slots || !flow->queues || !tree->places || !tree->rows)
        return -ENOMEM;
    if (role->slots_count)
        memcpy(tree->slots, role->slots, role->slots_count * sizeof *tree->slots);
    for (uint32_t i = 0; i < role->peers; i++) {
        tree->everyone |= role->ranks[i];
        if (queue_open(&flow->queues[flow->queues_count++], role->addresses[i], role->ranks[i],
                       4 * role->window))
            return -ENOMEM;
    }
    for (uint32_t rank = 0; rank < MAX_WORKERS; rank++) {
        tree->queue_of[rank] = -1;
        if (!workers || !role->workers[rank])
            continue;
        tree->queue_of[rank] = (int)flow->queues_count;
        if (queue_open(&flow->queues[flow->queues_count++], role->workers[rank],
                       UINT64_C(1) << rank, 4 * role->window))
            return -ENOMEM;
    }
    window_open(tree, role->window);
    congestion_open(&tree->congestion, flow->protocol->control, role->window);
    return 0;
}

void tree_close(struct flow *flow)
{
    struct tree *tree = (struct tree *)flow;
    for (uint32_t i = 0; tree->places && i < tree->places_count; i++)
        free(tree->places[i].floats);
    free(tree->slots);
    free(tree->places);
    free(tree->rows);
}

int tree_push(struct flow *flow, enum operation operation, int32_t *values, uint64_t fragments)
{
    struct tree *tree = (struct tree *)flow;
    if (tree->serves || (tree->is_root && operation == ALL_REDUCE))
        return -EINVAL;
    if (fragments > UINT32_MAX - flow->chunks.pushed)
        return -EOVERFLOW; /* sequence numbers have 32 bits */
    if (!fragments)
        return 0;
    const struct chunk *chunk = chunks_push(&flow->chunks, operation, values, fragments);
    if (!chunk)
        return -ENOMEM;
    if (tree->is_root)
        root_pushed(tree, chunk);
    else
        member_pushed(tree, chunk);
    tree_advance(tree);
    return 0;
}

void tree_finish(struct tree *tree, uint64_t sequence)
{
    place_of(tree, sequence)->done = true;
    if (sequence >= tree->window.done_end)
        tree->window.done_end = sequence + 1;
    tree->window.touched = true;
}

void tree_advance(struct tree *tree)
{
    const uint32_t kept = kept_back(tree);
    const uint64_t end = tree->serves ? UINT64_MAX : tree->flow.chunks.pushed;
    while (tree->lowest < end && place_of(tree, tree->lowest)->done) {
        /* The place that falls out of reach is reused by the fragment that comes into reach. */
        if (tree->lowest >= kept) {
            struct place *old = place_of(tree, tree->lowest - kept);
            free(old->floats);
            *old = (struct place){0};
        }
        tree->lowest++;
    }
    /* Duplicates of finished fragments may still come. */
    chunks_advance(&tree->flow.chunks, tree->lowest, tree->places_count);
}

int tree_of_packet(const void *packet, size_t size)
{
    const struct header *header = packet;
    if (size < sizeof *header)
        return -1;
    const bool with_values = header->kind == KIND_DATA || header->kind == KIND_RESULT;
    const size_t wanted = with_values ? sizeof(struct packet) : sizeof *header;
    return size == wanted ? be16toh(header->tree) : -1;
}

void tree_take(struct flow *flow, const void *packet, size_t size, double now)
{
    (void)size;
    struct tree *tree = (struct tree *)flow;
    if (tree->is_root)
        root_take(tree, packet, now);
    else
        member_take(tree, packet, now);
}

void tree_pump(struct flow *flow, double now)
{
    window_pump((struct tree *)flow, now);
}

double tree_deadline(const struct flow *flow)
{
    return window_deadline(&((const struct tree *)flow)->window);
}

uint64_t tree_done(const struct flow *flow)
{
    return ((const struct tree *)flow)->lowest;
}

/* A member's own values, or a root's row. */
const int32_t *tree_values(struct flow *flow, const struct outgoing *packet, int32_t *stage)
{
    struct tree *tree = (struct tree *)flow;
    const uint64_t sequence = packet->fragment;
    if (tree->is_root)
        return in_reach(tree, sequence) ? row_of(tree, sequence) : NULL;
    const struct chunk *chunk = chunk_of(&flow->chunks, sequence);
    if (!chunk || sequence < tree->lowest || place_of(tree, sequence)->done)
        return NULL; /* its result came meanwhile and replaced the values */
    const int32_t *values = memory_of(chunk, sequence);
    if (((const struct header *)packet->head)->flags & FLAG_FLOATS)
        floats_to_wire(stage, values);
    else
        swap_values(stage, values);
    return stage;
}
