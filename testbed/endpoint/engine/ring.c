#include "ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "endpoint.h"

enum { ACK = 0x00 }; /* a syndrome */
enum { IS_SUM = 0x01 }; /* in `reserved`: its values are the sum already, switches pass it by */
enum { ROCE_BATCH = 64, CHUNKS = 64, PSN_MASK = 0xffffff };

static const double FIRST_TIMEOUT = 0.2, LEAST_TIMEOUT = 0.1, LONGEST_TIMEOUT = 1.0;
static const double SIGNALS = 0.25, FULL_SOCKET = 0.001;

struct bth {
    uint8_t opcode, flags;
    uint16_t partition;
    uint8_t reserved, connection[3];
    uint8_t acknowledge, sequence[3];
};

struct data {
    struct bth bth;
    int32_t rest[HEADER_BYTES / 4 + VALUES]; /* values, of a message's first packet after a header */
};

struct answer {
    struct bth bth;
    uint8_t syndrome, messages[3];
};

enum { SHORT_DATA = sizeof(struct bth) + sizeof(int32_t[VALUES]) };

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
    uint64_t retransmitted, told; /* told: what the last acknowledgement said */
    bool blocked, answer, progress;
    struct sockaddr_in to, after, before;
    struct data arrived[ROCE_BATCH];
};

static double monotonic(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static struct timespec duration(double seconds)
{
    if (seconds <= 0)
        return (struct timespec){0, 0};
    double whole = floor(seconds);
    return (struct timespec){(time_t)whole, (long)((seconds - whole) * 1e9)};
}

static void put24(uint8_t *to, uint64_t value)
{
    to[0] = (uint8_t)(value >> 16);
    to[1] = (uint8_t)(value >> 8);
    to[2] = (uint8_t)value;
}

static uint32_t get24(const uint8_t *from)
{
    return (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
}

/* The number that is `near` and ends in `psn`. */
static uint64_t whole_number(uint32_t psn, uint64_t near)
{
    int32_t ahead = (int32_t)((psn - (uint32_t)near) << 8) >> 8;
    return near + (uint64_t)(int64_t)ahead;
}

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
    ring->timeout = FIRST_TIMEOUT;
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

static void take_values(struct ring *ring, uint64_t fragment, const int32_t *values)
{
    ring->answer = true;
    const struct piece *piece = piece_of(ring, fragment);
    if (!piece || fragment < piece->first || fragment >= ring->received + ring->span ||
        is_received(ring, fragment))
        return;
    swap_values(piece->values + (fragment - piece->first) * VALUES, values);
    ring->got[fragment % ring->span] = true;
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
    if (!ring->resent[number % ring->span]) {
        double sample = now - ring->sent_at[number % ring->span];
        ring->round_trip = ring->round_trip ? 0.875 * ring->round_trip + 0.125 * sample : sample;
        double wanted = fmax(4 * ring->round_trip, LEAST_TIMEOUT);
        ring->timeout = fmin(wanted, LONGEST_TIMEOUT);
    }
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
            take_values(ring, fragment, packet->rest + HEADER_BYTES / 4);
        } else if (follows && length == SHORT_DATA) {
            take_values(ring, fragment, packet->rest);
        }
    }
    if (count > 0 && ring->tick > 0)
        ring->quiet_until = now + ring->tick;
    return count;
}

/* Acknowledge what came, and ask for what was overtaken by three packets. */
static void answer_all(struct ring *ring)
{
    if (!ring->answer)
        return;
    ring->answer = false;
    if (ring->received)
        answer(ring, ACK, ring->received - 1);
    int asked = 0;
    for (uint64_t each = ring->received; each + 3 < ring->highest && asked < 32; each++)
        if (!ring->got[each % ring->span]) {
            answer(ring, NAK_SEQUENCE, each);
            asked++;
        }
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
        ring->next++;
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
        mend_late(ring, now);
        int reasons = (ring->progress ? PROGRESS : 0) | (now >= deadline ? DEADLINE : 0);
        ring->progress = false;
        double look = ring->blocked ? now + FULL_SOCKET : ring->acked < ring->next ? ring->look_again : INFINITY;
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
