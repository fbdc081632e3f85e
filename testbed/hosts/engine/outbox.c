#include "outbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* segmentation offload, Linux 4.18 */
#endif

enum {
    BUFFER = 4 << 20,
    LONGEST = 65000, /* bytes of a datagram that the kernel cuts */
};

int queue_open(struct queue *queue, uint32_t address, uint64_t ranks, uint32_t least)
{
    uint32_t size = 64;
    while (size < least)
        size *= 2;
    queue->headers = malloc(size * sizeof *queue->headers);
    if (!queue->headers)
        return -ENOMEM;
    queue->to = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = address};
    queue->ranks = ranks;
    queue->mask = size - 1;
    queue->head = queue->tail = 0;
    return 0;
}

void queue_close(struct queue *queue)
{
    free(queue->headers);
}

bool queue_put(struct queue *queue, const struct header *header)
{
    if (queue->tail - queue->head > queue->mask)
        return false;
    queue->headers[queue->tail++ & queue->mask] = *header;
    return true;
}

static void widen(int fd, int forced, int plain)
{
    int bytes = BUFFER;
    /* The forced variant goes beyond the system's limit; root may, others take what they get. */
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes))
        setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
}

int outbox_open(struct outbox *outbox, uint32_t address, int burst)
{
    outbox->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (outbox->fd < 0)
        return -errno;
    widen(outbox->fd, SO_RCVBUFFORCE, SO_RCVBUF);
    widen(outbox->fd, SO_SNDBUFFORCE, SO_SNDBUF);
    int longest = LONGEST / (int)sizeof(struct packet);
    if (longest > BATCH)
        longest = BATCH;
    outbox->burst = burst < 1 ? 1 : burst > longest ? longest : burst;
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = address};
    if (bind(outbox->fd, (struct sockaddr *)&name, sizeof name)) {
        int error = -errno;
        close(outbox->fd);
        return error;
    }
    return 0;
}

static bool is_whole(const struct mmsghdr *message, const struct header *header)
{
    if (message->msg_hdr.msg_flags & MSG_TRUNC || message->msg_len < HEADER_BYTES)
        return false;
    return message->msg_len == (carries_values(header->kind) ? sizeof(struct packet) : HEADER_BYTES);
}

int outbox_receive(struct outbox *outbox, bool *whole)
{
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){&outbox->arrived[i], sizeof(struct packet)};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int count = recvmmsg(outbox->fd, messages, BATCH, MSG_DONTWAIT, NULL);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    for (int i = 0; i < count; i++)
        whole[i] = is_whole(&messages[i], &outbox->arrived[i].header);
    return count;
}

struct control { /* one control message, of an uint16_t */
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(uint16_t))];
};

static void cut_into(struct msghdr *message, struct control *control, uint16_t size)
{
    message->msg_control = control->bytes;
    message->msg_controllen = sizeof control->bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(header), &size, sizeof size);
}

/* Datagrams made of the first packets of a queue. */
struct load {
    struct mmsghdr messages[BATCH];
    struct control controls[BATCH];
    struct iovec parts[BATCH][2];
    uint32_t until[BATCH]; /* where the queue stands once this datagram has gone */
    int datagrams;
};

static void pack(struct outbox *outbox, struct queue *queue, values_of *values, void *context,
                 struct load *load)
{
    int packets = 0, in_datagram = 0;
    bool long_ones = false;
    load->datagrams = 0;
    for (uint32_t at = queue->head; at != queue->tail && packets < BATCH; at++) {
        struct header *header = &queue->headers[at & queue->mask];
        bool with_values = carries_values(header->kind);
        const int32_t *payload = NULL;
        if (with_values && !(payload = values(context, header, outbox->staged[packets]))) {
            if (load->datagrams)
                load->until[load->datagrams - 1] = at + 1;
            else
                queue->head = at + 1;
            continue;
        }
        /* Only packets of one size can be cut from one datagram. */
        if (!load->datagrams || in_datagram == outbox->burst || with_values != long_ones) {
            load->messages[load->datagrams].msg_hdr = (struct msghdr){
                .msg_name = &queue->to,
                .msg_namelen = sizeof queue->to,
                .msg_iov = load->parts[packets],
            };
            load->datagrams++;
            in_datagram = 0;
            long_ones = with_values;
        }
        int last = load->datagrams - 1;
        struct msghdr *message = &load->messages[last].msg_hdr;
        /* The parts of one datagram lie side by side, two a packet; the second may be empty. */
        load->parts[packets][0] = (struct iovec){header, HEADER_BYTES};
        load->parts[packets][1] =
            (struct iovec){(void *)(uintptr_t)payload, with_values ? sizeof(int32_t[VALUES]) : 0};
        message->msg_iovlen += 2;
        if (++in_datagram == 2)
            cut_into(message, &load->controls[last],
                     with_values ? sizeof(struct packet) : HEADER_BYTES);
        load->until[last] = at + 1;
        packets++;
    }
}

int outbox_flush(struct outbox *outbox, struct queue *queue, values_of *values, void *context)
{
    struct load load;
    while (!queue_is_empty(queue)) {
        pack(outbox, queue, values, context, &load);
        if (!load.datagrams)
            continue;
        int taken = sendmmsg(outbox->fd, load.messages, (unsigned)load.datagrams, MSG_DONTWAIT);
        if (taken > 0) {
            queue->head = load.until[taken - 1];
        } else if (errno == EIO && outbox->burst > 1) {
            outbox->burst = 1; /* before Linux 6.11 a device without checksum offload cannot */
        } else if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) {
            /* ENOBUFS: the link's queue is full, to the sender the same as a full buffer. */
            outbox->blocked = true;
            return 0;
        } else {
            return -errno;
        }
    }
    return 0;
}
