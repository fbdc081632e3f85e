#include "tcp.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    DUPLICATES = 3,       /* acknowledgements that show a loss without regard to time */
    QUICK = 16,           /* segments that are acknowledged one by one at first, as in Linux */
    LEAST_WINDOW = 2,     /* segments, after a loss */
    HOLES = 64,           /* spans beyond a gap that a receiver remembers */
};

/* A segment that was sent and is not acknowledged. */
struct sent {
    uint64_t start;
    instant at;
    uint32_t length;
    bool sacked, lost, retransmitted, in_flight_again;
};

enum phase { OPEN, RECOVERY, LOSS };

struct sender {
    struct event timer;    /* the retransmission timeout, a probe, or a look at what is late */
    enum { NO_TIMER, TIMEOUT, PROBE, LATE } purpose;
    struct port *port;     /* the host's own */
    uint64_t written, next, acknowledged;
    struct sent *ring;     /* a power of two */
    uint32_t mask, head, tail;
    uint32_t sacked, lost, again; /* how many; again: retransmitted and in flight */
    enum phase phase;
    uint64_t recovered;    /* recovery ends when all before it is acknowledged */
    uint32_t window, threshold, window_part; /* segments */
    uint32_t prior_window, delivered, sent_in_recovery; /* RFC 6937 */
    instant smoothed, variation, least_round_trip, timeout;
    uint32_t back_off;
    instant newest_delivered; /* when what was delivered last had been sent (RFC 8985) */
    uint64_t newest_end;
    instant newest_round_trip;
    bool waits_for_room, probed;
    uint64_t probe_end;
};

struct receiver {
    struct event timer; /* a delayed acknowledgement */
    uint64_t received, expected;
    struct span holes[HOLES]; /* what came beyond a gap, the latest first */
    uint32_t holes_count, unacknowledged, quick;
    instant last; /* when data came last */
};

struct connection {
    struct tcp *tcp;
    uint32_t number;
    struct node *source, *to;
    struct flow_key forth, back;
    struct sender sender;
    struct receiver receiver;
    struct tcp_counters counters;
};

struct tcp {
    struct network *network;
    struct tcp_settings settings;
    struct connection **connections;
    uint32_t count;
    void (*arrived)(void *context, uint32_t connection, instant now);
    void *context;
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
    return &sender->ring[index & sender->mask];
}

static uint64_t end_of(const struct sent *sent)
{
    return sent->start + sent->length;
}

static uint32_t in_flight(const struct sender *sender)
{
    return sender->tail - sender->head - sender->sacked - sender->lost + sender->again;
}

/* Timers */

static void set_timer(struct connection *c, int purpose, instant at)
{
    struct clock *clock = &c->tcp->network->clock;
    c->sender.purpose = purpose;
    clock_set(clock, &c->sender.timer, at, clock_order(clock));
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

/* A probe where one may tell of a lost tail, else the timeout; none where nothing is in flight. */
static void set_next_timer(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    if (s->head == s->tail) {
        s->purpose = NO_TIMER;
        clock_cancel(&c->tcp->network->clock, &s->timer);
        return;
    }
    instant timeout = current_timeout(c);
    if (s->phase == OPEN && s->smoothed && !s->probed && !s->sacked && !s->lost && !s->back_off) {
        instant probe = 2 * s->smoothed;
        if (s->tail - s->head == 1)
            probe += c->tcp->settings.least_timeout;
        if (probe < timeout) {
            set_timer(c, PROBE, now + probe);
            return;
        }
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

/* Sending */

static void transmit(struct connection *c, struct sent *sent, instant now)
{
    struct network *network = c->tcp->network;
    struct packet *packet = packet_new(network);
    packet->bytes = sent->length + c->tcp->settings.overhead;
    packet->key = c->forth;
    packet->segment = (struct segment){
        .start = sent->start, .length = sent->length, .connection = c->number};
    sent->at = now;
    c->counters.segments++;
    port_send(c->sender.port, packet, now);
}

static void transmit_again(struct connection *c, struct sent *sent, instant now)
{
    if (!sent->in_flight_again) {
        sent->in_flight_again = true;
        c->sender.again++;
    }
    sent->retransmitted = true;
    c->counters.retransmitted++;
    transmit(c, sent, now);
}

static void transmit_new(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    if (s->tail - s->head > s->mask) {
        uint32_t mask = 2 * s->mask + 1;
        struct sent *ring = malloc(((size_t)mask + 1) * sizeof *ring);
        if (!ring)
            abort();
        for (uint32_t i = s->head; i != s->tail; i++)
            ring[i & mask] = *sent_at(s, i);
        free(s->ring);
        s->ring = ring;
        s->mask = mask;
    }
    uint64_t left = s->written - s->next;
    uint32_t length = left < c->tcp->settings.mss ? (uint32_t)left : c->tcp->settings.mss;
    struct sent *sent = sent_at(s, s->tail++);
    *sent = (struct sent){.start = s->next, .length = length};
    s->next += length;
    transmit(c, sent, now);
}

/* The first segment that is lost and not on its way again; NULL if there is none. */
static struct sent *next_lost(const struct sender *s)
{
    if (s->lost <= s->again)
        return NULL;
    for (uint32_t i = s->head; i != s->tail; i++)
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
    bool idle = s->head == s->tail, some = false;
    while (in_flight(s) < s->window) {
        struct sent *lost = next_lost(s);
        if (!lost && !may_send_new(c))
            break;
        if (port_waiting(s->port, now) > c->tcp->settings.small_queue) {
            if (!s->waits_for_room) {
                s->waits_for_room = true;
                port_call_when_below(s->port, c->number, c->tcp->settings.small_queue, now);
            }
            break;
        }
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

static void has_room(struct network *network, uint32_t number, instant now)
{
    struct connection *c = ((struct tcp *)network->transport)->connections[number];
    c->sender.waits_for_room = false;
    send_allowed(c, now);
}

/* Losses */

static void enter_recovery(struct connection *c)
{
    struct sender *s = &c->sender;
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

/* What was sent well before something that has arrived is lost (RFC 8985, 6.2). Returns when the
   next one will be; NEVER if none is in doubt. */
static instant find_lost(struct connection *c, instant now)
{
    struct sender *s = &c->sender;
    /* Ways do not change, so that nothing is overtaken but what is lost; a quarter of a round trip
       is allowed for until three segments or a recovery show it, as Linux does. */
    instant slack = s->phase != OPEN || s->sacked >= DUPLICATES
                        ? 0
                        : least(s->least_round_trip / 4, s->smoothed / 8);
    instant look = NEVER;
    for (uint32_t i = s->head; i != s->tail; i++) {
        struct sent *sent = sent_at(s, i);
        if (sent->sacked || (sent->lost && !sent->in_flight_again))
            continue;
        bool is_older = sent->at < s->newest_delivered ||
                        (sent->at == s->newest_delivered && end_of(sent) < s->newest_end);
        if (!is_older) {
            if (!sent->retransmitted)
                break; /* those behind were sent later still */
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
    if (s->phase != LOSS || !s->back_off)
        s->threshold = s->window / 2 > LEAST_WINDOW ? s->window / 2 : LEAST_WINDOW;
    s->phase = LOSS;
    s->recovered = s->next;
    s->window = 1;
    s->window_part = 0;
    s->back_off++;
    s->probed = false;
    for (uint32_t i = s->head; i != s->tail; i++)
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
        struct sent *last = sent_at(s, s->tail - 1);
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
        set_timer(c, LATE, look);
}

static void timer(struct event *event, instant now)
{
    struct connection *c =
        (struct connection *)((char *)event - offsetof(struct connection, sender.timer));
    struct sender *s = &c->sender;
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
            s->window = in_flight(s) + 1; /* the first one of a recovery goes at once */
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
    /* An answer that comes sooner than any round trip is to the first transmission. */
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
    for (uint32_t i = s->head; i != s->tail; i++) {
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

static void take_acknowledgement(struct connection *c, const struct segment *segment, instant now)
{
    struct sender *s = &c->sender;
    instant sample = -1;
    uint32_t delivered = 0;
    uint32_t flight = in_flight(s);
    bool advanced = segment->acknowledged > s->acknowledged;
    while (s->head != s->tail && end_of(sent_at(s, s->head)) <= segment->acknowledged) {
        struct sent *sent = sent_at(s, s->head);
        if (!sent->sacked) {
            deliver(s, sent, now, &sample);
            delivered++;
        }
        forget(s, sent);
        s->head++;
    }
    if (advanced) {
        s->acknowledged = segment->acknowledged;
        s->back_off = 0;
        if (s->probed && s->acknowledged >= s->probe_end)
            s->probed = false;
    }
    for (int i = 0; i < SACK_BLOCKS && segment->blocks[i].end; i++)
        sack(s, &segment->blocks[i], now, &sample, &delivered);
    if (sample >= 0)
        take_round_trip(s, sample);
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
    else if (delivered && flight >= s->window) /* only a window that is used grows */
        grow(s, delivered);
    else if (delivered && s->window < s->threshold && 2 * flight >= s->window)
        grow(s, delivered);
    if (advanced || delivered || s->purpose == NO_TIMER)
        set_next_timer(c, now);
    if (look != NEVER && s->purpose != NO_TIMER)
        set_timer(c, LATE, look);
    send_allowed(c, now);
}

/* Receiving */

static void acknowledge(struct connection *c, instant now)
{
    struct receiver *r = &c->receiver;
    struct network *network = c->tcp->network;
    clock_cancel(&network->clock, &r->timer);
    r->unacknowledged = 0;
    struct packet *packet = packet_new(network);
    packet->bytes = c->tcp->settings.overhead;
    packet->key = c->back;
    packet->segment = (struct segment){.acknowledged = r->received, .connection = c->number};
    for (uint32_t i = 0; i < r->holes_count && i < SACK_BLOCKS; i++) {
        packet->segment.blocks[i] = r->holes[i];
        packet->bytes += i ? 8 : 12;
    }
    port_send(c->to->ports[0], packet, now);
}

static void delayed(struct event *event, instant now)
{
    acknowledge((struct connection *)((char *)event - offsetof(struct connection, receiver.timer)),
                now);
}

/* Keeps what came beyond a gap, joined with what it touches, as the latest span. */
static void keep(struct receiver *r, struct span span)
{
    uint32_t kept = 0;
    struct span others[HOLES];
    for (uint32_t i = 0; i < r->holes_count; i++) {
        struct span other = r->holes[i];
        if (other.start <= span.end && span.start <= other.end) {
            if (other.start < span.start)
                span.start = other.start;
            if (other.end > span.end)
                span.end = other.end;
        } else {
            others[kept++] = other;
        }
    }
    r->holes[0] = span;
    if (kept > HOLES - 1)
        kept = HOLES - 1; /* the oldest is forgotten, and will be sent again */
    memcpy(r->holes + 1, others, kept * sizeof *others);
    r->holes_count = kept + 1;
}

static void fill(struct receiver *r)
{
    uint32_t kept = 0;
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t i = 0; i < r->holes_count; i++)
            if (r->holes[i].start <= r->received && r->holes[i].end > r->received) {
                r->received = r->holes[i].end;
                again = true;
            }
    }
    for (uint32_t i = 0; i < r->holes_count; i++)
        if (r->holes[i].end > r->received)
            r->holes[kept++] = r->holes[i];
    r->holes_count = kept;
}

static void take_data(struct connection *c, const struct segment *segment, instant now)
{
    struct receiver *r = &c->receiver;
    struct tcp *tcp = c->tcp;
    uint64_t before = r->received, end = segment->start + segment->length;
    bool in_order = segment->start <= r->received && end > r->received;
    bool had_holes = r->holes_count;
    if (in_order) {
        r->received = end;
        fill(r);
    } else if (segment->start > r->received) {
        keep(r, (struct span){segment->start, end});
    }
    r->unacknowledged++;
    /* After a long pause a sender may have but one segment in flight: as Linux does. */
    if (now - r->last > tcp->settings.least_timeout)
        r->quick = QUICK;
    r->last = now;
    if (r->quick)
        r->quick--;
    bool at_once = !in_order || had_holes || r->quick || r->unacknowledged >= 2;
    if (at_once) {
        acknowledge(c, now);
    } else if (!is_set(&r->timer)) {
        struct clock *clock = &tcp->network->clock;
        clock_set(clock, &r->timer, now + tcp->settings.acknowledge_delay, clock_order(clock));
    }
    if (before < r->expected && r->received >= r->expected && tcp->arrived)
        tcp->arrived(tcp->context, c->number, now);
}

void tcp_take(struct tcp *tcp, struct packet *packet, instant now)
{
    struct connection *c = tcp->connections[packet->segment.connection];
    struct segment segment = packet->segment;
    packet_free(tcp->network, packet);
    if (segment.length)
        take_data(c, &segment, now);
    else
        take_acknowledgement(c, &segment, now);
}

/* Connections */

struct tcp *tcp_open(struct network *network, const struct tcp_settings *settings)
{
    struct tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp)
        abort();
    tcp->network = network;
    tcp->settings = *settings;
    network->transport = tcp;
    network->has_room = has_room;
    return tcp;
}

void tcp_close(struct tcp *tcp)
{
    for (uint32_t i = 0; i < tcp->count; i++) {
        free(tcp->connections[i]->sender.ring);
        free(tcp->connections[i]);
    }
    free(tcp->connections);
    free(tcp);
}

uint32_t tcp_connect(struct tcp *tcp, uint32_t source, uint32_t to, uint16_t source_port,
                     uint16_t to_port)
{
    enum { FIRST = 64 };
    struct connection *c = calloc(1, sizeof *c);
    struct connection **all =
        realloc(tcp->connections, (tcp->count + 1) * sizeof *tcp->connections);
    if (!c || !all || !(c->sender.ring = malloc(FIRST * sizeof *c->sender.ring)))
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
    c->sender.mask = FIRST - 1;
    c->sender.port = c->source->ports[0];
    c->sender.timer.happen = timer;
    c->sender.window = tcp->settings.initial_window;
    c->sender.threshold = UINT32_MAX;
    c->sender.newest_delivered = -1;
    c->receiver.timer.happen = delayed;
    c->receiver.quick = QUICK;
    return c->number;
}

void tcp_write(struct tcp *tcp, uint32_t connection, uint64_t bytes)
{
    struct connection *c = tcp->connections[connection];
    c->sender.written += bytes;
    send_allowed(c, tcp->network->clock.now);
}

uint64_t tcp_received(const struct tcp *tcp, uint32_t connection)
{
    return tcp->connections[connection]->receiver.received;
}

const struct tcp_counters *tcp_counters(const struct tcp *tcp, uint32_t connection)
{
    return &tcp->connections[connection]->counters;
}

void tcp_expect(struct tcp *tcp, uint32_t connection, uint64_t position)
{
    tcp->connections[connection]->receiver.expected = position;
}

void tcp_on_arrival(struct tcp *tcp, void (*arrived)(void *context, uint32_t connection, instant now),
                    void *context)
{
    tcp->arrived = arrived;
    tcp->context = context;
}

struct tcp_state tcp_look(const struct tcp *tcp, uint32_t connection)
{
    const struct sender *s = &tcp->connections[connection]->sender;
    uint64_t mss = tcp->settings.mss;
    return (struct tcp_state){
        .window = s->window * mss,
        .in_flight = in_flight(s) * mss,
        .threshold = s->threshold == UINT32_MAX ? UINT64_MAX : s->threshold * mss,
        .round_trip = s->smoothed,
    };
}
