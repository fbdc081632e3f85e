/* A rank's pair of reliable connections on a ring of hosts (NetReduce over RoCEv2): it sends its
   values to the next rank and receives from the previous one. Switches on the way replace the
   values by the sum. Acknowledgements are cumulative; a NAK asks for an overtaken packet. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "flow.h"
#include "roce.h"

enum { REORDERING = 3, ASKED_AT_ONCE = 32, RESENT_AT_ONCE = 32 };
enum { GATHERED = 16 }; /* packets in order that one acknowledgement may answer */

/* The peers: the previous rank, for acknowledgements; the destination of values, which is a switch
   or the next rank; and the next rank, for retransmitted sums. Their queues are sent in this order,
   because acknowledgements behind a window of values would be late. */
enum { BEFORE, TO, AFTER, PEERS };

struct ring {
    struct flow flow;
    uint16_t rank;
    uint32_t outgoing, incoming; /* numbers of the two connections */
    uint32_t message;            /* packets in one, at most */
    uint32_t window;             /* messages in flight */
    uint64_t next, received, acked, messages;
    uint64_t highest; /* one past the last fragment received */
    uint32_t span;    /* places: twice the number of packets in flight */
    bool *got;
    double *sent_at, *asked_at;
    bool *resent;
    uint64_t *split; /* by message: its number and one, if a packet of it was sent alone */
    double timeout, look_again;
    double silence, probe_at; /* the longest silence allowed, and when it will be over */
    double stalled;           /* when the last silence was noticed */
    double heard;             /* when progress was last made, or the first in flight was sent */
    struct rtt with_repairs;  /* round trips, also those that losses made longer */
    uint32_t gathered;        /* packets that are not acknowledged yet */
    bool answer;              /* an acknowledgement is due */
    double repaired;          /* when the last sum's packet was sent, if that was again */
    double now;               /* the time of the last pump, when packets leave */
};

static int ring_open(struct flow *flow, const struct role *role)
{
    struct ring *ring = (struct ring *)flow;
    if (role->peers != PEERS)
        return -EINVAL;
    const uint32_t first = (uint32_t)role->tree * MAX_RANKS;
    ring->rank = role->rank;
    ring->outgoing = first + role->rank;
    ring->incoming = first + role->rank_before;
    ring->message = role->message;
    ring->window = role->window;
    ring->next = ring->received = ring->acked = ring->highest = role->begins;
    ring->timeout = ring->silence = FIRST_TIMEOUT;
    ring->look_again = ring->probe_at = ring->stalled = -INFINITY;
    ring->span = 2 * role->window * role->message;
    ring->got = calloc(ring->span, sizeof *ring->got);
    ring->sent_at = calloc(ring->span, sizeof *ring->sent_at);
    ring->asked_at = calloc(ring->span, sizeof *ring->asked_at);
    ring->resent = calloc(ring->span, sizeof *ring->resent);
    ring->split = calloc(2 * role->window, sizeof *ring->split);
    flow->queues = calloc(PEERS, sizeof *flow->queues);
    if (!ring->got || !ring->sent_at || !ring->asked_at || !ring->resent || !ring->split ||
        !flow->queues)
        return -ENOMEM;
    for (int i = 0; i < PEERS; i++)
        if (queue_open(&flow->queues[flow->queues_count++], role->addresses[i], 2 * ring->span))
            return -ENOMEM;
    return 0;
}

static void ring_close(struct flow *flow)
{
    struct ring *ring = (struct ring *)flow;
    free(ring->got);
    free(ring->sent_at);
    free(ring->asked_at);
    free(ring->resent);
    free(ring->split);
}

static int ring_push(struct flow *flow, enum operation operation, int32_t *values,
                     uint64_t count)
{
    struct ring *ring = (struct ring *)flow;
    if (operation != ALL_REDUCE)
        return -EINVAL;
    if (!count)
        return 0;
    struct chunk *chunk = chunks_push(&flow->chunks, operation, values, count);
    if (!chunk)
        return -ENOMEM;
    chunk->message = ring->messages;
    ring->messages += (fragments_of(count) + ring->message - 1) / ring->message;
    return 0;
}

/* Done: received here, and acknowledged by the next rank, so never retransmitted. */
static uint64_t ring_done(const struct flow *flow)
{
    const struct ring *ring = (const struct ring *)flow;
    return ring->received < ring->acked ? ring->received : ring->acked;
}

static uint64_t message_of(const struct ring *ring, const struct chunk *chunk, uint64_t fragment)
{
    return chunk->message + (fragment - chunk->first) / ring->message;
}

static uint64_t first_of(const struct ring *ring, const struct chunk *chunk, uint64_t fragment)
{
    return fragment - (fragment - chunk->first) % ring->message;
}

static bool is_received(const struct ring *ring, uint64_t fragment)
{
    return fragment < ring->received || ring->got[fragment % ring->span];
}

/* `alone`: sends the fragment as a message of its own, whose header is in this packet. */
static bool send_fragment(struct ring *ring, uint64_t fragment, bool alone, double now)
{
    const struct chunk *chunk = chunk_of(&ring->flow.chunks, fragment);
    const uint64_t message = message_of(ring, chunk, fragment);
    const uint64_t start = first_of(ring, chunk, fragment), first = alone ? fragment : start;
    const uint64_t left = chunk->end - start, whole = left < ring->message ? left : ring->message;
    const uint64_t count = alone ? 1 : whole;
    const bool opens = fragment == first, closes = fragment == first + count - 1;
    const bool is_sum = is_received(ring, fragment);
    struct bth bth = {.partition = 0xffff, .reserved = is_sum ? IS_SUM : 0};
    bth.opcode = opens ? closes ? SEND_ONLY : SEND_FIRST : closes ? SEND_LAST : SEND_MIDDLE;
    put24(bth.connection, ring->outgoing);
    put24(bth.sequence, fragment);
    uint8_t head[sizeof bth + sizeof(struct header)];
    memcpy(head, &bth, sizeof bth);
    if (opens) {
        const uint64_t live = message % (2 * ring->window);
        const struct header header = {
            .kind = KIND_DATA,
            .tree = htobe16(ring->flow.tree),
            .sequence = htobe32((uint32_t)first),
            .slot = htobe32((uint32_t)(live * ring->message + (first - start))),
            .next_slot = htobe32((uint32_t)((message % LIVE_MESSAGES) << 24 | count)),
            .bitmap = htobe64(UINT64_C(1) << ring->rank % BITMAP),
        };
        memcpy(head + sizeof bth, &header, sizeof header);
    }
    struct queue *queue = &ring->flow.queues[is_sum ? AFTER : TO];
    if (!queue_put(queue, fragment, head, opens ? sizeof head : sizeof bth, true))
        return false;
    ring->sent_at[fragment % ring->span] = now;
    return true;
}

/* NULL if the sum replaced the packet's own values after it was queued. The time of sending is when
   the packet leaves, because the socket may be full for a long time. */
static const int32_t *ring_values(struct flow *flow, const struct outgoing *packet, int32_t *stage)
{
    struct ring *ring = (struct ring *)flow;
    const struct chunk *chunk = chunk_of(&flow->chunks, packet->fragment);
    const bool as_sum = ((const struct bth *)packet->head)->reserved & IS_SUM;
    if (!chunk || as_sum != is_received(ring, packet->fragment))
        return NULL;
    ring->sent_at[packet->fragment % ring->span] = ring->now;
    int32_t whole[VALUES];
    swap_values(stage, packet_of(chunk, packet->fragment, whole));
    return stage;
}

/* Whether `at` is less than half a round trip ago: what was sent then may still be on its way.
   Round trips during repairs count, because retransmissions lengthen the queues. While none is
   known, it may be as long as the timeout. */
static bool is_recent(const struct ring *ring, double at, double now)
{
    return now - at <= rtt_or(&ring->with_repairs, ring->timeout) / 2;
}

/* Also retransmits the message's first packet: a switch that missed it recognises no other packet
   of the message. If the sum has replaced the first packet's values, and one retransmission of this
   packet has not helped, the switch may have forgotten the message. Then this packet is sent as a
   message of its own. All others of its message must be, too, because the switch has replaced the
   message by it. */
static bool send_again(struct ring *ring, uint64_t fragment, double now)
{
    const struct chunk *chunk = chunk_of(&ring->flow.chunks, fragment);
    if (!chunk || fragment >= ring->next)
        return true;
    const uint64_t first = first_of(ring, chunk, fragment), both[] = {first, fragment};
    const uint64_t message = message_of(ring, chunk, fragment);
    uint64_t *split = &ring->split[message % (2 * ring->window)];
    for (int i = first == fragment; i < 2; i++) {
        if (both[i] != fragment &&
            (is_received(ring, first) || is_recent(ring, ring->sent_at[first % ring->span], now)))
            continue;
        const bool alone = i == 1 && is_received(ring, first) && !is_received(ring, fragment) &&
                           (ring->resent[fragment % ring->span] || *split == message + 1);
        if (!send_fragment(ring, both[i], alone, now))
            return false;
        if (alone)
            *split = message + 1;
        ring->resent[both[i] % ring->span] = true;
        ring->flow.counters.retransmitted++;
    }
    return true;
}

static void answer(struct ring *ring, uint8_t syndrome, uint64_t sequence)
{
    struct answer packet = {.bth = {.opcode = ACKNOWLEDGE, .partition = 0xffff},
                            .syndrome = syndrome};
    put24(packet.bth.connection, ring->incoming);
    put24(packet.bth.sequence, sequence);
    queue_put(&ring->flow.queues[BEFORE], sequence, &packet, sizeof packet, false);
}

/* Only if the sum came in order, and without a silence: a loss that any rank repairs takes longer,
   and must not make the next silence longer. So only queues make the smoothed round trip longer,
   and it bounds timeouts, which the least one would not while a queue fills. */
static void measure_round_trip(struct ring *ring, uint64_t fragment, double now)
{
    const double sent_at = ring->sent_at[fragment % ring->span];
    struct rtt *rtt = &ring->flow.rtt;
    if (fragment < ring->highest || fragment >= ring->next || ring->resent[fragment % ring->span])
        return;
    rtt_sample(&ring->with_repairs, now - sent_at);
    if (sent_at > ring->stalled) {
        rtt_sample(rtt, now - sent_at);
        rtt->least = rtt->smoothed;
    }
}

/* Any progress ends a silence, and resets the times that grew during it. */
static void hear(struct ring *ring, double now)
{
    const struct rtt *rtt = &ring->flow.rtt;
    if (rtt->smoothed > 0) {
        ring->timeout = rtt_timeout(rtt, 4 * rtt->smoothed);
        ring->silence = fmax(2 * rtt->smoothed, LEAST_SILENCE);
    } else {
        ring->timeout = rtt_unknown(ring->timeout, now - ring->heard);
        ring->silence = rtt_unknown(ring->silence, now - ring->heard);
    }
    ring->heard = now;
    ring->probe_at = now + ring->silence;
}

/* The last packet of a message is acknowledged at once, and so is any that is out of order. Other
   acknowledgements are gathered, as network cards do. */
static void take_values(struct ring *ring, uint64_t fragment, const int32_t *values, bool closes,
                        double now)
{
    const struct chunk *chunk = chunk_of(&ring->flow.chunks, fragment);
    if (!chunk || fragment >= ring->received + ring->span || is_received(ring, fragment)) {
        ring->answer = true;
        return;
    }
    store_packet(chunk, fragment, values);
    ring->got[fragment % ring->span] = true;
    ring->repaired = ring->resent[fragment % ring->span] ? ring->sent_at[fragment % ring->span]
                                                         : -INFINITY;
    if (now >= ring->probe_at)
        ring->stalled = now; /* the silence was not noticed in time */
    measure_round_trip(ring, fragment, now);
    hear(ring, now);
    if (fragment >= ring->highest)
        ring->highest = fragment + 1;
    const uint64_t next = ring->received + 1;
    while (ring->received < ring->flow.chunks.pushed && ring->got[ring->received % ring->span])
        ring->got[ring->received++ % ring->span] = false;
    if (closes || ++ring->gathered == GATHERED || ring->received != next)
        ring->answer = true;
}

static void take_answer(struct ring *ring, const struct answer *packet, double now)
{
    const uint64_t number = whole_number(get24(packet->bth.sequence), ring->acked);
    if (packet->syndrome == NAK_SEQUENCE) {
        if (number >= ring->acked && number < ring->next &&
            !is_recent(ring, ring->sent_at[number % ring->span], now))
            send_again(ring, number, now);
        return;
    }
    /* An acknowledgement names the last fragment received without a gap. */
    if (number + 1 <= ring->acked || number >= ring->next)
        return;
    hear(ring, now);
    for (uint64_t each = ring->acked; each <= number; each++)
        ring->resent[each % ring->span] = false;
    ring->acked = number + 1;
    /* Not while acknowledgements come (RFC 6298, 5.3): they wait behind up to a window of the next
       rank's own values. */
    ring->look_again = now + ring->timeout;
}

static int tree_of_connection(const void *packet, size_t size)
{
    const struct bth *bth = packet;
    const bool known = size == sizeof(struct answer) || size == SHORT_DATA ||
                       size == sizeof(struct data);
    return known ? (int)(get24(bth->connection) / MAX_RANKS) : -1;
}

static void ring_take(struct flow *flow, const void *packet, size_t size, double now)
{
    struct ring *ring = (struct ring *)flow;
    const struct data *data = packet;
    const uint8_t opcode = data->bth.opcode;
    const uint32_t number = get24(data->bth.connection);
    const uint64_t fragment = whole_number(get24(data->bth.sequence), ring->received);
    const bool opens = opcode == SEND_FIRST || opcode == SEND_ONLY;
    const bool closes = opcode == SEND_LAST || opcode == SEND_ONLY;
    const bool follows = opcode == SEND_MIDDLE || opcode == SEND_LAST;
    if (size == sizeof(struct answer)) {
        if (opcode == ACKNOWLEDGE && number == ring->outgoing)
            take_answer(ring, packet, now);
    } else if (number != ring->incoming || !(data->bth.reserved & IS_SUM)) {
        return; /* a contribution: a switch on the way does not know the connection (yet) */
    } else if (opens && size == sizeof *data) {
        take_values(ring, fragment, data->rest + HEADER_BYTES / 4, closes, now);
    } else if (follows && size == SHORT_DATA) {
        take_values(ring, fragment, data->rest, closes, now);
    }
}

/* Asks the previous rank for missing fragments below `overtaken`, but for none twice in half a
   round trip: each answer may show gaps again, and more requests than answers would fill the
   queues. */
static void ask(struct ring *ring, uint64_t overtaken, double now)
{
    int asked = 0;
    for (uint64_t each = ring->received; each < overtaken && asked < ASKED_AT_ONCE; each++) {
        double *asked_at = &ring->asked_at[each % ring->span];
        if (ring->got[each % ring->span] || is_recent(ring, *asked_at, now))
            continue;
        *asked_at = now;
        answer(ring, NAK_SEQUENCE, each);
        asked++;
    }
}

/* Acknowledges received fragments, and asks for missing ones. */
static void answer_all(struct ring *ring, double now)
{
    if (!ring->answer)
        return;
    ring->answer = false;
    ring->gathered = 0;
    if (ring->received)
        answer(ring, ACK, ring->received - 1);
    if (ring->highest > REORDERING)
        ask(ring, ring->highest - REORDERING, now);
}

static void send_new(struct ring *ring, double now)
{
    struct chunks *chunks = &ring->flow.chunks;
    while (ring->next < chunks->pushed) {
        const struct chunk *chunk = chunk_of(chunks, ring->next);
        const uint64_t message = message_of(ring, chunk, ring->next);
        const struct chunk *lowest = chunk_of(chunks, ring->received);
        uint64_t open = lowest ? message_of(ring, lowest, ring->received) : ring->messages;
        if (message >= open + ring->window || !send_fragment(ring, ring->next, false, now))
            return;
        if (ring->acked == ring->next++) {
            ring->heard = now;
            ring->probe_at = now + ring->silence;
        }
    }
}

static void resend_late(struct ring *ring, double now)
{
    if (now < ring->look_again)
        return;
    /* Retransmit only some: if those are late because of a queue, more would lengthen it. If they
       are lost, the next rank asks for others that are. */
    int late = 0;
    for (uint64_t each = ring->acked; each < ring->next && late < RESENT_AT_ONCE; each++)
        if (ring->sent_at[each % ring->span] < now - ring->timeout) {
            late++;
            if (!send_again(ring, each, now))
                break;
        }
    if (late)
        ring->timeout = rtt_doubled(ring->timeout);
    ring->look_again = now + ring->timeout / 2;
}

/* After two round trips of silence, a fragment was lost, or the packet that would have shown its
   loss. A rank that waits asks for what it lacks, and retransmits this and what the next rank has
   not acknowledged. A rank that does not wait need not do anything, because the others ask it.

   One fragment that no sum has overtaken is retransmitted as a probe. If nothing follows its sum,
   everything of its chunk that was sent before it is lost, too: switches recognise no packet of a
   message whose first was lost. */
static void end_silence(struct ring *ring, double now)
{
    if (ring->acked == ring->next || now < ring->probe_at)
        return;
    ask(ring, ring->highest > ring->received ? ring->highest : ring->received + 1, now);
    if (ring->acked < ring->received)
        send_again(ring, ring->acked, now);
    const struct chunk *chunk = chunk_of(&ring->flow.chunks, ring->received);
    const uint64_t end = chunk && chunk->end < ring->next ? chunk->end : ring->next;
    for (uint64_t each = ring->received; each < end; each++) {
        const bool before = ring->sent_at[each % ring->span] < ring->repaired;
        if ((each <= ring->highest || before) && !is_received(ring, each) &&
            !send_again(ring, each, now))
            break;
    }
    ring->stalled = now;
    ring->silence = rtt_doubled(ring->silence);
    ring->probe_at = now + ring->silence;
}

static void ring_pump(struct flow *flow, double now)
{
    struct ring *ring = (struct ring *)flow;
    ring->now = now;
    answer_all(ring, now);
    chunks_advance(&flow->chunks, ring_done(flow), 0);
    if (!queue_is_empty(&flow->queues[TO]) || !queue_is_empty(&flow->queues[AFTER]))
        return;
    send_new(ring, now);
    end_silence(ring, now);
    resend_late(ring, now);
}

static double ring_deadline(const struct flow *flow)
{
    const struct ring *ring = (const struct ring *)flow;
    return ring->acked < ring->next ? fmin(ring->look_again, ring->probe_at) : INFINITY;
}

static void ring_look(const struct flow *flow, struct flow_state *state)
{
    const struct ring *ring = (const struct ring *)flow;
    state->window = ring->window * ring->message;
    state->in_flight = (uint32_t)(ring->next - ring->acked);
}

const struct protocol netreduce = {
    .size = sizeof(struct ring),
    .control = &none,
    .open = ring_open,
    .close = ring_close,
    .push = ring_push,
    .tree_of = tree_of_connection,
    .take = ring_take,
    .pump = ring_pump,
    .deadline = ring_deadline,
    .done = ring_done,
    .look = ring_look,
    .values = ring_values,
};
