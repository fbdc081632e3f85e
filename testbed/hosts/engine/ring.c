#include "ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "endpoint.h"
#include "roce.h"

enum { ROCE_BATCH = 64, CHUNKS = 64 };

static const double FIRST_TIMEOUT = 0.2, LEAST_TIMEOUT = 0.1, LONGEST_TIMEOUT = 1.0;
static const double SIGNALS = 0.25, FULL_SOCKET = 0.001;
static const double LEAST_SILENCE = 0.005; /* a busy machine is silent as long for no reason */
enum { REORDERING = 3, ASKED_AT_ONCE = 32 };

struct piece {
    uint64_t first, end;     /* fragments */
    uint64_t message;        /* number of its first one */
    int32_t *values;
};

struct ring {
    int fd;
    struct ring_role role;
    struct piece pieces[CHUNKS];
    uint64_t head, tail; /* pieces in use: head .. tail - 1 */
    uint64_t pushed, next, received, acked, messages;
    uint64_t highest; /* one past the last fragment received */
    uint32_t span;    /* places: what may be under way, twice */
    bool *got;
    double *sent_at;
    bool *resent;
    double tick, quiet_until, timeout, round_trip, look_again;
    double silence, probe_at; /* how long it may last, and when that is over */
    uint64_t retransmitted;
    bool blocked, answer, progress;
    struct sockaddr_in to, after, before;
    struct data arrived[ROCE_BATCH];
};

static struct sockaddr_in address_of(uint32_t address)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(ROCE_PORT), .sin_addr = {address}};
}

struct ring *ring_open(uint32_t address, const struct ring_role *role, double tick, int *error)
{
    struct ring *ring = calloc(1, sizeof *ring);
    *error = ENOMEM;
    if (!ring)
        return NULL;
    ring->role = *role;
    ring->tick = tick;
    ring->timeout = ring->silence = FIRST_TIMEOUT;
    ring->span = 2 * role->window * role->message;
    ring->to = address_of(role->to);
    ring->after = address_of(role->after);
    ring->before = address_of(role->before);
    ring->got = calloc(ring->span, sizeof *ring->got);
    ring->sent_at = calloc(ring->span, sizeof *ring->sent_at);
    ring->resent = calloc(ring->span, sizeof *ring->resent);
    ring->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in own = address_of(address);
    int size = 4 << 20;
    /* The FORCE variant goes beyond rmem_max; root has it, others take what they get. */
    if (setsockopt(ring->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size))
        setsockopt(ring->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    bool memory = ring->got && ring->sent_at && ring->resent;
    if (!memory || ring->fd < 0 || bind(ring->fd, (struct sockaddr *)&own, sizeof own)) {
        *error = memory ? errno : ENOMEM;
        ring_close(ring);
        return NULL;
    }
    *error = 0;
    return ring;
}

void ring_close(struct ring *ring)
{
    if (ring->fd >= 0)
        close(ring->fd);
    free(ring->got);
    free(ring->sent_at);
    free(ring->resent);
    free(ring);
}

int ring_descriptor(const struct ring *ring)
{
    return ring->fd;
}

int ring_push(struct ring *ring, int32_t *values, uint64_t fragments)
{
    if (ring->tail - ring->head == CHUNKS)
        return -ENOBUFS;
    if (!fragments)
        return 0;
    uint64_t end = ring->pushed + fragments;
    ring->pieces[ring->tail++ % CHUNKS] =
        (struct piece){ring->pushed, end, ring->messages, values};
    ring->pushed = end;
    ring->messages += (fragments + ring->role.message - 1) / ring->role.message;
    return 0;
}

/* What is received is here; what the next rank has acknowledged need not be sent again. */
uint64_t ring_done(const struct ring *ring)
{
    return ring->received < ring->acked ? ring->received : ring->acked;
}

uint64_t ring_retransmitted(const struct ring *ring)
{
    return ring->retransmitted;
}

static const struct piece *piece_of(const struct ring *ring, uint64_t fragment)
{
    for (uint64_t i = ring->head; i < ring->tail; i++)
        if (fragment < ring->pieces[i % CHUNKS].end)
            return &ring->pieces[i % CHUNKS];
    return NULL;
}

static uint64_t message_of(const struct ring *ring, const struct piece *piece, uint64_t fragment)
{
    return piece->message + (fragment - piece->first) / ring->role.message;
}

static bool is_received(const struct ring *ring, uint64_t fragment)
{
    return fragment < ring->received || ring->got[fragment % ring->span];
}

static bool transmit(struct ring *ring, const void *packet, size_t size, struct sockaddr_in *to)
{
    if (sendto(ring->fd, packet, size, MSG_DONTWAIT, (struct sockaddr *)to, sizeof *to) >= 0)
        return true;
    /* Full, or the link's queue is: later. Anything else is lost, and mended like a loss. */
    ring->blocked = errno == EAGAIN || errno == ENOBUFS;
    return !ring->blocked;
}

static bool send_fragment(struct ring *ring, uint64_t fragment, double now)
{
    const struct piece *piece = piece_of(ring, fragment);
    const struct ring_role *role = &ring->role;
    uint64_t message = message_of(ring, piece, fragment);
    uint64_t first = piece->first + (message - piece->message) * role->message;
    uint64_t count = piece->end - first < role->message ? piece->end - first : role->message;
    bool opens = fragment == first, closes = fragment == first + count - 1;
    struct data packet = {.bth.partition = 0xffff};
    packet.bth.opcode = opens ? closes ? SEND_ONLY : SEND_FIRST : closes ? SEND_LAST : SEND_MIDDLE;
    bool is_sum = is_received(ring, fragment);
    packet.bth.reserved = is_sum ? IS_SUM : 0;
    put24(packet.bth.connection, role->outgoing);
    put24(packet.bth.sequence, fragment);
    if (opens) {
        uint64_t live = message % (2 * role->window);
        struct header header = {
            .kind = KIND_DATA,
            .tree = htobe16(role->tree),
            .sequence = htobe32((uint32_t)first),
            .slot = htobe32((uint32_t)(live * role->message)),
            .next_slot = htobe32((uint32_t)((message % LIVE_MESSAGES) << 24 | count)),
            .bitmap = htobe64(1ull << role->rank),
        };
        memcpy(packet.rest, &header, sizeof header);
    }
    int32_t *values = packet.rest + (opens ? HEADER_BYTES / 4 : 0);
    swap_values(values, piece->values + (fragment - piece->first) * VALUES);
    struct sockaddr_in *to = is_sum ? &ring->after : &ring->to;
    if (!transmit(ring, &packet, opens ? sizeof packet : SHORT_DATA, to))
        return false;
    ring->sent_at[fragment % ring->span] = now;
    return true;
}

/* A switch that missed a message's first packet knows none of the others: it goes again, too. */
static bool send_again(struct ring *ring, uint64_t fragment, double now)
{
    const struct piece *piece = piece_of(ring, fragment);
    if (!piece || fragment >= ring->next)
        return true;
    uint64_t message = message_of(ring, piece, fragment);
    uint64_t first = piece->first + (message - piece->message) * ring->role.message;
    uint64_t places[] = {first, fragment};
    for (int i = first == fragment; i < 2; i++) {
        if (!is_received(ring, places[i]) || places[i] == fragment) {
            if (!send_fragment(ring, places[i], now))
                return false;
            ring->resent[places[i] % ring->span] = true;
            ring->retransmitted++;
        }
    }
    return true;
}

static void answer(struct ring *ring, uint8_t syndrome, uint64_t sequence)
{
    struct answer packet = {.bth = {.opcode = ACKNOWLEDGE, .partition = 0xffff},
                            .syndrome = syndrome};
    put24(packet.bth.connection, ring->role.incoming);
    put24(packet.bth.sequence, sequence);
    transmit(ring, &packet, sizeof packet, &ring->before);
}

/* Only of a sum that came in its turn: one that was mended for somebody took longer. */
static void measure_round_trip(struct ring *ring, uint64_t fragment, double now)
{
    if (fragment < ring->highest || fragment >= ring->next || ring->resent[fragment % ring->span])
        return;
    double sample = now - ring->sent_at[fragment % ring->span];
    ring->round_trip = ring->round_trip ? 0.875 * ring->round_trip + 0.125 * sample : sample;
}

/* Whatever comes ends a silence and what was made longer by it. */
static void hear(struct ring *ring, double now)
{
    ring->timeout = FIRST_TIMEOUT;
    if (ring->round_trip)
        ring->timeout = fmin(fmax(4 * ring->round_trip, LEAST_TIMEOUT), LONGEST_TIMEOUT);
    ring->silence = ring->round_trip ? fmax(2 * ring->round_trip, LEAST_SILENCE) : FIRST_TIMEOUT;
    ring->probe_at = now + ring->silence;
}

static void take_values(struct ring *ring, uint64_t fragment, const int32_t *values, double now)
{
    ring->answer = true;
    const struct piece *piece = piece_of(ring, fragment);
    if (!piece || fragment < piece->first || fragment >= ring->received + ring->span ||
        is_received(ring, fragment))
        return;
    swap_values(piece->values + (fragment - piece->first) * VALUES, values);
    ring->got[fragment % ring->span] = true;
    measure_round_trip(ring, fragment, now);
    hear(ring, now);
    if (fragment >= ring->highest)
        ring->highest = fragment + 1;
    while (ring->received < ring->pushed && ring->got[ring->received % ring->span])
        ring->got[ring->received++ % ring->span] = false;
}

static void take_answer(struct ring *ring, const struct answer *packet, double now)
{
    uint64_t number = whole_number(get24(packet->bth.sequence), ring->acked);
    if (packet->syndrome == NAK_SEQUENCE) {
        bool again = number >= ring->acked && number < ring->next &&
                     now - ring->sent_at[number % ring->span] > ring->round_trip / 2;
        if (again)
            send_again(ring, number, now);
        return;
    }
    /* An acknowledgement names the last fragment that is there without a gap. */
    if (number + 1 <= ring->acked || number >= ring->next)
        return;
    hear(ring, now);
    for (uint64_t each = ring->acked; each <= number; each++)
        ring->resent[each % ring->span] = false;
    ring->acked = number + 1;
}

static void retire(struct ring *ring)
{
    while (ring->head < ring->tail && ring->pieces[ring->head % CHUNKS].end <= ring_done(ring)) {
        ring->head++;
        ring->progress = true;
    }
}

static int receive(struct ring *ring)
{
    struct mmsghdr messages[ROCE_BATCH];
    struct iovec parts[ROCE_BATCH];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < ROCE_BATCH; i++) {
        parts[i] = (struct iovec){&ring->arrived[i], sizeof ring->arrived[i]};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    int count = recvmmsg(ring->fd, messages, ROCE_BATCH, MSG_DONTWAIT, NULL);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    double now = monotonic();
    for (int i = 0; i < count; i++) {
        const struct data *packet = &ring->arrived[i];
        uint32_t length = messages[i].msg_len, number = get24(packet->bth.connection);
        uint64_t fragment = whole_number(get24(packet->bth.sequence), ring->received);
        bool opens = packet->bth.opcode == SEND_FIRST || packet->bth.opcode == SEND_ONLY;
        bool follows = packet->bth.opcode == SEND_MIDDLE || packet->bth.opcode == SEND_LAST;
        if (length == sizeof(struct answer) && packet->bth.opcode == ACKNOWLEDGE) {
            if (number == ring->role.outgoing)
                take_answer(ring, (const struct answer *)packet, now);
        } else if (number != ring->role.incoming) {
            continue;
        } else if (opens && length == sizeof *packet) {
            take_values(ring, fragment, packet->rest + HEADER_BYTES / 4, now);
        } else if (follows && length == SHORT_DATA) {
            take_values(ring, fragment, packet->rest, now);
        }
    }
    if (count > 0 && ring->tick > 0)
        ring->quiet_until = now + ring->tick;
    return count;
}

/* Ask the rank before for what is missing, so far as later ones have overtaken it. */
static void ask(struct ring *ring, uint64_t overtaken)
{
    int asked = 0;
    for (uint64_t each = ring->received; each < overtaken && asked < ASKED_AT_ONCE; each++)
        if (!ring->got[each % ring->span]) {
            answer(ring, NAK_SEQUENCE, each);
            asked++;
        }
}

/* Acknowledge what came, and ask for what did not. */
static void answer_all(struct ring *ring)
{
    if (!ring->answer)
        return;
    ring->answer = false;
    if (ring->received)
        answer(ring, ACK, ring->received - 1);
    if (ring->highest > REORDERING)
        ask(ring, ring->highest - REORDERING);
}

static void send_new(struct ring *ring, double now)
{
    while (ring->next < ring->pushed && !ring->blocked) {
        const struct piece *piece = piece_of(ring, ring->next);
        const struct piece *lowest = piece_of(ring, ring->received);
        uint64_t open = lowest ? message_of(ring, lowest, ring->received) : ring->messages;
        if (message_of(ring, piece, ring->next) >= open + ring->role.window)
            return;
        if (!send_fragment(ring, ring->next, now))
            return;
        if (ring->acked == ring->next++)
            ring->probe_at = now + ring->silence;
    }
}

static void mend_late(struct ring *ring, double now)
{
    if (now < ring->look_again)
        return;
    bool late = false;
    for (uint64_t each = ring->acked; each < ring->next && !ring->blocked; each++)
        if (ring->sent_at[each % ring->span] < now - ring->timeout) {
            late = true;
            send_again(ring, each, now);
        }
    if (late)
        ring->timeout = fmin(2 * ring->timeout, LONGEST_TIMEOUT);
    ring->look_again = now + ring->timeout / 2;
}

/* After two round trips of silence something was lost, or what would have told of it: whoever waits
   asks, and sends again what it waits for and what the next rank has not acknowledged. Who has
   nothing to wait for need not: the others ask it. */
static void mend_silence(struct ring *ring, double now)
{
    if (ring->acked == ring->next || now < ring->probe_at)
        return;
    ask(ring, ring->highest > ring->received ? ring->highest : ring->received + 1);
    if (ring->acked < ring->received)
        send_again(ring, ring->acked, now);
    uint64_t each = ring->received;
    for (; each < ring->next && !ring->blocked; each++) {
        if (!is_received(ring, each))
            send_again(ring, each, now);
        if (each >= ring->highest)
            break; /* one, as a probe */
    }
    ring->silence = fmin(2 * ring->silence, LONGEST_TIMEOUT);
    ring->probe_at = now + ring->silence;
}

int ring_wait(struct ring *ring, double deadline, int other)
{
    struct pollfd files[] = {{ring->fd, POLLIN, 0}, {other, POLLIN, 0}};
    double now = monotonic(), signals = now + SIGNALS;
    for (;;) {
        int count = now >= ring->quiet_until ? receive(ring) : 0;
        if (count < 0)
            return count;
        now = monotonic();
        ring->blocked = false;
        answer_all(ring);
        retire(ring);
        send_new(ring, now);
        mend_silence(ring, now);
        mend_late(ring, now);
        int reasons = (ring->progress ? PROGRESS : 0) | (now >= deadline ? DEADLINE : 0);
        ring->progress = false;
        double look = ring->acked < ring->next ? fmin(ring->look_again, ring->probe_at) : INFINITY;
        if (ring->blocked)
            look = now + FULL_SOCKET;
        double until = fmin(fmin(deadline, signals), look);
        if (reasons || now >= signals || count == ROCE_BATCH)
            until = now;
        else if (ring->quiet_until > now) {
            struct timespec nap = duration(fmin(ring->quiet_until, until) - now);
            if (nanosleep(&nap, NULL))
                return 0;
        }
        struct timespec rest = duration(until - monotonic());
        int ready = ppoll(files, other < 0 ? 1 : 2, &rest, NULL);
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready > 0 && files[1].revents)
            reasons |= OTHER;
        if (reasons || ready < 0 || now >= signals)
            return reasons;
        now = monotonic();
    }
}
