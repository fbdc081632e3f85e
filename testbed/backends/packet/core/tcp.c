#include "tcp.h"

#include <stddef.h>
#include <stdlib.h>

#include "reassembly.h"
#include "ring.h"

enum { CACHE_LINE = 64 };

enum {
    DUPLICATES = 3,       /* SACKed segments that show a loss whatever the time */
    MOST_GATHERED = 44,   /* segments that Linux joins on receipt (64 KB) */
    QUICK = 16,           /* segments acknowledged one by one at first, as in Linux */
    LEAST_WINDOW = 2,     /* segments, after a loss */
    RETRIES = 15,         /* timeouts in a row after which a connection is given up, as in Linux */
};

/* A segment that is sent and not yet acknowledged. */
struct sent {
    uint64_t start;
    instant at;
    uint32_t length;
    bool sacked, lost, retransmitted, in_flight_again;
};

/* A segment in the sending host's own queue. */
struct leaving {
    instant at;
    uint32_t bytes;
};

enum phase { OPEN, RECOVERY, LOSS };

/* What each acknowledgement needs comes first, to lie in few cache lines. */
struct sender {
    struct event timer;    /* a retransmission timeout, a probe, or a check for late segments */
    instant timer_at;      /* the event may be set for an earlier time */
    uint64_t timer_order;
    instant event_at;
    enum { NO_TIMER, TIMEOUT, PROBE, LATE } purpose;
    enum phase phase;
    uint64_t written, next, acknowledged;
    struct ring flight;    /* segments sent and not yet acknowledged */
    uint32_t sacked, lost, again; /* counts; again: retransmitted and in flight */
    uint32_t window, threshold, window_part; /* segments */
    uint32_t back_off, sent_in_recovery;
    instant smoothed, variation, least_round_trip;
    instant newest_delivered; /* send time of the segment delivered last (RFC 8985) */
    uint64_t newest_end;
    instant newest_round_trip;
    struct event room;     /* enough of this connection's data has left the host */
    struct ring leaving;   /* segments in the host's own queue */
    uint64_t leaving_bytes;
    bool probed;
    uint64_t probe_end;
    uint64_t recovered;    /* recovery ends when all before it is acknowledged */
    uint32_t window_before, threshold_before; /* restored if the loss was none */
    instant retransmitted_at; /* first retransmission since then; NEVER if there is none */
    uint32_t prior_window, delivered; /* RFC 6937, as is sent_in_recovery */
};

struct receiver {
    struct event timer; /* a delayed acknowledgement */
    struct event gathered; /* an acknowledgement of all that has arrived meanwhile */
    instant stamp; /* of the segment that last extended the stream, or filled its gap */
    instant last; /* when data arrived last */
    uint32_t unacknowledged, quick;
    struct ring ends; /* of messages that are not complete: positions */
    struct reassembly stream;
};

struct connection {
    struct tcp *tcp;
    uint32_t number;
    struct node *source, *to;
    struct flow_key forth, back;
    struct sender sender;
    struct tcp_counters counters;
    _Alignas(CACHE_LINE) struct receiver receiver;
};

struct tcp {
    struct network *network;
    struct tcp_settings settings;
    struct connection **connections;
    uint32_t count;
    struct tcp_listener *listener;
};

static instant least(instant a, instant b)
{
    return a < b ? a : b;
}

static instant most(instant a, instant b)
{
    return a > b ? a : b;
}

static struct sent *sent_at(const struct sender *sender, uint32_t index)
{
    return ring_at(&sender->flight, index, sizeof(struct sent));
}

static uint64_t end_of(const struct sent *sent)
{
    return sent->start + sent->length;
}

static uint32_t in_flight(const struct sender *sender)
{
    uint32_t unacknowledged = sender->flight.tail - sender->flight.head;
    return unacknowledged - sender->sacked - sender->lost + sender->again;
}

/* Timers */

/* Most timers are postponed by each acknowledgement: an event that comes early is set again. */
static void set_timer(struct connection *c, int purpose, instant at)
{
    struct sender *s = &c->sender;
    struct clock *clock = &c->tcp->network->clock;
    s->purpose = purpose;
    s->timer_at = at;
    s->timer_order = clock_order(clock);
    if (is_set(&s->timer) && s->event_at < at)
        return;
    s->event_at = at;
    clock_set(clock, &s->timer, at, s->timer_order);
}

static instant current_timeout(const struct connection *c)
{
    const struct sender *s = &c->sender;
    const struct tcp_settings *settings = &c->tcp->settings;
    instant timeout = s->smoothed ? s->smoothed + most(4 * s->variation, settings->least_timeout)
                                  : settings->first_timeout;
    for (uint32_t i = 0; i < s->back_off && timeout < settings->longest_timeout; i++)
        timeout *= 2;
    return least(timeout, settings->longest_timeout);
}

/* Sets a timer for a probe if that may reveal a lost tail, and for the timeout otherwise; no timer
   if nothing is in flight. As in Linux, a probe comes no later than the timeout would. */
static void set_next_timer(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    const struct tcp_settings *settings = &c->tcp->settings;
    if (ring_is_empty(&s->flight)) {
        s->purpose = NO_TIMER;
        clock_cancel(&c->tcp->network->clock, &s->timer);
        return;
    }
    instant timeout = current_timeout(c);
    if (s->phase == OPEN && !s->probed && !s->sacked && !s->lost && !s->back_off) {
        /* The acknowledgement of a single segment may be delayed. */
        bool single = s->flight.tail - s->flight.head == 1;
        instant probe = 2 * s->smoothed + (single ? settings->least_timeout : settings->timer_slack);
        set_timer(c, PROBE, now + least(probe, timeout));
        return;
    }
    set_timer(c, TIMEOUT, now + timeout);
}

static void take_round_trip(struct sender *s, instant sample)
{
    if (!s->least_round_trip || sample < s->least_round_trip)
        s->least_round_trip = sample;
    if (!s->smoothed) {
        s->smoothed = sample;
        s->variation = sample / 2;
        return;
    }
    instant error = sample > s->smoothed ? sample - s->smoothed : s->smoothed - sample;
    s->variation += (error - s->variation) / 4;
    s->smoothed += (sample - s->smoothed) / 8;
}

/* Small queues: a connection has a limited share of its host's own queue. */

static struct leaving *leaving_at(const struct sender *s, uint32_t index)
{
    return ring_at(&s->leaving, index, sizeof(struct leaving));
}

static void leave(struct sender *s, instant at, uint32_t bytes, struct arena *arena)
{
    struct leaving *added = ring_add(&s->leaving, sizeof *added, arena);
    *added = (struct leaving){at, bytes};
    s->leaving_bytes += bytes;
}

/* As in Linux: what the pacing rate sends in a millisecond, but at least two full frames. Per round
   trip, pacing would send twice the window in slow start, and 1.2 times the window later. */
static uint64_t small_queue(const struct connection *c)
{
    const struct sender *s = &c->sender;
    const struct tcp_settings *settings = &c->tcp->settings;
    uint64_t least_bytes = 2 * (uint64_t)(settings->mss + settings->overhead);
    if (!s->smoothed)
        return settings->most_queued;
    double gain = s->window < s->threshold / 2 ? 2.0 : 1.2;
    double bytes = gain * s->window * settings->mss * (double)settings->queued_time /
                   (double)s->smoothed;
    if (bytes > (double)settings->most_queued)
        return settings->most_queued;
    return bytes > (double)least_bytes ? (uint64_t)bytes : least_bytes;
}

/* Whether the host's queue takes another segment of this connection. If not, sets `room`. */
static bool queue_has_room(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    while (!ring_is_empty(&s->leaving) && leaving_at(s, s->leaving.head)->at <= now)
        s->leaving_bytes -= leaving_at(s, s->leaving.head++)->bytes;
    uint64_t limit = small_queue(c), left = s->leaving_bytes;
    if (left < limit)
        return true;
    if (!is_set(&s->room)) {
        uint32_t i = s->leaving.head;
        for (; left >= limit; i++)
            left -= leaving_at(s, i)->bytes;
        struct clock *clock = &c->tcp->network->clock;
        clock_set(clock, &s->room, leaving_at(s, i - 1)->at, clock_order(clock));
    }
    return false;
}

/* Sending */

static void transmit(struct connection *c, struct sent *sent, instant now)
{
    struct network *network = c->tcp->network;
    struct packet *packet = packet_new(network);
    uint32_t bytes = sent->length + c->tcp->settings.overhead;
    packet->bytes = bytes;
    packet->key = c->forth;
    struct segment *segment = &packet->segment;
    segment->position = sent->start;
    segment->stamp = now;
    segment->length = sent->length;
    segment->connection = c->number;
    segment->blocks_count = 0;
    sent->at = now;
    c->counters.segments++;
    instant leaves = network_send(c->source, packet, now);
    if (leaves != NEVER && leaves > now)
        leave(&c->sender, leaves, bytes, &network->arena);
}

static void transmit_again(struct connection *c, struct sent *sent, instant now)
{
    if (!sent->in_flight_again) {
        sent->in_flight_again = true;
        c->sender.again++;
    }
    sent->retransmitted = true;
    c->counters.retransmitted++;
    c->sender.retransmitted_at = least(c->sender.retransmitted_at, now);
    transmit(c, sent, now);
}

static void transmit_new(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    uint64_t left = s->written - s->next;
    uint32_t length = left < c->tcp->settings.mss ? (uint32_t)left : c->tcp->settings.mss;
    struct sent *sent = ring_add(&s->flight, sizeof *sent, &c->tcp->network->arena);
    *sent = (struct sent){.start = s->next, .length = length};
    s->next += length;
    transmit(c, sent, now);
}

/* The first segment that is lost and not retransmitted yet; NULL if there is none. */
static struct sent *next_lost(const struct sender *s)
{
    if (s->lost <= s->again)
        return NULL;
    for (uint32_t i = s->flight.head; i != s->flight.tail; i++)
        if (sent_at(s, i)->lost && !sent_at(s, i)->in_flight_again)
            return sent_at(s, i);
    return NULL;
}

static bool may_send_new(const struct connection *c)
{
    const struct sender *s = &c->sender;
    return s->next < s->written &&
           s->next - s->acknowledged < c->tcp->settings.receive_window;
}

static void send_allowed(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    bool idle = ring_is_empty(&s->flight), some = false;
    while (in_flight(s) < s->window) {
        struct sent *lost = next_lost(s);
        if (!lost && !may_send_new(c))
            break;
        if (!queue_has_room(c, now))
            break;
        if (lost)
            transmit_again(c, lost, now);
        else
            transmit_new(c, now);
        s->sent_in_recovery++;
        some = true;
    }
    if (some && (idle || s->purpose == PROBE || s->purpose == NO_TIMER))
        set_next_timer(c, now);
}

static void has_room(struct event *event, instant now)
{
    send_allowed((struct connection *)((char *)event - offsetof(struct connection, sender.room)),
                 now);
}

/* Losses */

/* Remembers the window, to restore it if a retransmission turns out to be needless. */
static void remember_window(struct sender *s)
{
    if (s->phase == OPEN) {
        s->window_before = s->window;
        s->threshold_before = s->threshold;
        s->retransmitted_at = NEVER;
    }
}

static void enter_recovery(struct connection *c)
{
    struct sender *s = &c->sender;
    remember_window(s);
    s->phase = RECOVERY;
    s->recovered = s->next;
    s->prior_window = s->window;
    s->threshold = s->window / 2 > LEAST_WINDOW ? s->window / 2 : LEAST_WINDOW;
    s->delivered = s->sent_in_recovery = 0;
    s->probed = false;
    c->counters.recoveries++;
}

static void mark_lost(struct sender *s, struct sent *sent)
{
    if (sent->in_flight_again) {
        sent->in_flight_again = false;
        s->again--;
    }
    if (!sent->lost) {
        sent->lost = true;
        s->lost++;
    }
}

/* Marks those segments as lost that were sent well before one that has arrived (RFC 8985, 6.2).
   Returns the time when the next one will count as lost; NEVER if none is in doubt. */
static instant find_lost(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    /* Paths do not change, so packets are not reordered. As in Linux, a quarter of a round trip is
       allowed for reordering until three SACKed segments or a recovery show a loss. */
    instant slack = s->phase != OPEN || s->sacked >= DUPLICATES
                        ? 0
                        : least(s->least_round_trip / 4, s->smoothed / 8);
    instant look = NEVER;
    for (uint32_t i = s->flight.head; i != s->flight.tail; i++) {
        struct sent *sent = sent_at(s, i);
        if (sent->sacked || (sent->lost && !sent->in_flight_again))
            continue;
        bool is_older = sent->at < s->newest_delivered ||
                        (sent->at == s->newest_delivered && end_of(sent) < s->newest_end);
        if (!is_older) {
            if (!sent->retransmitted)
                break; /* the next ones were sent later */
            continue;
        }
        instant late = sent->at + s->newest_round_trip + slack;
        if (late <= now)
            mark_lost(s, sent);
        else
            look = least(look, late);
    }
    return look;
}

static void time_out(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    c->counters.timeouts++;
    remember_window(s);
    if (s->phase == OPEN || (s->phase == LOSS && !s->back_off)) /* a recovery has halved it */
        s->threshold = s->window / 2 > LEAST_WINDOW ? s->window / 2 : LEAST_WINDOW;
    s->phase = LOSS;
    s->recovered = s->next;
    s->window = 1;
    s->window_part = 0;
    s->back_off++;
    s->probed = false;
    if (s->back_off > RETRIES) {
        s->purpose = NO_TIMER;
        c->tcp->listener->broken(c->tcp->listener, c->number, now);
        return;
    }
    for (uint32_t i = s->flight.head; i != s->flight.tail; i++)
        if (!sent_at(s, i)->sacked)
            mark_lost(s, sent_at(s, i));
    s->purpose = NO_TIMER;
    send_allowed(c, now);
    set_timer(c, TIMEOUT, now + current_timeout(c));
}

static void probe(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    s->probed = true;
    s->probe_end = s->next;
    c->counters.probes++;
    if (may_send_new(c)) {
        transmit_new(c, now);
        s->probe_end = s->next;
    } else {
        struct sent *last = sent_at(s, s->flight.tail - 1);
        last->retransmitted = true;
        c->counters.retransmitted++;
        transmit(c, last, now);
    }
    set_timer(c, TIMEOUT, now + current_timeout(c));
}

static void look_for_losses(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    instant look = find_lost(c, now);
    if (s->lost && s->phase == OPEN)
        enter_recovery(c);
    if (look != NEVER)
        set_timer(c, LATE, look + c->tcp->settings.timer_slack);
}

static void timer(struct event *event, instant now)
{
    struct connection *c =
        (struct connection *)((char *)event - offsetof(struct connection, sender.timer));
    struct sender *s = &c->sender;
    if (s->timer_at > now) {
        s->event_at = s->timer_at;
        clock_set(&c->tcp->network->clock, event, s->timer_at, s->timer_order);
        return;
    }
    switch (s->purpose) {
    case TIMEOUT:
        time_out(c, now);
        break;
    case PROBE:
        probe(c, now);
        break;
    case LATE:
        set_next_timer(c, now);
        look_for_losses(c, now);
        if (s->phase == RECOVERY && in_flight(s) >= s->window)
            s->window = in_flight(s) + 1; /* the first retransmission leaves at once */
        send_allowed(c, now);
        break;
    case NO_TIMER:
        break;
    }
}

/* Acknowledgements */

static void deliver(struct sender *s, struct sent *sent, instant now, instant *sample)
{
    instant took = now - sent->at;
    /* Faster than any round trip, so this acknowledges the first transmission. */
    if (sent->retransmitted && took < s->least_round_trip)
        return;
    if (!sent->retransmitted)
        *sample = took;
    if (sent->at > s->newest_delivered ||
        (sent->at == s->newest_delivered && end_of(sent) > s->newest_end)) {
        s->newest_delivered = sent->at;
        s->newest_end = end_of(sent);
        s->newest_round_trip = took;
    }
}

static void forget(struct sender *s, struct sent *sent)
{
    if (sent->sacked)
        s->sacked--;
    if (sent->lost)
        s->lost--;
    if (sent->in_flight_again)
        s->again--;
}

static void sack(struct sender *s, const struct span *block, instant now, instant *sample,
                 uint32_t *delivered)
{
    for (uint32_t i = s->flight.head; i != s->flight.tail; i++) {
        struct sent *sent = sent_at(s, i);
        if (sent->start >= block->end)
            break;
        if (sent->sacked || sent->start < block->start || end_of(sent) > block->end)
            continue;
        deliver(s, sent, now, sample);
        forget(s, sent);
        sent->sacked = true;
        sent->lost = sent->in_flight_again = false;
        s->sacked++;
        (*delivered)++;
    }
}

static void grow(struct sender *s, uint32_t delivered)
{
    if (s->window < s->threshold) {
        uint32_t room = s->threshold - s->window;
        uint32_t taken = delivered < room ? delivered : room;
        s->window += taken;
        delivered -= taken;
    }
    s->window_part += delivered;
    while (s->window_part >= s->window) {
        s->window_part -= s->window;
        s->window++;
    }
}

static void reduce(struct sender *s, uint32_t delivered, bool advanced)
{
    s->delivered += delivered;
    uint32_t flight = in_flight(s);
    int64_t allowed;
    if (flight > s->threshold) {
        allowed = ((int64_t)s->threshold * s->delivered + s->prior_window - 1) / s->prior_window -
                  s->sent_in_recovery;
    } else {
        int64_t missing = (int64_t)s->threshold - flight;
        int64_t owed = (int64_t)s->delivered - s->sent_in_recovery;
        allowed = owed > delivered ? owed : delivered;
        allowed += advanced;
        allowed = allowed < missing ? allowed : missing;
    }
    if (allowed < !s->sent_in_recovery)
        allowed = 1;
    s->window = flight + (uint32_t)(allowed > 0 ? allowed : 0);
}

/* Ends a recovery that turned out to be needless, as if it had never begun. */
static void undo(struct sender *s)
{
    for (uint32_t i = s->flight.head; i != s->flight.tail; i++) {
        struct sent *sent = sent_at(s, i);
        if (sent->lost)
            s->lost--;
        if (sent->in_flight_again)
            s->again--;
        sent->lost = sent->in_flight_again = false;
    }
    if (s->window < s->window_before)
        s->window = s->window_before;
    s->threshold = s->threshold_before;
    s->phase = OPEN;
    s->window_part = 0;
}

static void take_acknowledgement(struct connection *c, const struct segment *segment, instant now)
{
    struct sender *s = &c->sender;
    instant sample = -1;
    uint32_t delivered = 0;
    uint32_t flight = in_flight(s);
    bool retransmitted = false;
    bool advanced = segment->position > s->acknowledged;
    while (!ring_is_empty(&s->flight) &&
           end_of(sent_at(s, s->flight.head)) <= segment->position) {
        struct sent *sent = sent_at(s, s->flight.head);
        retransmitted |= sent->retransmitted;
        if (!sent->sacked) {
            deliver(s, sent, now, &sample);
            delivered++;
        }
        forget(s, sent);
        s->flight.head++;
    }
    if (retransmitted) /* what came behind the gap may have waited for it: the echo is newer */
        sample = now - segment->stamp;
    if (advanced) {
        s->acknowledged = segment->position;
        s->back_off = 0;
        if (s->probed && s->acknowledged >= s->probe_end)
            s->probed = false;
    }
    for (uint32_t i = 0; i < segment->blocks_count; i++)
        sack(s, &segment->blocks[i], now, &sample, &delivered);
    if (sample >= 0)
        take_round_trip(s, sample);
    /* The echo is older than the first retransmission, so the original has arrived (RFC 4015). */
    if (s->phase != OPEN && advanced && segment->stamp < s->retransmitted_at &&
        s->retransmitted_at != NEVER)
        undo(s);
    if (s->phase != OPEN && s->acknowledged >= s->recovered) {
        if (s->phase == RECOVERY)
            s->window = s->threshold;
        s->phase = OPEN;
        s->window_part = 0;
    }
    instant look = s->sacked || s->lost ? find_lost(c, now) : NEVER;
    if (s->phase == OPEN && s->lost)
        enter_recovery(c);
    if (s->phase == RECOVERY)
        reduce(s, delivered, advanced);
    else if (delivered && flight >= s->window) /* a window grows only if it is used */
        grow(s, delivered);
    else if (delivered && s->window < s->threshold && 2 * flight >= s->window)
        grow(s, delivered);
    if (advanced || delivered || s->purpose == NO_TIMER)
        set_next_timer(c, now);
    if (look != NEVER && s->purpose != NO_TIMER)
        set_timer(c, LATE, look + c->tcp->settings.timer_slack);
    send_allowed(c, now);
}

/* Receiving */

static void acknowledge(struct connection *c, instant now)
{
    struct receiver *r = &c->receiver;
    struct network *network = c->tcp->network;
    clock_cancel(&network->clock, &r->timer);
    clock_cancel(&network->clock, &r->gathered);
    r->unacknowledged = 0;
    struct packet *packet = packet_new(network);
    struct segment *segment = &packet->segment;
    segment->position = r->stream.received;
    segment->stamp = r->stamp;
    segment->length = 0;
    segment->connection = c->number;
    uint32_t blocks = segment->blocks_count = reassembly_report(&r->stream, segment->blocks);
    packet->bytes = c->tcp->settings.overhead + (blocks ? 4 + 8 * blocks : 0);
    packet->key = c->back;
    network_send(c->to, packet, now);
}

static void gathered(struct event *event, instant now)
{
    acknowledge((struct connection *)((char *)event -
                                      offsetof(struct connection, receiver.gathered)),
                now);
}

static void delayed(struct event *event, instant now)
{
    acknowledge((struct connection *)((char *)event - offsetof(struct connection, receiver.timer)),
                now);
}

static bool has_whole_message(const struct receiver *r)
{
    return !ring_is_empty(&r->ends) &&
           *(const uint64_t *)ring_at(&r->ends, r->ends.head, sizeof(uint64_t)) <=
               r->stream.received;
}

static void take_data(struct connection *c, const struct segment *segment, instant now)
{
    struct receiver *r = &c->receiver;
    struct tcp *tcp = c->tcp;
    uint64_t before = r->stream.received;
    if (segment->position <= before)
        r->stamp = segment->stamp;
    bool had_gaps = r->stream.count;
    bool in_order =
        reassembly_take(&r->stream,
                        (struct span){segment->position, segment->position + segment->length});
    r->unacknowledged++;
    /* As in Linux: after a long pause a sender may have only one segment in flight. */
    if (now - r->last > tcp->settings.least_timeout)
        r->quick = QUICK;
    r->last = now;
    if (r->quick)
        r->quick--;
    uint32_t messages = 0;
    for (; has_whole_message(r); r->ends.head++)
        messages++;
    struct clock *clock = &tcp->network->clock;
    if (!in_order || had_gaps || r->unacknowledged >= MOST_GATHERED) {
        acknowledge(c, now);
    } else if (messages || r->quick || r->unacknowledged >= 2) {
        /* A host that has read a whole message acknowledges it at once, as in Linux. */
        if (!is_set(&r->gathered))
            clock_set(clock, &r->gathered, now + tcp->settings.gather_time, clock_order(clock));
    } else if (!is_set(&r->timer)) {
        clock_set(clock, &r->timer, now + tcp->settings.acknowledge_delay, clock_order(clock));
    }
    if (messages)
        tcp->listener->arrived(tcp->listener, c->number, messages, now);
}

void tcp_take(struct tcp *tcp, struct packet *packet, instant now)
{
    const struct segment *segment = &packet->segment;
    struct connection *c = tcp->connections[segment->connection];
    if (segment->length)
        take_data(c, segment, now);
    else
        take_acknowledgement(c, segment, now);
    packet_free(tcp->network, packet);
}

/* Connections */

struct tcp *tcp_open(struct network *network, const struct tcp_settings *settings,
                     struct tcp_listener *listener)
{
    struct tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp)
        abort();
    tcp->network = network;
    tcp->settings = *settings;
    tcp->listener = listener;
    return tcp;
}

void tcp_close(struct tcp *tcp)
{
    for (uint32_t i = 0; i < tcp->count; i++)
        reassembly_close(&tcp->connections[i]->receiver.stream);
    free(tcp->connections);
    free(tcp);
}

uint32_t tcp_connect(struct tcp *tcp, uint32_t source, uint32_t to, uint16_t source_port,
                     uint16_t to_port)
{
    struct connection *c = arena_take(&tcp->network->arena, sizeof *c);
    struct connection **all =
        realloc(tcp->connections, (tcp->count + 1) * sizeof *tcp->connections);
    if (!all)
        abort();
    tcp->connections = all;
    tcp->connections[tcp->count] = c;
    c->tcp = tcp;
    c->number = tcp->count++;
    c->source = &tcp->network->nodes[source];
    c->to = &tcp->network->nodes[to];
    c->forth = (struct flow_key){c->source->address, c->to->address, source_port, to_port,
                                 PROTOCOL_TCP};
    c->back = (struct flow_key){c->to->address, c->source->address, to_port, source_port,
                                PROTOCOL_TCP};
    c->sender.room.happen = has_room;
    c->sender.timer.happen = timer;
    c->sender.window = tcp->settings.initial_window;
    c->sender.threshold = UINT32_MAX;
    c->sender.newest_delivered = -1;
    c->receiver.timer.happen = delayed;
    c->receiver.gathered.happen = gathered;
    c->receiver.quick = QUICK;
    return c->number;
}

void tcp_write(struct tcp *tcp, uint32_t connection, uint64_t bytes)
{
    struct connection *c = tcp->connections[connection];
    c->sender.written += bytes;
    uint64_t *end = ring_add(&c->receiver.ends, sizeof *end, &tcp->network->arena);
    *end = c->sender.written;
    send_allowed(c, tcp->network->clock.now);
}

const struct tcp_counters *tcp_counters(const struct tcp *tcp, uint32_t connection)
{
    return &tcp->connections[connection]->counters;
}

struct tcp_state tcp_look(const struct tcp *tcp, uint32_t connection)
{
    const struct sender *s = &tcp->connections[connection]->sender;
    uint64_t mss = tcp->settings.mss;
    return (struct tcp_state){
        .window = s->window * mss,
        .in_flight = in_flight(s) * mss,
        .round_trip = s->smoothed,
    };
}

const struct flow_key *tcp_key(const struct tcp *tcp, uint32_t connection)
{
    return connection < tcp->count ? &tcp->connections[connection]->forth : NULL;
}
