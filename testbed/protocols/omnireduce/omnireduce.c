/* OmniReduce at a host (Fei et al., SIGCOMM 2021, in the released code's form for networks that lose
   packets). A block is a fragment. Each slot is a lane: lane l sums the fragments l, l + lanes, ...,
   but only those that are not 0 at some rank. A contribution names its sender's next such fragment
   in the lane; the sum names the least of these, where all ranks go on. A rank that has only zeros
   there sends them. All that lies between is 0 everywhere, and is done.

   A lane's first fragment of a chunk is always sent. So after a chunk's last fragment, the next one
   of a lane is its first of the following chunk, whatever that holds, and lanes never end.

   Each lane has two slots, used in turn: all members have the sums of a lane in the same order. */
#include <errno.h>
#include <stdlib.h>

#include "tree.h"

static const double FIRST_SILENCE = 0.2, LONGEST_SILENCE = 1.0;

struct lane {
    uint64_t next; /* this rank's next fragment that is not 0; the current one if not looked for */
    uint64_t turn; /* number of its sending among the flow's */
    double sent_at;
    bool second; /* of its two slots */
    bool sent, resent;
};

struct lanes {
    struct flow flow;
    uint64_t own; /* the member's bit */
    uint32_t slot, count, in_flight;
    struct lane *lanes;
    uint64_t *current; /* by lane: the fragment to be summed next; all before it are done */
    uint64_t lowest;   /* of these */
    uint32_t *ready, ready_head, ready_tail; /* lanes to send in, in order: a ring of `count` */
    uint64_t turns, overtaken; /* sendings so far; one past the latest that was answered */
    double newest;  /* latest time of sending among those answered */
    double oldest;  /* no fragment in flight was sent earlier */
    double stalled; /* fragments sent before this were in flight during a silence */
    double silence, probe_at; /* the longest silence allowed, and when it will be over */
    uint32_t probes;          /* fragments to retransmit then */
    bool touched;             /* answers have come since the last pump */
};

static int lanes_open(struct flow *flow, const struct role *role)
{
    struct lanes *all = (struct lanes *)flow;
    if (role->is_root || role->peers != 1)
        return -EINVAL; /* a switch is the root */
    all->own = UINT64_C(1) << role->bit;
    all->slot = role->slots[0];
    all->count = role->window;
    all->lowest = role->begins;
    all->silence = FIRST_SILENCE;
    all->probe_at = INFINITY;
    all->newest = all->stalled = all->oldest = -INFINITY;
    all->probes = 1;
    all->lanes = calloc(all->count, sizeof *all->lanes);
    all->current = calloc(all->count, sizeof *all->current);
    all->ready = calloc(all->count, sizeof *all->ready);
    flow->queues = calloc(1, sizeof *flow->queues);
    if (!all->lanes || !all->current || !all->ready || !flow->queues ||
        queue_open(&flow->queues[flow->queues_count++], role->addresses[0], 4 * all->count))
        return -ENOMEM;
    for (uint32_t i = 0; i < all->count; i++)
        all->current[(role->begins + i) % all->count] = role->begins + i;
    return 0;
}

static void lanes_close(struct flow *flow)
{
    struct lanes *all = (struct lanes *)flow;
    free(all->lanes);
    free(all->current);
    free(all->ready);
}

static void make_ready(struct lanes *all, uint32_t lane)
{
    all->ready[all->ready_tail++ % all->count] = lane;
}

static int lanes_push(struct flow *flow, enum operation operation, int32_t *values, uint64_t count)
{
    struct lanes *all = (struct lanes *)flow;
    const uint64_t before = flow->chunks.pushed;
    if (operation != ALL_REDUCE)
        return -EINVAL;
    if (!count)
        return 0;
    const struct chunk *chunk = chunks_push(&flow->chunks, operation, values, count);
    if (!chunk)
        return -ENOMEM;
    /* Lanes that had reached the end of what was pushed are less than a round of lanes beyond it. */
    for (uint64_t s = before; s < chunk->end && s < before + all->count; s++)
        if (all->current[s % all->count] == s)
            make_ready(all, (uint32_t)(s % all->count));
    return 0;
}

static bool is_zero(const struct chunk *chunk, uint64_t fragment)
{
    const int32_t *values = memory_of(chunk, fragment);
    const uint32_t count = filled(chunk, fragment);
    for (uint32_t i = 0; i < count; i++)
        if (values[i])
            return false;
    return true;
}

/* The lane's next fragment after `fragment` that is to be sent: not 0 here, or the lane's first of
   the next chunk. */
static uint64_t look_ahead(const struct lanes *all, const struct chunk *chunk, uint64_t fragment)
{
    do
        fragment += all->count;
    while (fragment < chunk->end && is_zero(chunk, fragment));
    return fragment;
}

static bool send_lane(struct lanes *all, uint32_t number, double now)
{
    struct lane *lane = &all->lanes[number];
    const uint64_t fragment = all->current[number];
    if (lane->next <= fragment)
        lane->next = look_ahead(all, chunk_of(&all->flow.chunks, fragment), fragment);
    const struct header header = {
        .kind = KIND_DATA,
        .tree = htobe16(all->flow.tree),
        .sequence = htobe32((uint32_t)fragment),
        .slot = htobe32(all->slot + number + lane->second * all->count),
        .next_slot = htobe32((uint32_t)lane->next),
        .bitmap = htobe64(all->own),
    };
    if (!queue_put(&all->flow.queues[0], fragment, &header, sizeof header, true))
        return false;
    lane->sent_at = now;
    return true;
}

static bool resend(struct lanes *all, uint32_t number, double now)
{
    if (!send_lane(all, number, now))
        return false;
    all->lanes[number].resent = true;
    all->flow.counters.retransmitted++;
    return true;
}

/* NULL if the sum replaced the packet's own values after it was queued. */
static const int32_t *lanes_values(struct flow *flow, const struct outgoing *packet, int32_t *stage)
{
    const struct lanes *all = (const struct lanes *)flow;
    if (all->current[packet->fragment % all->count] != packet->fragment)
        return NULL;
    int32_t whole[VALUES];
    swap_values(stage, packet_of(chunk_of(&flow->chunks, packet->fragment), packet->fragment, whole));
    return stage;
}

/* A round trip is measured only if no loss can have made it longer: see window.c. */
static void measure(struct lanes *all, const struct lane *lane, double now)
{
    const double sample = now - lane->sent_at;
    const bool in_turn = lane->turn >= all->overtaken;
    if (in_turn)
        all->overtaken = lane->turn + 1;
    if (now >= all->probe_at)
        all->stalled = now; /* the silence was not noticed in time */
    if (!lane->resent && in_turn && lane->sent_at > all->stalled)
        rtt_sample(&all->flow.rtt, sample);
    /* Karn: the answer may be that to the first sending, if it is too early for one to the second. */
    if (lane->sent_at > all->newest && (!lane->resent || 2 * sample > all->flow.rtt.smoothed))
        all->newest = lane->sent_at;
}

static void lanes_take(struct flow *flow, const void *data, size_t size, double now)
{
    struct lanes *all = (struct lanes *)flow;
    const struct packet *packet = data;
    (void)size;
    if (packet->header.kind != KIND_RESULT)
        return;
    const uint32_t behind = be32toh(packet->header.sequence) - (uint32_t)all->lowest;
    const uint64_t fragment = all->lowest + behind;
    const uint32_t number = (uint32_t)(fragment % all->count);
    struct lane *lane = &all->lanes[number];
    const uint64_t next = fragment + (be32toh(packet->header.next_slot) - (uint32_t)fragment);
    const bool follows = next > fragment && next <= lane->next && next % all->count == number;
    if (all->current[number] != fragment || !lane->sent || !follows)
        return; /* a copy, or nonsense */
    store_packet(chunk_of(&flow->chunks, fragment), fragment, packet->values);
    measure(all, lane, now);
    all->current[number] = next;
    lane->second = !lane->second;
    lane->sent = lane->resent = false;
    all->in_flight--;
    all->touched = true;
    if (next < flow->chunks.pushed)
        make_ready(all, number);
}

/* Retransmits fragments that were not answered although others sent well after them were. */
static void resend_missing(struct lanes *all, double now)
{
    const double late = all->newest - LATER * rtt_or(&all->flow.rtt, FIRST_SILENCE);
    if (all->oldest >= late)
        return;
    double oldest = now;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct lane *lane = &all->lanes[i];
        if (lane->sent && lane->sent_at < late)
            resend(all, i, now);
        if (lane->sent)
            oldest = fmin(oldest, lane->sent_at);
    }
    all->oldest = oldest;
}

static void send_ready(struct lanes *all, double now)
{
    for (; all->ready_head != all->ready_tail; all->ready_head++) {
        const uint32_t number = all->ready[all->ready_head % all->count];
        struct lane *lane = &all->lanes[number];
        if (!send_lane(all, number, now))
            return;
        lane->sent = true;
        lane->turn = all->turns++;
        if (!all->in_flight++)
            all->probe_at = now + all->silence;
    }
}

/* The lowest fragments, which are the same ones at every rank that waits: if all lost theirs, one
   rank's alone would be of no use. The answers show which others are missing. */
static void end_silence(struct lanes *all, double now)
{
    uint64_t above = 0; /* fragments below it have been retransmitted */
    for (uint32_t probe = 0; probe < all->probes; probe++) {
        uint32_t found = all->count;
        for (uint32_t i = 0; i < all->count; i++)
            if (all->lanes[i].sent && all->current[i] >= above &&
                (found == all->count || all->current[i] < all->current[found]))
                found = i;
        if (found == all->count || !resend(all, found, now))
            break;
        above = all->current[found] + 1;
    }
    all->stalled = now;
    all->probes = all->probes < all->count ? 2 * all->probes : all->count;
    all->silence = fmin(2 * all->silence, LONGEST_SILENCE);
    all->probe_at = now + all->silence;
}

/* After answers. */
static void settle(struct lanes *all, double now)
{
    const struct rtt *rtt = &all->flow.rtt;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < all->count; i++)
        lowest = all->current[i] < lowest ? all->current[i] : lowest;
    const uint64_t pushed = all->flow.chunks.pushed;
    all->lowest = lowest < pushed ? lowest : pushed;
    chunks_advance(&all->flow.chunks, all->lowest, 0);
    if (rtt->smoothed > 0)
        all->silence =
            fmax(rtt->smoothed + fmax(rtt->smoothed, 2 * rtt->variation), LEAST_SILENCE);
    all->probes = 1;
    all->probe_at = now + all->silence;
}

static void lanes_pump(struct flow *flow, double now)
{
    struct lanes *all = (struct lanes *)flow;
    const bool touched = all->touched;
    all->touched = false;
    if (touched)
        settle(all, now);
    if (!queue_is_empty(&flow->queues[0]))
        return;
    if (touched)
        resend_missing(all, now);
    send_ready(all, now);
    if (all->in_flight && now >= all->probe_at)
        end_silence(all, now);
}

static double lanes_deadline(const struct flow *flow)
{
    const struct lanes *all = (const struct lanes *)flow;
    return all->in_flight ? all->probe_at : INFINITY;
}

static uint64_t lanes_done(const struct flow *flow)
{
    return ((const struct lanes *)flow)->lowest;
}

static void lanes_look(const struct flow *flow, struct flow_state *state)
{
    const struct lanes *all = (const struct lanes *)flow;
    state->window = all->count;
    state->in_flight = all->in_flight;
}

const struct protocol omnireduce = {
    .size = sizeof(struct lanes),
    .bursts = true,
    .control = &none,
    .open = lanes_open,
    .close = lanes_close,
    .push = lanes_push,
    .tree_of = tree_of_packet,
    .take = lanes_take,
    .pump = lanes_pump,
    .deadline = lanes_deadline,
    .done = lanes_done,
    .look = lanes_look,
    .values = lanes_values,
};
