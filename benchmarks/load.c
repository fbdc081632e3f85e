/* Plays all workers of an aggregation tree for one switch, and the tree's root if that is a host. It
   sends as fast as sums return, and compares every sum with the true one.

   A window of messages is in flight. A message is one fragment, or several for NetReduce. When all
   sums of a message have returned, the next message takes its place. The workers send in turn. Like
   real workers, each sends its packets of all messages that may be sent as a burst.

   load OWN SWITCH STYLE VALUES WORKERS WINDOW MESSAGE SUPERFRAME SECONDS prints one line: packets
   that led to sums during the measurement, its seconds, all packets sent, sums, wrong sums,
   fragments given up, and its own processor time in seconds. With a window of 0, it sends as fast
   as it can and does not wait for sums, which shows the cost of reaching a switch. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "wire.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* As in p4/headers.p4. */
enum { ATP = 1, SWITCHML, RACK, NETREDUCE, PANAMA, A2TP, ESA };
enum {
    TREE = 7,
    SETS = 3,       /* of values: successive fragments differ, so that a stale sum is found */
    BATCH = 64,     /* packets received by one call, and the most in one datagram */
    LONGEST = 65000 /* bytes of a datagram that is split */
};

static const double WARM_UP = 0.2, PATIENCE = 0.1; /* seconds */

struct bth {
    uint8_t opcode, flags;
    uint16_t partition;
    uint8_t reserved, connection[3], acknowledge, sequence[3];
};

struct headers { /* before the values: one of them, or both */
    uint32_t padding;
    struct bth bth;
    struct header ina;
};

struct message {
    uint64_t number;
    unsigned missing; /* sums */
    double sent_at;
    bool done[256];
};

static bool shares; /* slots, as in ATP: the root frees them */
static unsigned style, values, workers, window, length, superframe;
static int fd;
static struct sockaddr_in to;
static int32_t contribution[SETS][BITMAP][VALUES], truth[SETS][VALUES];
static struct message *messages;
static uint64_t sent, completed, sums, wrong, given_up;

static double monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void put24(uint8_t *to24, uint64_t x)
{
    to24[0] = (uint8_t)(x >> 16);
    to24[1] = (uint8_t)(x >> 8);
    to24[2] = (uint8_t)x;
}

/* Packets of one size, sent as one datagram and split as late as possible (UDP GSO). */

static struct headers heads[BATCH];
static struct iovec parts[2 * BATCH];
static unsigned packed;
static size_t packed_size;

static void send_packed(void)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control;
    struct msghdr datagram = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = parts};
    if (packed == 0)
        return;
    datagram.msg_iovlen = 2 * packed;
    if (packed > 1) {
        datagram.msg_control = &control;
        datagram.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(uint16_t)),
                                          .cmsg_level = SOL_UDP,
                                          .cmsg_type = UDP_SEGMENT};
        uint16_t size = (uint16_t)packed_size;
        memcpy(CMSG_DATA(&control.header), &size, sizeof size);
    }
    if (sendmsg(fd, &datagram, 0) < 0 && errno != ENOBUFS)
        fail("sendmsg");
    sent += packed;
    packed = 0;
}

/* Adds a packet: bytes first .. end - 1 of the returned headers, which the caller fills in, and the
   values. */
static struct headers *pack(size_t first, size_t end, const int32_t *from)
{
    const size_t size = end - first + 4 * values;
    if (packed == superframe || (packed + 1) * size > LONGEST || (packed && size != packed_size))
        send_packed();
    struct headers *head = &heads[packed];
    parts[2 * packed] = (struct iovec){(char *)head + first, end - first};
    parts[2 * packed + 1] = (struct iovec){(void *)(uintptr_t)from, 4 * values};
    packed_size = size;
    packed++;
    return head;
}

/* Messages use the switch's memory in turn. In a pool, each slot has two versions. */
static uint32_t slot_of(uint64_t number)
{
    const unsigned slots = window == 0 ? BATCH : shares ? window : 2 * window;
    return (uint32_t)(number % slots) * length;
}

static void contribute(const struct message *message, unsigned worker, unsigned place)
{
    const uint64_t fragment = message->number * length + place;
    const int32_t *from = contribution[fragment % SETS][worker];
    const bool roce = style == NETREDUCE, opens = place == 0;
    const size_t first = roce ? offsetof(struct headers, bth) : offsetof(struct headers, ina);
    const size_t end = roce && !opens ? offsetof(struct headers, ina) : sizeof(struct headers);
    struct headers *head = pack(first, end, from);
    if (roce) {
        head->bth = (struct bth){.partition = 0xffff};
        head->bth.opcode = length == 1           ? SEND_ONLY
                           : opens               ? SEND_FIRST
                           : place == length - 1 ? SEND_LAST
                                                 : SEND_MIDDLE;
        put24(head->bth.connection, TREE * MAX_RANKS + worker);
        put24(head->bth.sequence, fragment);
    }
    if (opens || !roce)
        head->ina = (struct header){
            .kind = KIND_DATA,
            .tree = htobe16(TREE),
            .sequence = htobe32((uint32_t)fragment),
            .slot = htobe32(slot_of(message->number)),
            .next_slot =
                htobe32(roce ? (uint32_t)(message->number % LIVE_MESSAGES) << 24 | length : 0),
            .bitmap = htobe64(UINT64_C(1) << worker),
        };
}

/* ATP and its variants: the result of the slot's previous fragment frees it. */
static void release(const struct message *message)
{
    if (message->number < window)
        return;
    const uint64_t old = message->number - window;
    const size_t first = offsetof(struct headers, ina);
    pack(first, sizeof(struct headers), truth[old % SETS])->ina = (struct header){
        .kind = KIND_RESULT,
        .tree = htobe16(TREE),
        .sequence = htobe32((uint32_t)old),
        .slot = htobe32(slot_of(old)),
        .bitmap = htobe64(~UINT64_C(0) >> (BITMAP - workers)),
    };
}

static void send_all(struct message **ready, unsigned count)
{
    const double now = monotonic();
    for (unsigned i = 0; i < count; i++) {
        ready[i]->missing = length;
        ready[i]->sent_at = now;
        memset(ready[i]->done, 0, sizeof ready[i]->done);
        if (shares)
            release(ready[i]);
    }
    for (unsigned worker = 0; worker < workers; worker++) {
        for (unsigned i = 0; i < count; i++)
            for (unsigned place = 0; place < length; place++)
                contribute(ready[i], worker, place);
        if (style == NETREDUCE)
            send_packed(); /* each worker has its own connection */
    }
    send_packed();
}

/* The message that this sum completes, or NULL. */
static struct message *take_sum(const struct headers *head, const int32_t *found)
{
    uint64_t fragment = be32toh(head->ina.sequence);
    if (style == NETREDUCE) {
        const uint8_t *psn = head->bth.sequence;
        fragment = (uint64_t)psn[0] << 16 | (uint64_t)psn[1] << 8 | psn[2];
    }
    const unsigned place = (unsigned)(fragment % length);
    struct message *message = &messages[fragment / length % window];
    const uint64_t expected = message->number * length + place;
    const uint64_t mask = style == NETREDUCE ? 0xffffff : 0xffffffff;
    if ((expected & mask) != fragment || message->done[place])
        return NULL;
    message->done[place] = true;
    sums++;
    wrong += memcmp(found, truth[expected % SETS], 4 * values) != 0;
    return --message->missing == 0 ? message : NULL;
}

/* Takes the sums that have arrived; returns the messages that they complete. */
static unsigned receive(struct message **complete)
{
    static char packets[BATCH][sizeof(struct headers) + 4 * VALUES];
    static struct mmsghdr arrived[BATCH];
    static struct iovec each[BATCH];
    unsigned count = 0;
    for (unsigned i = 0; i < BATCH; i++) {
        each[i] = (struct iovec){packets[i], sizeof packets[i]};
        arrived[i].msg_hdr = (struct msghdr){.msg_iov = &each[i], .msg_iovlen = 1};
    }
    const int found = recvmmsg(fd, arrived, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < found; i++) {
        const size_t size = arrived[i].msg_len, rest = 4 * values;
        const size_t first =
            style == NETREDUCE ? offsetof(struct headers, bth) : offsetof(struct headers, ina);
        struct headers head = {0};
        if (size <= rest || size - rest > sizeof head - first)
            continue;
        memcpy((char *)&head + first, packets[i], size - rest);
        if (shares && head.ina.kind != KIND_DATA)
            continue; /* a copy of the result that freed the slot */
        struct message *message = take_sum(&head, (const int32_t *)(packets[i] + size - rest));
        if (message)
            complete[count++] = message;
    }
    return count;
}

/* Gives up messages with lost packets: the next messages take their places. */
static unsigned give_up(struct message **late)
{
    const double now = monotonic();
    unsigned count = 0;
    for (unsigned i = 0; i < window; i++)
        if (messages[i].missing && messages[i].sent_at + PATIENCE < now) {
            given_up += messages[i].missing;
            messages[i].missing = 0;
            late[count++] = &messages[i];
        }
    return count;
}

static void fill(void)
{
    for (unsigned set = 0; set < SETS; set++)
        for (unsigned i = 0; i < values; i++) {
            uint32_t sum = 0;
            for (unsigned worker = 0; worker < workers; worker++) {
                /* So small that no sum saturates. */
                const uint32_t value = (uint32_t)((random() - (1 << 30)) / (long)workers);
                contribution[set][worker][i] = (int32_t)htobe32(value);
                sum += value;
            }
            truth[set][i] = (int32_t)htobe32(sum);
        }
}

static void report(uint64_t packets, double seconds)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%llu %.6f %llu %llu %llu %llu %.6f\n", (unsigned long long)packets, seconds,
           (unsigned long long)sent, (unsigned long long)sums, (unsigned long long)wrong,
           (unsigned long long)given_up,
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec));
}

static void blast(double seconds)
{
    struct message some[BATCH] = {{0}}, *ready[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        some[i].number = i;
        ready[i] = &some[i];
    }
    const double start = monotonic();
    while (monotonic() < start + seconds) {
        send_all(ready, BATCH);
        for (unsigned i = 0; i < BATCH; i++)
            some[i].number += BATCH;
    }
    report(sent, monotonic() - start);
}

static void run(double seconds)
{
    struct message *ready[window];
    for (unsigned i = 0; i < window; i++) {
        messages[i].number = i;
        ready[i] = &messages[i];
    }
    const unsigned packets = length * (workers + shares);
    const double start = monotonic();
    double from = 0, now = start, looked = start;
    uint64_t before = 0;
    send_all(ready, window);
    do {
        struct pollfd file = {fd, POLLIN, 0};
        poll(&file, 1, 20);
        unsigned count = receive(ready);
        completed += count;
        now = monotonic();
        if (now > looked + PATIENCE) {
            looked = now;
            count += give_up(ready + count);
        }
        for (unsigned i = 0; i < count; i++)
            ready[i]->number += window;
        send_all(ready, count);
        if (from == 0 && now > start + WARM_UP) {
            from = now;
            before = completed;
        }
    } while (now < start + WARM_UP + seconds);
    report((completed - before) * packets, now - from);
}

int main(int count, char **arguments)
{
    if (count != 10) {
        fprintf(stderr, "load OWN SWITCH STYLE VALUES WORKERS WINDOW MESSAGE SUPERFRAME SECONDS\n");
        return 2;
    }
    style = (unsigned)atoi(arguments[3]);
    shares = style == ATP || style == A2TP || style == ESA;
    values = (unsigned)atoi(arguments[4]);
    workers = (unsigned)atoi(arguments[5]);
    window = (unsigned)atoi(arguments[6]);
    length = (unsigned)atoi(arguments[7]);
    superframe = (unsigned)atoi(arguments[8]);
    if (style < ATP || style > ESA || !values || values > VALUES || !workers ||
        workers > BITMAP || (window && window % SETS == 0) || !length ||
        length > sizeof messages->done || !superframe || superframe > BATCH) {
        fprintf(stderr, "a figure is out of range, or the window a multiple of %d\n", SETS);
        return 2;
    }
    messages = calloc(window + 1, sizeof *messages);
    const int size = 16 << 20;
    const uint16_t port = htons(style == NETREDUCE ? ROCE_PORT : PORT);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = port};
    to = own;
    inet_pton(AF_INET, arguments[1], &own.sin_addr);
    inet_pton(AF_INET, arguments[2], &to.sin_addr);
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) ||
        bind(fd, (struct sockaddr *)&own, sizeof own))
        fail("socket");
    fill();
    if (window)
        run(atof(arguments[9]));
    else
        blast(atof(arguments[9]));
    return 0;
}
