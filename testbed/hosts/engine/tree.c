#include "tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t in_turn(const struct tree *tree, uint64_t sequence)
{
    return tree->slots[0] + (uint32_t)(sequence % (2 * tree->window.size));
}

const struct rules pool = {.slot = in_turn};

static uint64_t *copy_of(const uint64_t *sets, size_t count, uint32_t words)
{
    uint64_t *copy = calloc(count + 1, words * sizeof *copy);
    if (copy && count)
        memcpy(copy, sets, count * words * sizeof *copy);
    return copy;
}

static int open_root(struct tree *tree, const struct role *role)
{
    const uint32_t words = role->words;
    tree->words = words;
    tree->origins = role->origins;
    tree->of_peers = copy_of(role->ranks, role->peers, words);
    tree->behind = copy_of(role->behind, (size_t)role->origins * BITMAP, words);
    tree->everyone = calloc(words, sizeof *tree->everyone);
    tree->found = calloc(words, sizeof *tree->found);
    tree->counted = calloc(tree->places_count, words * sizeof *tree->counted);
    tree->queue_of = calloc(64 * (size_t)words, sizeof *tree->queue_of);
    if (!tree->of_peers || !tree->behind || !tree->everyone || !tree->found || !tree->counted ||
        !tree->queue_of)
        return -ENOMEM;
    for (uint32_t i = 0; i < role->peers; i++)
        ranks_join(tree->everyone, &tree->of_peers[i * words], words);
    return 0;
}

int tree_open(struct flow *flow, const struct role *role)
{
    struct tree *tree = (struct tree *)flow;
    tree->rules = flow->protocol->rules;
    tree->is_root = role->is_root;
    tree->serves = role->serves;
    tree->places_count = (1 + AHEAD) * role->window;
    tree->own = role->is_root ? 0 : UINT64_C(1) << role->bit;
    tree->origin = role->origin;
    tree->lowest = role->begins;
    tree->slots_count = role->slots_count;
    tree->peers = role->peers;
    tree->slots = calloc(role->slots_count + 1, sizeof *tree->slots);
    const uint32_t workers = role->workers && tree->rules->answers_one ? 64 * role->words : 0;
    flow->queues = calloc(role->peers + workers, sizeof *flow->queues);
    tree->places = calloc(tree->places_count, sizeof *tree->places);
    tree->rows = calloc(tree->places_count, sizeof *tree->rows);
    if (!tree->slots || !flow->queues || !tree->places || !tree->rows)
        return -ENOMEM;
    if (role->slots_count)
        memcpy(tree->slots, role->slots, role->slots_count * sizeof *tree->slots);
    for (uint32_t i = 0; i < role->peers; i++)
        if (queue_open(&flow->queues[flow->queues_count++], role->addresses[i], 4 * role->window))
            return -ENOMEM;
    if (role->is_root && open_root(tree, role))
        return -ENOMEM;
    for (uint32_t rank = 0; rank < workers; rank++) {
        tree->queue_of[rank] = -1;
        if (!role->workers[rank])
            continue;
        tree->queue_of[rank] = (int)flow->queues_count;
        if (queue_open(&flow->queues[flow->queues_count++], role->workers[rank], 4 * role->window))
            return -ENOMEM;
    }
    window_open(tree, role->window, role->begins);
    congestion_open(&tree->congestion, flow->protocol->control, role->window, role->begins);
    return 0;
}

void tree_close(struct flow *flow)
{
    struct tree *tree = (struct tree *)flow;
    for (uint32_t i = 0; tree->places && i < tree->places_count; i++)
        free(tree->places[i].floats);
    free(tree->everyone);
    free(tree->of_peers);
    free(tree->behind);
    free(tree->counted);
    free(tree->found);
    free(tree->queue_of);
    free(tree->slots);
    free(tree->places);
    free(tree->rows);
}

int tree_push(struct flow *flow, enum operation operation, int32_t *values, uint64_t count)
{
    struct tree *tree = (struct tree *)flow;
    if (tree->serves || (tree->is_root && operation == ALL_REDUCE))
        return -EINVAL;
    if (!count)
        return 0;
    struct chunk *chunk = chunks_push(&flow->chunks, operation, values, count);
    if (!chunk)
        return -ENOMEM;
    chunk->priority = flow->priority;
    if (tree->is_root)
        root_pushed(tree, chunk);
    else
        member_pushed(tree, chunk);
    tree_advance(tree);
    return 0;
}

void place_clear(struct tree *tree, uint64_t sequence)
{
    *place_of(tree, sequence) = (struct place){0};
    if (tree->is_root)
        ranks_clear(counted_of(tree, sequence), tree->words);
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
        if (tree->lowest >= tree->flow.begins + kept) {
            free(place_of(tree, tree->lowest - kept)->floats);
            place_clear(tree, tree->lowest - kept);
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

void tree_look(const struct flow *flow, struct flow_state *state)
{
    const struct tree *tree = (const struct tree *)flow;
    state->window = (uint32_t)tree->congestion.allowed;
    state->in_flight = tree->window.outstanding;
}

/* A member's own values, or a root's row. */
const int32_t *tree_values(struct flow *flow, const struct outgoing *packet, int32_t *stage)
{
    struct tree *tree = (struct tree *)flow;
    const uint64_t sequence = whole_sequence(tree, (uint32_t)packet->fragment);
    if (tree->is_root)
        return in_reach(tree, sequence) ? row_of(tree, sequence) : NULL;
    const struct chunk *chunk = chunk_of(&flow->chunks, sequence);
    if (!chunk || sequence < tree->lowest || place_of(tree, sequence)->done)
        return NULL; /* its result came meanwhile and replaced the values */
    int32_t whole[VALUES];
    const int32_t *values = packet_of(chunk, sequence, whole);
    if (((const struct header *)packet->head)->flags & FLAG_FLOATS)
        floats_to_wire(stage, values);
    else
        swap_values(stage, values);
    return stage;
}
