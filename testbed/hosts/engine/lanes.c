#include "lanes.h"

#include <errno.h>
#include <stdlib.h>

static const double FIRST_SILENCE = 0.2;
enum { REORDERING = 3 };

int lanes_open(struct flow *flow, const struct role *role, const struct lane_rules *rules)
{
    struct lanes *all = (struct lanes *)flow;
    if (role->is_root || role->peers != 1)
        return -EINVAL; /* a switch is the root */
    all->rules = rules;
    all->origin = role->origin;
    all->own = UINT64_C(1) << role->bit;
    all->slot = role->slots[0];
    all->count = role->window;
    all->lowest = role->begins;
    all->silence = FIRST_SILENCE;
    all->probe_at = all->shortest = INFINITY;
    all->newest = all->answered = -INFINITY;
    all->probes = 1;
    all->lanes = calloc(all->count, sizeof *all->lanes);
    all->ready = calloc(all->count, sizeof *all->ready);
    flow->queues = calloc(1, sizeof *flow->queues);
    if (!all->lanes || !all->ready || !flow->queues ||
        queue_open(&flow->queues[flow->queues_count++], role->addresses[0], 4 * all->count))
        return -ENOMEM;
    for (uint32_t i = 0; i < all->count; i++) {
        struct lane *lane = &all->lanes[(role->begins + i) % all->count];
        lane->current = lane->reached = role->begins + i;
    }
    return 0;
}

void lanes_close(struct flow *flow)
{
    struct lanes *all = (struct lanes *)flow;
    free(all->lanes);
    free(all->ready);
}

static void make_ready(struct lanes *all, uint32_t lane)
{
    all->ready[all->ready_tail++ % all->count] = lane;
}

int lanes_push(struct flow *flow, enum operation operation, int32_t *values, uint64_t count)
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
    /* A lane that had finished everything pushed waits at one of the next `count` fragments. */
    for (uint64_t s = before; s < chunk->end && s < before + all->count; s++)
        if (all->lanes[s % all->count].reached == s)
            make_ready(all, (uint32_t)(s % all->count));
    return 0;
}

static bool send_lane(struct lanes *all, uint32_t number, double now)
{
    struct lane *lane = &all->lanes[number];
    const struct header header = {
        .kind = KIND_DATA,
        .tree = htobe16(all->flow.tree),
        .sequence = htobe32((uint32_t)lane->current),
        .slot = htobe32(all->slot + number + lane->second * all->count),
        .next_slot = htobe32(all->rules->name(all, number)),
        .bitmap = htobe64(all->own),
    };
    if (!queue_put(&all->flow.queues[0], lane->current, &header, sizeof header, true))
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

/* A queue may grow until a round trip is longer than any before it. So a lane that was sent once is
   measured whenever it is answered in turn, even after a silence, which was then too short. A lane
   that was sent twice is not measured (Karn). Its answer shows a loss only if it must be the answer
   to the second sending. Otherwise a probe into a long queue would cause everything in the queue to
   be sent again. */
static void measure(struct lanes *all, const struct lane *lane, double now)
{
    const double sample = now - lane->sent_at;
    const bool in_turn = lane->turn >= all->overtaken;
    if (in_turn)
        all->overtaken = lane->turn + 1;
    if (!lane->resent) {
        all->newest = fmax(all->newest, lane->sent_at);
        all->shortest = fmin(all->shortest, sample);
        all->first_answers = true;
        if (in_turn)
            rtt_sample(&all->flow.rtt, sample);
    } else if (all->shortest == INFINITY || sample >= all->shortest) {
        all->answered = fmax(all->answered, lane->sent_at);
    }
}

void lanes_take(struct flow *flow, const void *data, size_t size, double now)
{
    struct lanes *all = (struct lanes *)flow;
    const struct packet *packet = data;
    (void)size;
    const uint32_t place = be32toh(packet->header.slot) - all->slot;
    if (packet->header.kind != KIND_RESULT || place >= 2 * all->count)
        return;
    const uint32_t number = place % all->count;
    struct lane *lane = &all->lanes[number];
    if (be32toh(packet->header.sequence) != (uint32_t)lane->current || !lane->sent)
        return; /* a copy, or nonsense */
    const uint64_t next = all->rules->take(all, number, packet);
    if (next == lane->current)
        return;
    measure(all, lane, now);
    lane->current = next;
    lane->second = !lane->second;
    lane->sent = lane->resent = false;
    all->in_flight--;
    all->touched = true;
    if (lane->reached < flow->chunks.pushed)
        make_ready(all, number);
}

/* Retransmits each fragment that is not answered although others that were sent well after it are.
   In a hurry, a few turns after it are enough. Returns whether it retransmitted any. */
static bool resend_missing(struct lanes *all, double newest, bool hurry, double now)
{
    const double late = newest - LATER * rtt_or(&all->flow.rtt, FIRST_SILENCE);
    const uint64_t before = all->flow.counters.retransmitted;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct lane *lane = &all->lanes[i];
        const bool passed = hurry && !lane->resent && lane->turn + REORDERING + 1 < all->overtaken;
        if (lane->sent && (passed || lane->sent_at < late))
            resend(all, i, now);
    }
    return all->flow.counters.retransmitted > before;
}

/* Whether the last answer to a lane that was sent twice must be the answer to its second sending.
   If it answers the first sending, answers to lanes that were sent once before the second one will
   follow. */
static bool is_confirmed(const struct lanes *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct lane *lane = &all->lanes[i];
        if (lane->sent && !lane->resent && lane->sent_at < all->answered)
            return false;
    }
    return true;
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
        if (!all->in_flight++) {
            all->heard = now;
            all->probe_at = now + all->silence;
        }
    }
}

/* Retransmits the lowest fragments, because these are the same at every rank that waits: if all
   ranks lost theirs, a retransmission by one of them completes no sum. The answers show which other
   fragments are missing. */
static void end_silence(struct lanes *all, double now)
{
    const double answered = all->answered;
    all->answered = -INFINITY;
    all->silence = rtt_doubled(all->silence);
    all->probe_at = now + all->silence;
    if (answered > all->newest && resend_missing(all, answered, true, now))
        return;
    uint64_t above = 0; /* fragments below it have been retransmitted */
    for (uint32_t probe = 0; probe < all->probes; probe++) {
        uint32_t found = all->count;
        for (uint32_t i = 0; i < all->count; i++)
            if (all->lanes[i].sent && all->lanes[i].current >= above &&
                (found == all->count || all->lanes[i].current < all->lanes[found].current))
                found = i;
        if (found == all->count || !resend(all, found, now))
            break;
        above = all->lanes[found].current + 1;
    }
    all->probes = all->probes < all->count ? 2 * all->probes : all->count;
}

/* Updates progress and timers after answers. */
static void settle(struct lanes *all, double now)
{
    const struct rtt *rtt = &all->flow.rtt;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < all->count; i++)
        lowest = all->lanes[i].reached < lowest ? all->lanes[i].reached : lowest;
    const uint64_t pushed = all->flow.chunks.pushed;
    all->lowest = lowest < pushed ? lowest : pushed;
    chunks_advance(&all->flow.chunks, all->lowest, 0);
    if (rtt->smoothed > 0)
        all->silence =
            fmax(rtt->smoothed + fmax(rtt->smoothed, 2 * rtt->variation), LEAST_SILENCE);
    else
        all->silence = rtt_unknown(all->silence, now - all->heard);
    all->heard = now;
    all->probes = 1;
    all->probe_at = now + all->silence;
    if (all->first_answers)
        all->answered = -INFINITY;
    all->first_answers = false;
}

void lanes_pump(struct flow *flow, double now)
{
    struct lanes *all = (struct lanes *)flow;
    const bool touched = all->touched;
    all->touched = false;
    if (touched)
        settle(all, now);
    if (!queue_is_empty(&flow->queues[0]))
        return;
    /* An answer that is not confirmed here is confirmed by silence: see end_silence. */
    if (all->answered > all->newest && is_confirmed(all))
        all->newest = all->answered;
    const bool hurry = all->ready_head == all->ready_tail;
    if (touched)
        resend_missing(all, all->newest, hurry, now);
    send_ready(all, now);
    if (all->in_flight && now >= all->probe_at)
        end_silence(all, now);
}

double lanes_deadline(const struct flow *flow)
{
    const struct lanes *all = (const struct lanes *)flow;
    return all->in_flight ? all->probe_at : INFINITY;
}

uint64_t lanes_done(const struct flow *flow)
{
    return ((const struct lanes *)flow)->lowest;
}

void lanes_look(const struct flow *flow, struct flow_state *state)
{
    const struct lanes *all = (const struct lanes *)flow;
    state->window = all->count;
    state->in_flight = all->in_flight;
}
