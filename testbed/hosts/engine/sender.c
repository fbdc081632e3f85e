/* A window of slots: a member's contributions, or what a root sends to all. What comes back clocks
   the next one out, in the same slot, so that a hole holds back its own slot alone. Loss is seen as
   a gap in what comes back; or by silence: after two round trips of it, or more where they vary, one
   fragment goes again, as a probe, and if nothing follows its answer then all of its chunk that was
   sent before it is lost (after RACK-TLP, RFC 8985). A timeout is for what is worse; it runs from the
   last answer (RFC 6298, 5.3), because a queue makes round trips long while answers keep coming.

   Two things lengthen a round trip: a queue, which must be learnt, or all in it is sent again; and a
   loss that somebody repairs, which must not be, or each silence makes the next one longer. A loss
   shows: what was sent later is answered earlier, or a silence falls into the round trip. So only
   those without either are measured, and a silence that was doubled stays so until one is (Karn).

   A gap is judged by time: who missed a result sends the slot's next fragment a round trip later
   than the others, to whom it is not lost. Where there is nothing more to send, whose answer would
   tell, being overtaken is enough.

   ATP (NSDI 2021): a fragment sent again bears the resend flag, which makes switches give up what
   they hold of it; ECN halves the number in flight, at most once a round trip, and so does a
   timeout; every window adds one. A gap takes an eighth of what it misses: the paper halves there as
   well, the released code does nothing. Our reading, because where links lose at random a window of
   ATP's is never without a gap, each member seeing the losses of all. SwitchML (NSDI 2021): the same
   packet again, and no congestion control: the window is fixed. Mending gaps there is our reading;
   the paper has the timeout. */
#include <math.h>

#include "flow.h"

static const double FIRST_TIMEOUT = 0.2, LEAST_TIMEOUT = 0.1, LONGEST_TIMEOUT = 1.0;
static const double LEAST_SILENCE = 0.005; /* a busy machine is silent as long for no reason */
static const double LATER = 0.75;  /* of a round trip: less may be a member's delay */
static const double TAKEN = 0.125; /* by a fragment that is missed, of those in flight */
enum { REORDERING = 3, LEAST_IN_FLIGHT = 8 };

static double waiting_time(const struct flow *flow)
{
    return flow->round_trip > 0 ? flow->round_trip : FIRST_TIMEOUT;
}

void sender_open(struct flow *flow)
{
    flow->allowed = flow->window;
    flow->timeout = FIRST_TIMEOUT;
    flow->silence = flow->probe_at = INFINITY;
}

static bool is_sent_here(const struct flow *flow, const struct chunk *chunk)
{
    return flow->is_root == (chunk->operation == MULTICAST);
}

static bool queues_are_empty(const struct flow *flow)
{
    for (uint32_t i = 0; i < flow->peers; i++)
        if (!queue_is_empty(&flow->queues[i]))
            return false;
    return true;
}

bool sender_send(struct flow *flow, uint64_t sequence, uint8_t flags, double now)
{
    const struct chunk *chunk = chunk_of(flow, sequence);
    struct place *place = place_of(flow, sequence);
    uint32_t slot = slot_of(flow, sequence);
    struct header header = {
        .kind = flow->is_root ? KIND_RESULT : KIND_DATA,
        .flags = flags | (place->as_floats ? FLAG_FLOATS : 0),
        .tree = htobe16(flow->tree),
        .sequence = htobe32((uint32_t)sequence),
        .slot = htobe32(slot),
        .next_slot = htobe32(slot),
        .bitmap = htobe64(flow->is_root ? flow->everyone : flow->own),
    };
    if (flow->is_root && !place->sent)
        swap_values(row_of(flow, sequence), memory_of(chunk, sequence));
    bool queued = false;
    for (uint32_t i = 0; i < flow->peers; i++)
        queued |= queue_put(&flow->queues[i], &header);
    if (queued)
        place->sent_at = now;
    return queued;
}

static void resend(struct flow *flow, uint64_t sequence, double now)
{
    if (!sender_send(flow, sequence, flow->style == STYLE_ATP ? FLAG_RESEND : 0, now))
        return;
    place_of(flow, sequence)->resent = true;
    flow->counters.retransmitted++;
}

static void allow(struct flow *flow, double wanted)
{
    double least = flow->window < LEAST_IN_FLIGHT ? flow->window : LEAST_IN_FLIGHT;
    flow->allowed = wanted > least ? wanted : least;
}

void sender_slow_down(struct flow *flow, double now)
{
    if (flow->style != STYLE_ATP || now - flow->last_cut <= waiting_time(flow))
        return;
    allow(flow, flow->allowed / 2);
    flow->last_cut = now;
}

static void mend_late(struct flow *flow, double now)
{
    /* Some only: what was late because of a queue would lengthen it, and what an answer shows to be
       lost is mended then. */
    uint32_t most = (uint32_t)fmin(flow->allowed, LEAST_IN_FLIGHT), count = 0;
    for (uint64_t s = flow->lowest; s < flow->sent_end && count < most; s++) {
        struct place *place = place_of(flow, s);
        if (!place->sent || place->done || place->sent_at >= now - flow->timeout)
            continue;
        if (!count++)
            sender_slow_down(flow, now);
        resend(flow, s, now);
    }
    if (count) {
        flow->stalled = now;
        flow->timeout = 2 * flow->timeout < LONGEST_TIMEOUT ? 2 * flow->timeout : LONGEST_TIMEOUT;
    }
}

/* Sends again what is not done when others are that were sent well after it; or, in a hurry, when
   others are that were sent a few turns later. */
static void mend(struct flow *flow, uint64_t end, double newest, bool hurry, double now)
{
    for (uint64_t s = flow->lowest; s < flow->sent_end && s < end; s++) {
        struct place *place = place_of(flow, s);
        bool passed = hurry && !place->resent && place->turn + REORDERING + 1 < flow->overtaken;
        bool late = place->sent_at < newest - LATER * waiting_time(flow);
        if (!place->sent || place->done || !(passed || late))
            continue;
        if (flow->style == STYLE_ATP && !place->resent)
            allow(flow, flow->allowed - TAKEN);
        resend(flow, s, now);
    }
}

static void probe(struct flow *flow, double now)
{
    uint64_t s = flow->lowest;
    while (s < flow->sent_end && (!place_of(flow, s)->sent || place_of(flow, s)->done))
        s++;
    if (s < flow->sent_end)
        resend(flow, s, now);
}

static void end_silence(struct flow *flow, double now)
{
    if (flow->answered > flow->newest) {
        /* Of its chunk alone: others may not have anything to add to the next one yet. */
        mend(flow, flow->answered_end, flow->answered, true, now);
        flow->answered = 0;
    } else {
        probe(flow, now);
    }
    flow->stalled = now;
    flow->silence *= 2;
    flow->probe_at = now + flow->silence;
}

/* The fragment before it in its slot is done: p4/README.md has why that is enough. */
static bool has_slot(const struct flow *flow, uint64_t sequence)
{
    return sequence < flow->lowest + flow->window ||
           place_of(flow, sequence - flow->window)->done;
}

/* Others than ours may wait for the lowest, and ours for others that wait for that: whatever else is
   in flight, the lowest go, or nobody would. */
static bool is_allowed(const struct flow *flow, uint64_t sequence)
{
    uint32_t allowed = (uint32_t)flow->allowed;
    return flow->outstanding < allowed || sequence < flow->lowest + allowed;
}

static bool may_be_sent(struct flow *flow, uint64_t sequence)
{
    const struct place *place = place_of(flow, sequence);
    return !place->sent && !place->done && is_sent_here(flow, chunk_of(flow, sequence));
}

/* Whether there was nothing to send. */
static bool send_new(struct flow *flow, double now)
{
    const uint64_t turns = flow->turns;
    /* Further on no slot is free, nothing there being done. */
    uint64_t last = flow->done_end + flow->window;
    if (last > flow->lowest + AHEAD * flow->window)
        last = flow->lowest + AHEAD * flow->window;
    if (last > flow->pushed)
        last = flow->pushed;
    /* What others send may have come, and its chunk gone, before its turn came here. */
    if (flow->next < flow->lowest)
        flow->next = flow->lowest;
    for (uint64_t s = flow->next; s < last; s++) {
        if (may_be_sent(flow, s)) {
            if (!has_slot(flow, s))
                continue;
            if (!is_allowed(flow, s) || !sender_send(flow, s, 0, now))
                return false;
            struct place *place = place_of(flow, s);
            place->sent = true;
            place->turn = flow->turns++;
            if (s >= flow->sent_end)
                flow->sent_end = s + 1;
            if (!flow->outstanding++) {
                flow->heard = now;
                flow->probe_at = now + flow->silence;
            }
        }
        if (s == flow->next)
            flow->next++;
    }
    return flow->turns == turns;
}

void sender_pump(struct flow *flow, double now)
{
    if (!queues_are_empty(flow))
        return;
    if (flow->settled)
        mend(flow, flow->sent_end, flow->newest, false, now);
    if (send_new(flow, now) && flow->settled)
        mend(flow, flow->sent_end, flow->newest, true, now);
    flow->settled = false;
    if (flow->outstanding && now >= flow->probe_at)
        end_silence(flow, now);
    if (flow->outstanding && now >= flow->look_again) {
        mend_late(flow, now);
        /* Twice a timeout is often enough, and looking is not free. */
        flow->look_again = now + flow->timeout / 2;
    }
}

static void take_sample(struct flow *flow, double sample)
{
    if (flow->sampled)
        return;
    flow->sampled = true;
    if (flow->round_trip > 0) {
        flow->variation = 0.75 * flow->variation + 0.25 * fabs(sample - flow->round_trip);
        flow->round_trip = 0.875 * flow->round_trip + 0.125 * sample;
    } else {
        flow->round_trip = sample;
    }
}

void sender_done(struct flow *flow, uint64_t sequence, double now)
{
    struct place *place = place_of(flow, sequence);
    flow->outstanding--;
    flow->allowed += 1 / flow->allowed;
    if (flow->allowed > flow->window)
        flow->allowed = flow->window;
    const bool in_turn = place->turn >= flow->overtaken;
    if (in_turn)
        flow->overtaken = place->turn + 1;
    if (now >= flow->probe_at)
        flow->stalled = now; /* nobody looked in time */
    const double sample = now - place->sent_at;
    if (!place->resent) {
        if (place->sent_at > flow->newest)
            flow->newest = place->sent_at;
        flow->first_answers = true;
        if (in_turn && place->sent_at > flow->stalled)
            take_sample(flow, sample);
        return;
    }
    /* Karn: its time is ambiguous, unless it is too short for an answer to the second one. */
    const struct chunk *chunk = chunk_of(flow, sequence);
    if (sample > waiting_time(flow) / 2 && place->sent_at > flow->answered && chunk) {
        flow->answered = place->sent_at;
        flow->answered_end = chunk->end;
    }
}

void sender_settle(struct flow *flow, double now)
{
    const bool first_answers = flow->first_answers, sampled = flow->sampled;
    flow->touched = flow->sampled = flow->first_answers = false;
    flow_advance(flow);
    if (flow->round_trip > 0) {
        /* An answer may wait for others' contributions: how long differs more than round trips. */
        double usual = flow->round_trip + fmax(flow->round_trip, 2 * flow->variation);
        double least = sampled ? LEAST_SILENCE : fmin(flow->silence, LONGEST_TIMEOUT);
        flow->silence = fmax(usual, least);
    }
    flow->probe_at = now + flow->silence;
    if (first_answers)
        flow->answered = 0; /* others follow: no reason for suspicion */
    else if (flow->answered > flow->newest)
        /* On a slow link the next answer may take as long as this one did. */
        flow->probe_at = now + fmax(flow->silence, 2 * (now - flow->heard));
    flow->heard = now;
    /* Anything that comes back ends a timeout's. */
    double timeout = flow->round_trip > 0 ? 4 * flow->round_trip : FIRST_TIMEOUT;
    timeout = timeout < LEAST_TIMEOUT ? LEAST_TIMEOUT : timeout;
    flow->timeout = timeout > LONGEST_TIMEOUT ? LONGEST_TIMEOUT : timeout;
    flow->look_again = now + flow->timeout;
    flow->settled = true;
}
