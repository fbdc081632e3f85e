#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* segmentation offload, Linux 4.18 */
#endif

enum {
    BUFFER = 4 << 20,
    LONGEST = 65000, /* bytes of a datagram that the kernel segments */
};

static void widen(int fd, int forced, int plain)
{
    int bytes = BUFFER;
    /* The forced option may exceed the system's limit, but needs root. Without root the limit
       applies. */
    if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes))
        setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
}

static struct sockaddr_in name_of(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = address};
}

int socket_open(struct socket *made, uint32_t address, uint16_t port, int burst)
{
    made->port = port;
    made->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made->fd < 0)
        return -errno;
    widen(made->fd, SO_RCVBUFFORCE, SO_RCVBUF);
    int longest = LONGEST / (int)sizeof(struct packet);
    if (longest > BATCH)
        longest = BATCH;
    made->burst = burst < 1 ? 1 : burst > longest ? longest : burst;
    struct sockaddr_in name = name_of(address, port);
    if (bind(made->fd, (struct sockaddr *)&name, sizeof name)) {
        int error = -errno;
        close(made->fd);
        return error;
    }
    return 0;
}

int socket_receive(struct socket *from)
{
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){&from->arrived[i], LONGEST_PACKET};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int count = recvmmsg(from->fd, messages, BATCH, MSG_DONTWAIT, NULL);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    for (int i = 0; i < count; i++)
        from->sizes[i] = messages[i].msg_hdr.msg_flags & MSG_TRUNC ? 0 : messages[i].msg_len;
    return count;
}

struct ancillary { /* one control message with a uint16_t */
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(uint16_t))];
};

static void cut_into(struct msghdr *message, struct ancillary *control, uint16_t size)
{
    message->msg_control = control->bytes;
    message->msg_controllen = sizeof control->bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    header->cmsg_level = SOL_UDP;
    header->cmsg_type = UDP_SEGMENT;
    header->cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(header), &size, sizeof size);
}

/* Datagrams made from the first packets of a queue. */
struct load {
    struct mmsghdr messages[BATCH];
    struct ancillary controls[BATCH];
    struct iovec parts[BATCH][2];
    uint32_t until[BATCH]; /* the queue's head once this datagram is sent */
    int datagrams;
};

static void pack(struct socket *through, struct flow *flow, struct queue *queue,
                 struct sockaddr_in *to, struct load *load)
{
    const int burst = flow->protocol->bursts ? through->burst : 1;
    int packets = 0, in_datagram = 0;
    size_t size = 0;
    load->datagrams = 0;
    for (uint32_t at = queue->head; at != queue->tail && packets < BATCH; at++) {
        struct outgoing *packet = &queue->packets[at & queue->mask];
        const int32_t *payload = NULL;
        if (packet->with_values &&
            !(payload = flow->protocol->values(flow, packet, through->staged[packets]))) {
            if (load->datagrams)
                load->until[load->datagrams - 1] = at + 1;
            else
                queue->head = at + 1;
            continue;
        }
        const size_t values = payload ? sizeof(int32_t[VALUES]) : 0;
        /* All packets of one datagram must have the same size. */
        if (!load->datagrams || in_datagram == burst || packet->size + values != size) {
            load->messages[load->datagrams].msg_hdr = (struct msghdr){
                .msg_name = to,
                .msg_namelen = sizeof *to,
                .msg_iov = load->parts[packets],
            };
            load->datagrams++;
            in_datagram = 0;
            size = packet->size + values;
        }
        int last = load->datagrams - 1;
        struct msghdr *message = &load->messages[last].msg_hdr;
        /* The parts of one datagram are adjacent, two per packet; the second may be empty. */
        load->parts[packets][0] = (struct iovec){packet->head, packet->size};
        load->parts[packets][1] = (struct iovec){(void *)(uintptr_t)payload, values};
        message->msg_iovlen += 2;
        if (++in_datagram == 2)
            cut_into(message, &load->controls[last], (uint16_t)size);
        load->until[last] = at + 1;
        packets++;
    }
}

int socket_flush(struct socket *through, struct flow *flow, struct queue *queue)
{
    if (flow->protocol->bursts && !through->is_wide) {
        widen(through->fd, SO_SNDBUFFORCE, SO_SNDBUF);
        through->is_wide = true;
    }
    struct sockaddr_in to = name_of(queue->to, through->port);
    struct load load;
    while (!queue_is_empty(queue)) {
        pack(through, flow, queue, &to, &load);
        if (!load.datagrams)
            continue;
        int taken = sendmmsg(through->fd, load.messages, (unsigned)load.datagrams, MSG_DONTWAIT);
        if (taken > 0) {
            queue->head = load.until[taken - 1];
        } else if (errno == EIO && through->burst > 1) {
            through->burst = 1; /* before Linux 6.11, no segmentation without checksum offload */
        } else if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) {
            /* ENOBUFS: the link's queue is full; treat it like a full send buffer. */
            through->blocked = true;
            return 0;
        } else {
            return -errno;
        }
    }
    return 0;
}
