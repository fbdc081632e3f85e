/* A window of slots: a member's contributions, or a root's fragments to all. An answer allows the
   next fragment in the same slot to be sent, so that a loss blocks only its own slot. Loss is
   detected by a gap in the answers or by silence: after two round trips without an answer, or more
   if they vary, one fragment is retransmitted as a probe. If nothing follows its answer, everything
   of its chunk that was sent before it is lost (after RACK-TLP, RFC 8985). A timeout covers worse
   cases; it runs from the last answer (RFC 6298, 5.3), because a queue lengthens round trips while
   answers come. After a timeout, each answer to a retransmission allows two more (slow start, RFC
   5681) until an answer to a first sending shows that they are late, not lost (RFC 5682).

   Two things lengthen a round trip. A queue does, and must be measured, or everything in it is
   retransmitted. A loss that another rank repairs does too, and must not be measured, or each
   silence makes the next one longer. A loss can be recognised: a fragment sent later is answered
   earlier, or there is a silence during the round trip. So only round trips with neither are
   measured, and a doubled silence stays doubled until one is measured (Karn).

   A gap is judged by time: a member that missed a result sends the slot's next fragment a round
   trip later than the others, but that fragment is not lost. If no fragment is left to send whose
   answer could show the loss, being overtaken is enough. The papers describe only the timeout; that
   a gap causes retransmissions is our reading of every protocol. */
#include <math.h>

#include "tree.h"

enum { REORDERING = 3 };

void window_open(struct tree *tree, uint32_t size, uint64_t begins)
{
    tree->window = (struct window){
        .size = size,
        .next = begins,
        .sent_end = begins,
        .done_end = begins,
        .timeout = FIRST_TIMEOUT,
        .silence = INFINITY,
        .probe_at = INFINITY,
        .lost_before = -INFINITY,
        .look_again = -INFINITY,
        .newest = -INFINITY,
        .stalled = -INFINITY,
        .answered = -INFINITY,
        .oldest = -INFINITY,
    };
}

double window_deadline(const struct window *window)
{
    return window->outstanding ? fmin(window->look_again, window->probe_at) : INFINITY;
}

double window_round_trip(const struct tree *tree)
{
    return rtt_or(&tree->flow.rtt, FIRST_TIMEOUT);
}

static bool is_sent_here(const struct tree *tree, const struct chunk *chunk)
{
    return tree->is_root == (chunk->operation == MULTICAST);
}

bool window_send(struct tree *tree, uint64_t sequence, uint8_t flags, double now)
{
    const struct chunk *chunk = chunk_of(&tree->flow.chunks, sequence);
    struct place *place = place_of(tree, sequence);
    uint32_t slot = tree->rules->slot(tree, sequence);
    struct header header = {
        .kind = tree->is_root ? KIND_RESULT : KIND_DATA,
        .flags = (uint8_t)(flags | (place->as_floats ? FLAG_FLOATS : 0) |
                           chunk->priority << PRIORITY_SHIFT),
        .tree = htobe16(tree->flow.tree),
        .sequence = htobe32((uint32_t)sequence),
        .slot = htobe32(slot),
        .next_slot = origin_or(tree, slot),
        .bitmap = htobe64(tree->is_root ? tree->everyone[0] : tree->own),
    };
    if (tree->is_root && !place->sent) {
        int32_t stage[VALUES];
        swap_values(row_of(tree, sequence), packet_of(chunk, sequence, stage));
    }
    bool queued = false;
    for (uint32_t i = 0; i < tree->peers; i++)
        queued |= put_header(&tree->flow.queues[i], &header);
    if (queued)
        place->sent_at = now;
    return queued;
}

static void resend(struct tree *tree, uint64_t sequence, double now)
{
    if (!window_send(tree, sequence, tree->rules->resend_flag, now))
        return;
    place_of(tree, sequence)->resent = true;
    tree->flow.counters.retransmitted++;
}

/* Whether a packet of the lowest chunk was answered, or no packet of the flow ever was. Otherwise
   other workers may not have reached this chunk yet. */
static bool is_begun(struct tree *tree)
{
    if (tree->flow.rtt.smoothed <= 0)
        return true;
    const struct chunk *chunk = chunk_of(&tree->flow.chunks, tree->lowest);
    return !chunk || chunk->first < tree->lowest || tree->window.done_end > tree->lowest;
}

static void resend_late(struct tree *tree, double now)
{
    struct window *window = &tree->window;
    /* Retransmit only a few. If they are late because of a queue, more would lengthen it. If they
       are lost, an answer will show which others are. */
    struct congestion *congestion = &tree->congestion;
    uint32_t most = is_begun(tree) ? (uint32_t)congestion->least : 1, count = 0;
    for (uint64_t s = tree->lowest; s < window->sent_end && count < most; s++) {
        struct place *place = place_of(tree, s);
        if (!place->sent || place->done || place->sent_at >= now - window->timeout)
            continue;
        /* Before the first round trip is known, it may only be longer than the timeout. */
        if (!count++ && tree->flow.rtt.smoothed > 0)
            congestion->control->slow_down(congestion, now, window_round_trip(tree));
        resend(tree, s, now);
    }
    if (count) {
        window->stalled = now;
        window->timeout = rtt_doubled(window->timeout);
    }
    if (count > 1) {
        window->lost_before = now;
        window->repairs = 0;
    }
}

/* Retransmits as many of the fragments that a timeout left as answers allow. */
static void repair(struct tree *tree, double now)
{
    struct window *window = &tree->window;
    uint64_t s = tree->lowest;
    for (; s < window->sent_end && window->repairs; s++) {
        const struct place *place = place_of(tree, s);
        if (!place->sent || place->done || place->sent_at >= window->lost_before)
            continue;
        resend(tree, s, now);
        window->repairs--;
    }
    if (s == window->sent_end)
        window->lost_before = -INFINITY;
}

/* Retransmits each fragment that is not done although others that were sent well after it are. In a
   hurry, a few turns after it are enough. */
static void resend_missing(struct tree *tree, uint64_t end, double newest, bool hurry, double now)
{
    struct window *window = &tree->window;
    const double late = newest - LATER * window_round_trip(tree);
    /* Sending times and turns only grow: while the oldest fragment is not late, none is. */
    if (window->oldest >= late && !(hurry && window->lowest_turn + REORDERING + 1 < window->overtaken))
        return;
    double oldest = INFINITY;
    uint64_t lowest_turn = UINT64_MAX - REORDERING - 1, s = tree->lowest;
    for (; s < window->sent_end && s < end; s++) {
        struct place *place = place_of(tree, s);
        if (!place->sent || place->done)
            continue;
        bool passed = hurry && !place->resent && place->turn + REORDERING + 1 < window->overtaken;
        if (passed || place->sent_at < late) {
            if (!place->resent)
                tree->congestion.control->missed(&tree->congestion);
            resend(tree, s, now);
        }
        oldest = fmin(oldest, place->sent_at);
        if (!place->resent && place->turn < lowest_turn)
            lowest_turn = place->turn;
    }
    if (s == window->sent_end) {
        window->oldest = fmin(oldest, now);
        window->lowest_turn = lowest_turn < window->turns ? lowest_turn : window->turns;
    }
}

static void probe(struct tree *tree, double now)
{
    const struct window *window = &tree->window;
    uint64_t s = tree->lowest;
    while (s < window->sent_end && (!place_of(tree, s)->sent || place_of(tree, s)->done))
        s++;
    if (s < window->sent_end)
        resend(tree, s, now);
}

static void end_silence(struct tree *tree, double now)
{
    struct window *window = &tree->window;
    if (window->answered > window->newest) {
        /* Only fragments of its chunk: other ranks may have nothing to add to the next one yet. */
        resend_missing(tree, window->answered_end, window->answered, true, now);
        window->answered = -INFINITY;
    } else {
        probe(tree, now);
    }
    window->stalled = now;
    window->silence *= 2;
    window->probe_at = now + window->silence;
}

/* Whether the fragment before it in its slot is done; p4/README.md explains why that is enough. */
static bool has_slot(const struct tree *tree, uint64_t sequence)
{
    const struct window *window = &tree->window;
    return sequence < tree->lowest + window->size ||
           place_of(tree, sequence - window->size)->done;
}

/* The lowest fragments may always be sent, whatever else is in flight. Other ranks may wait for
   them while our fragments in flight wait for those ranks. Otherwise that is a deadlock. */
static bool is_allowed(const struct tree *tree, uint64_t sequence)
{
    const struct window *window = &tree->window;
    uint32_t allowed = (uint32_t)tree->congestion.allowed;
    return window->outstanding < allowed || sequence < tree->lowest + allowed;
}

static bool may_be_sent(struct tree *tree, uint64_t sequence)
{
    const struct place *place = place_of(tree, sequence);
    return !place->sent && !place->done && is_sent_here(tree, chunk_of(&tree->flow.chunks, sequence));
}

/* A fragment that bypasses switches is marked like a retransmission, which they do not sum. */
static uint8_t first_flags(struct tree *tree, uint64_t sequence)
{
    const struct control *control = tree->congestion.control;
    if (!control->bypasses)
        return 0;
    const uint64_t of_chunk = sequence - chunk_of(&tree->flow.chunks, sequence)->first;
    return control->bypasses(&tree->congestion, sequence, of_chunk) ? tree->rules->resend_flag : 0;
}

/* Sends the fragments that may be sent now. Returns whether there was nothing to send. */
static bool send_new(struct tree *tree, double now)
{
    struct window *window = &tree->window;
    const uint64_t turns = window->turns;
    /* No slot is free beyond this, because no fragment there is done. */
    uint64_t last = window->done_end + window->size;
    if (last > tree->lowest + AHEAD * window->size)
        last = tree->lowest + AHEAD * window->size;
    if (last > tree->flow.chunks.pushed)
        last = tree->flow.chunks.pushed;
    /* Fragments that others send may be done, and their chunk gone, before `next` reaches them. */
    if (window->next < tree->lowest)
        window->next = tree->lowest;
    for (uint64_t s = window->next; s < last; s++) {
        if (may_be_sent(tree, s)) {
            if (!has_slot(tree, s))
                continue;
            if (!is_allowed(tree, s) || !window_send(tree, s, first_flags(tree, s), now))
                return false;
            struct place *place = place_of(tree, s);
            place->sent = true;
            place->turn = window->turns++;
            if (s >= window->sent_end)
                window->sent_end = s + 1;
            if (!window->outstanding++) {
                window->heard = now;
                window->probe_at = now + window->silence;
            }
        }
        if (s == window->next)
            window->next++;
    }
    return window->turns == turns;
}

/* One sample per batch: the others would be the same. */
static void take_sample(struct tree *tree, double sample)
{
    if (!tree->window.sampled)
        rtt_sample(&tree->flow.rtt, sample);
    tree->window.sampled = true;
}

void window_answered(struct tree *tree, uint64_t sequence, uint8_t flags, double now)
{
    struct window *window = &tree->window;
    struct place *place = place_of(tree, sequence);
    window->outstanding--;
    const bool repaired = flags & FLAG_RESEND;
    const struct feedback answer = {sequence, flags, now, window_round_trip(tree)};
    tree->congestion.control->answered(&tree->congestion, &answer);
    const bool in_turn = place->turn >= window->overtaken;
    if (in_turn)
        window->overtaken = place->turn + 1;
    if (now >= window->probe_at)
        window->stalled = now; /* the silence was not noticed in time */
    const double sample = now - place->sent_at;
    if (place->resent && place->sent_at >= window->lost_before)
        window->repairs += 2;
    if (!place->resent && !repaired && place->sent_at < window->lost_before)
        window->lost_before = -INFINITY;
    if (!place->resent) {
        if (place->sent_at > window->newest)
            window->newest = place->sent_at;
        window->first_answers = true;
        if (in_turn && !repaired && place->sent_at > window->stalled)
            take_sample(tree, sample);
        return;
    }
    /* Karn: it is unknown which sending this answers, unless it is too early for the
       retransmission. */
    const struct chunk *chunk = chunk_of(&tree->flow.chunks, sequence);
    if (sample > window_round_trip(tree) / 2 && place->sent_at > window->answered && chunk) {
        window->answered = place->sent_at;
        window->answered_end = chunk->end;
    }
}

static void settle(struct tree *tree, double now)
{
    struct window *window = &tree->window;
    const bool first_answers = window->first_answers, sampled = window->sampled;
    window->touched = window->sampled = window->first_answers = false;
    tree_advance(tree);
    const struct rtt *rtt = &tree->flow.rtt;
    if (rtt->smoothed > 0) {
        /* An answer may wait for others' contributions, which varies more than round trips do. */
        double usual = rtt->smoothed + fmax(rtt->smoothed, 2 * rtt->variation);
        double least = sampled ? LEAST_SILENCE : fmin(window->silence, LONGEST_TIMEOUT);
        window->silence = fmax(usual, least);
    }
    window->probe_at = now + window->silence;
    if (first_answers)
        window->answered = -INFINITY; /* other answers follow the probe's: nothing is lost */
    else if (window->answered > window->newest)
        /* On a slow link the next answer may take as long as this one did. */
        window->probe_at = now + fmax(window->silence, 2 * (now - window->heard));
    if (rtt->smoothed > 0) {
        /* Any answer ends the doubling of the timeout. */
        double timeout = 4 * rtt->smoothed;
        if (first_answers)
            timeout = fmax(timeout, window->silence); /* answers arrive, so a queue is long */
        window->timeout = rtt_timeout(rtt, timeout);
    } else {
        window->timeout = rtt_unknown(window->timeout, now - window->heard);
    }
    window->heard = now;
    window->look_again = now + window->timeout;
    window->settled = true;
}

void window_pump(struct tree *tree, double now)
{
    struct window *window = &tree->window;
    if (tree->window.touched)
        settle(tree, now);
    if (!queues_are_empty(&tree->flow, tree->peers))
        return;
    if (window->settled)
        resend_missing(tree, window->sent_end, window->newest, false, now);
    if (isfinite(window->lost_before) && window->repairs)
        repair(tree, now);
    if (send_new(tree, now) && window->settled)
        resend_missing(tree, window->sent_end, window->newest, true, now);
    window->settled = false;
    if (window->outstanding && now >= window->probe_at)
        end_silence(tree, now);
    if (window->outstanding && now >= window->look_again) {
        resend_late(tree, now);
        /* Two checks per timeout are enough, and each takes time. */
        window->look_again = now + window->timeout / 2;
    }
}
