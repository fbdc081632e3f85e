// Packets in and out: each interface has a socket to send and one to receive, which shares a ring
// with the kernel.
//
// The ring has version 2, which hands over frames one by one. Version 3 hands over blocks, and a
// block that is not full waits for a timer of a millisecond or more: too long for hosts that wait
// for an answer before they send more. A packet is changed in place in the ring and sent from
// there; then its frame goes back to the kernel. The packets of a superframe are cut from it first.
#ifndef RING_H
#define RING_H

#include "pipeline.h"
#include "reply.h"
#include "superframe.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONTROL 0 // file descriptor
#define MAX_PORTS 512

#define BURST 64 // packets read from one port before the next port's turn
#define PREFETCH 2048 // bytes of a frame, at most
#define ROUNDS 16 // busy rounds between two checks of the control socket
#define SEND_BUFFER (256 << 20) // the queue is the interface's, not the socket's
#define NOTHING (~0u)
#define CUTS (1 << 18) // bytes of packets cut from superframes and not yet sent
#define TAG 4          // bytes of a VLAN tag
// Memory that Linux charges for a frame besides its bytes: headroom and struct skb_shared_info are
// rounded up with them to a power of two; struct sk_buff is separate. If a frame has a page or
// more, its data is in separate pages, except for the headers.
#define HEADROOM 32
#define SHARED_INFO 320
#define BUFFER_HEAD 256
#define PAGE 4096
#define RECENT 256 // packets, at least, over which charged memory is averaged

static volatile sig_atomic_t stopped;

struct port {
    unsigned number;
    int fd, out;
    uint8_t *frames;
    size_t frame_size;
    unsigned frame_count, head;
    unsigned first, last; // outputs to be sent, linked
    unsigned queued, asked;         // see queue_depth()
    uint64_t recent, charged;       // packets, and the memory charged for them
    uint64_t rx_packets, rx_bytes, rx_drops, tx_packets, tx_bytes, tx_drops;
};

static struct port ports[MAX_PORTS];
static struct port *port_by_number[MAX_PORTS];
static unsigned port_count;
static unsigned rounds;      // passes over all rings so far
static unsigned longest = 1; // the most packets in a superframe
static uint64_t no_port;

static uint8_t cuts[CUTS];
static size_t cuts_used;

static void ring_setup(struct port *p, unsigned frames, int mtu) {
    const int version = TPACKET_V2, on = 1;
    const size_t room = longest * ((size_t)mtu + ETH_HLEN + TAG) + TPACKET2_HDRLEN + 64;
    for (p->frame_size = 2048; p->frame_size < room;)
        p->frame_size *= 2;
    for (p->frame_count = 64; p->frame_count < frames;)
        p->frame_count *= 2;
    const size_t size = p->frame_count * p->frame_size;
    const size_t block = p->frame_size > 1 << 18 ? p->frame_size : 1 << 18;
    struct tpacket_req request = {.tp_frame_size = (unsigned)p->frame_size,
                                  .tp_frame_nr = p->frame_count};
    request.tp_block_size = (unsigned)(size < block ? size : block);
    request.tp_block_nr = (unsigned)(size / request.tp_block_size);
    if (setsockopt(p->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
        setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
        setsockopt(p->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
        setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0)
        fail("packet ring");
    p->frames = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, p->fd, 0);
    if (p->frames == MAP_FAILED)
        fail("packet ring, mmap");
}

// `argument` is PORT=INTERFACE.
static void ring_open(const char *argument, unsigned frames) {
    char *name;
    const unsigned long number = strtoul(argument, &name, 10);
    if (*name++ != '=' || number >= DROP_PORT || port_count == MAX_PORTS ||
        port_by_number[number] != NULL || strlen(name) >= IFNAMSIZ) {
        fprintf(stderr, "%s: expected PORT=INTERFACE, a new port below %d\n", argument, DROP_PORT);
        exit(1);
    }
    struct port *p = &ports[port_count++];
    struct ifreq interface;
    memset(&interface, 0, sizeof interface);
    memcpy(interface.ifr_name, name, strlen(name));
    p->number = (unsigned)number;
    p->first = NOTHING;
    // Without a protocol neither socket receives; the first does once it is bound to all protocols.
    p->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    p->out = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (p->fd < 0 || p->out < 0)
        fail("packet socket (root is needed)");
    if (ioctl(p->fd, SIOCGIFMTU, &interface) != 0)
        fail(name);
    ring_setup(p, frames, interface.ifr_mtu);
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                        .sll_protocol = WIRE16(ETH_P_ALL),
                                        .sll_ifindex = (int)if_nametoindex(name)};
    const struct packet_mreq all = {.mr_ifindex = address.sll_ifindex,
                                    .mr_type = PACKET_MR_PROMISC};
    const int size = SEND_BUFFER, on = 1;
    if (setsockopt(p->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0 ||
        setsockopt(p->out, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
        setsockopt(p->out, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0 ||
        bind(p->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        fail(name);
    address.sll_protocol = 0;
    if (bind(p->out, (const struct sockaddr *)&address, sizeof address) != 0)
        fail(name);
    port_by_number[number] = p;
}

static unsigned charge(size_t headers, size_t rest) {
    const size_t bytes = headers + rest;
    if (HEADROOM + bytes >= PAGE)
        return charge(headers, 0) + (unsigned)((rest + PAGE - 1) / PAGE * PAGE);
    unsigned buffer = 512;
    while (buffer < HEADROOM + bytes + SHARED_INFO)
        buffer *= 2;
    return buffer + BUFFER_HEAD;
}

// The number of packets that wait to leave a port.
//
// The queue is the kernel's: the interface's qdisc (htb on a shaped link). Its length is computed
// from the memory that the socket's frames hold until the next node has taken them. That is done
// once per round over all ports, so packets sent in a round count from the next round on. The
// memory per packet is the mean of the packets sent last: small packets hold less, and so do those
// of a superframe.
static __attribute__((unused)) unsigned queue_depth(unsigned port) {
    struct port *p = port < MAX_PORTS ? port_by_number[port] : NULL;
    if (p == NULL)
        return 0;
    if (p->asked != rounds) {
        int held = 0;
        ioctl(p->out, SIOCOUTQ, &held);
        const uint64_t packets = (uint64_t)held * p->recent;
        p->queued = p->charged ? (unsigned)((packets + p->charged - 1) / p->charged) : 0;
        p->asked = rounds;
    }
    return p->queued;
}

// What is passed to the kernel as one: a packet, or several that are joined.
struct message {
    struct virtio_net_hdr offload;
    uint8_t headers[JOINT];
    unsigned packets;
    size_t length; // bytes of each packet
};

static struct message messages[MAX_OUTPUTS];
static struct mmsghdr calls[MAX_OUTPUTS];
static struct iovec parts[MAX_SEGMENTS + 2 * MAX_OUTPUTS];

// A packet's bytes without the first `skip`.
static unsigned add_parts(struct iovec *to, const struct output *o, size_t skip) {
    unsigned count = 0;
    for (unsigned i = 0; i < o->segments; i++) {
        const struct iovec v = segments[o->first + i];
        const size_t gone = skip < v.iov_len ? skip : v.iov_len;
        skip -= gone;
        if (v.iov_len > gone)
            to[count++] = (struct iovec){(uint8_t *)v.iov_base + gone, v.iov_len - gone};
    }
    return count;
}

static void first_bytes(const struct output *o, uint8_t *to) {
    size_t used = 0;
    for (unsigned i = 0; i < o->segments && used < JOINT; i++) {
        const struct iovec v = segments[o->first + i];
        const size_t n = v.iov_len < JOINT - used ? v.iov_len : JOINT - used;
        memcpy(to + used, v.iov_base, n);
        used += n;
    }
}

// Makes messages from the outputs from `first` on; returns their number.
static unsigned join(unsigned first, const unsigned *following) {
    unsigned count = 0, used = 0;
    struct message *m = NULL;
    struct iovec *own = NULL; // of m: the first for its offload, the second for its headers
    bool open = false;
    for (unsigned n = first; n != NOTHING; n = following[n]) {
        const struct output *const o = &outputs[n];
        uint8_t headers[JOINT] = {0};
        first_bytes(o, headers);
        const bool alike = longest > 1 && can_join(headers, o->bytes);
        if (open && alike && m->length == o->bytes && m->packets < longest &&
            follows(m->headers, m->packets, headers)) {
            m->packets++;
        } else {
            m = &messages[count];
            own = parts + used;
            *m = (struct message){.packets = 1, .length = o->bytes};
            memcpy(m->headers, headers, JOINT);
            own[0] = (struct iovec){&m->offload, sizeof m->offload};
            own[1] = (struct iovec){m->headers, o->bytes < JOINT ? o->bytes : JOINT};
            calls[count++].msg_hdr = (struct msghdr){.msg_iov = own, .msg_iovlen = 2};
            used += 2;
            open = alike;
        }
        const unsigned more = add_parts(parts + used, o, JOINT);
        calls[count - 1].msg_hdr.msg_iovlen += more;
        used += more;
    }
    for (unsigned i = 0; i < count; i++)
        if (messages[i].packets > 1)
            messages[i].offload =
                join_headers(messages[i].headers, messages[i].packets, messages[i].length - JOINT);
    return count;
}

static void note_sent(struct port *p, const struct message *m) {
    const size_t headers = m->packets > 1 ? JOINT : 0;
    p->tx_packets += m->packets;
    p->tx_bytes += m->packets * m->length;
    if (p->recent >= 2 * RECENT) {
        p->recent /= 2;
        p->charged /= 2;
    }
    p->recent += m->packets;
    p->charged += charge(headers, m->packets * (m->length - headers));
}

// Sends the outputs of process(), port by port. A packet that the interface's queue refuses is
// lost, as in any switch, and counted.
static void ring_send(void) {
    static struct port *busy[MAX_PORTS];
    static unsigned following[MAX_OUTPUTS];
    unsigned ports_busy = 0;
    for (unsigned n = 0; n < output_count; n++) {
        struct port *p = outputs[n].port < MAX_PORTS ? port_by_number[outputs[n].port] : NULL;
        following[n] = NOTHING;
        if (p == NULL) {
            no_port++;
        } else if (p->first == NOTHING) {
            p->first = p->last = n;
            busy[ports_busy++] = p;
        } else {
            p->last = following[p->last] = n;
        }
    }
    for (unsigned i = 0; i < ports_busy; i++) {
        struct port *p = busy[i];
        const unsigned count = join(p->first, following);
        p->first = NOTHING;
        for (unsigned done = 0; done < count;) {
            const int sent = sendmmsg(p->out, calls + done, count - done, MSG_DONTWAIT);
            for (int k = 0; k < sent; k++, done++)
                note_sent(p, &messages[done]);
            if (sent <= 0 && errno != EINTR)
                p->tx_drops += messages[done++].packets;
        }
    }
}

INLINE struct tpacket2_hdr *ring_frame(const struct port *p, unsigned n) {
    return (struct tpacket2_hdr *)(void *)(p->frames +
                                           (n & (p->frame_count - 1)) * p->frame_size);
}

// Packets come from another processor's cache. While one packet is processed, the next one is
// fetched, and also the cache line with the size of the one after it.
INLINE void ring_prefetch(const struct port *p, unsigned n) {
    const struct tpacket2_hdr *const frame = ring_frame(p, n);
    __builtin_prefetch(ring_frame(p, n + 1));
    if (!(frame->tp_status & TP_STATUS_USER))
        return;
    const unsigned end = frame->tp_mac + frame->tp_snaplen;
    for (unsigned at = 64; at < end && at < PREFETCH; at += 64)
        __builtin_prefetch((const uint8_t *)frame + at);
}

// The kernel removes a packet's VLAN tag before a socket sees the packet. There is room before the
// packet to put the tag back.
static uint8_t *put_back_tag(const struct tpacket2_hdr *frame, uint8_t *packet) {
    const bool named = frame->tp_status & TP_STATUS_VLAN_TPID_VALID;
    memmove(packet - TAG, packet, 2 * ETH_ALEN);
    store_bytes(packet - TAG + 2 * ETH_ALEN, 2, named ? frame->tp_vlan_tpid : ETH_P_8021Q);
    store_bytes(packet - TAG + 2 * ETH_ALEN + 2, 2, frame->tp_vlan_tci);
    return packet - TAG;
}

static void take_packet(struct port *p, const struct tpacket2_hdr *frame, uint8_t *packet,
                        size_t length) {
    if (frame->tp_status & TP_STATUS_VLAN_VALID && length >= 2 * ETH_ALEN) {
        packet = put_back_tag(frame, packet);
        length += TAG;
    }
    p->rx_packets++;
    p->rx_bytes += length;
    process(p->number, packet, length);
}

// Processes the packets of a superframe, and returns their number.
static unsigned take_superframe(struct port *p, const struct tpacket2_hdr *frame,
                                const struct superframe *f) {
    for (unsigned n = 0; n < f->count; n++) {
        const size_t length = superframe_length(f, n);
        if (cuts_used + TAG + length > CUTS) {
            outputs_done(0);
            cuts_used = 0;
        }
        uint8_t *const packet = cuts + cuts_used + TAG;
        cuts_used += TAG + length;
        superframe_cut(f, n, packet);
        take_packet(p, frame, packet, length);
    }
    return f->count;
}

static unsigned take_frame(struct port *p, const struct tpacket2_hdr *frame) {
    uint8_t *const packet = (uint8_t *)frame + frame->tp_mac;
    struct virtio_net_hdr offload;
    struct superframe f;
    memcpy(&offload, packet - sizeof offload, sizeof offload);
    const bool whole = frame->tp_snaplen == frame->tp_len;
    if (whole && offload.gso_type == VIRTIO_NET_HDR_GSO_NONE) {
        if (offload.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)
            complete_checksum(packet, frame->tp_len, &offload);
        take_packet(p, frame, packet, frame->tp_len);
        return 1;
    }
    if (whole && superframe_open(&f, packet, frame->tp_len, &offload))
        return take_superframe(p, frame, &f);
    oversize++;
    return 1;
}

// Processes up to BURST packets, or a few more; returns their number.
static unsigned ring_drain(struct port *p) {
    unsigned frames = 0, packets = 0;
    for (; packets < BURST && frames < p->frame_count; frames++) {
        const struct tpacket2_hdr *frame = ring_frame(p, p->head + frames);
        if (!(__atomic_load_n(&frame->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            break;
        ring_prefetch(p, p->head + frames + 1);
        packets += take_frame(p, frame);
    }
    if (frames > 0) {
        outputs_done(0);
        cuts_used = 0;
        for (unsigned i = 0; i < frames; i++)
            __atomic_store_n(&ring_frame(p, p->head + i)->tp_status, TP_STATUS_KERNEL,
                             __ATOMIC_RELEASE);
        p->head += frames;
    }
    return packets;
}

static void ring_statistics(void) {
    const uint64_t totals[] = {oversize, no_port, endless};
    for (unsigned i = 0; i < 3; i++)
        reply_u64(totals[i]);
    for (unsigned i = 0; i < port_count; i++) {
        struct port *p = &ports[i];
        struct tpacket_stats since;
        socklen_t size = sizeof since;
        if (getsockopt(p->fd, SOL_PACKET, PACKET_STATISTICS, &since, &size) == 0)
            p->rx_drops += since.tp_drops; // reading them resets them
        const uint64_t words[] = {p->number,   p->rx_packets, p->rx_bytes, p->rx_drops,
                                  p->tx_packets, p->tx_bytes, p->tx_drops};
        for (unsigned k = 0; k < 7; k++)
            reply_u64(words[k]);
    }
}

// The switch runs before the hosts. If the kernel groups processes by session (sched_autogroup), a
// nice value counts only within the group, and the group's own nice value against other groups.
// Best effort: without the permission the switch only runs later.
static void take_precedence(void) {
    setpriority(PRIO_PROCESS, 0, -20);
    if (setsid() < 0)
        return; // no session of its own: the group's nice value belongs to others, too
    FILE *group = fopen("/proc/self/autogroup", "w");
    if (group != NULL) {
        fputs("-20", group);
        fclose(group);
    }
}

static uint64_t microseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

// Runs until SIGTERM, or until `take_request` returns false because the control plane has closed
// the socket. Sleeps whenever all rings are empty.
//
// A wake-up costs the sender of a packet and this process some microseconds each. So after some
// packets the process first sleeps for a fixed short time, in which more packets gather without a
// wake-up. Only if none arrives in that time does it block in poll(). It does not use epoll, which
// has a cost for every packet even while no process waits.
static void ring_run(long nap_nanoseconds, bool (*take_request)(void)) {
    const uint64_t start = microseconds();
    const struct timespec nap = {.tv_nsec = nap_nanoseconds};
    struct pollfd files[1 + MAX_PORTS] = {{CONTROL, POLLIN, 0}};
    prctl(PR_SET_TIMERSLACK, 1000ul);
    take_precedence();
    for (unsigned i = 0; i < port_count; i++)
        files[1 + i] = (struct pollfd){ports[i].fd, POLLIN, 0};
    for (rounds = 1; !stopped; rounds++) {
        unsigned most = 0;
        now = microseconds() - start;
        for (unsigned i = 0; i < port_count; i++) {
            const unsigned n = ring_drain(&ports[i]);
            most = n > most ? n : most;
        }
        if (most > 0 && most < BURST)
            nanosleep(&nap, NULL);
        const bool busy = most > 0;
        if (busy && rounds % ROUNDS != 0)
            continue;
        if (poll(files, busy ? 1 : 1 + port_count, busy ? 0 : -1) <= 0)
            continue;
        if (files[0].revents && !take_request())
            return;
        for (unsigned i = 0; !busy && i < port_count; i++) {
            int error;
            socklen_t size = sizeof error;
            if (files[1 + i].revents & POLLERR) // the interface went down: clear the error
                getsockopt(ports[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
        }
    }
}

#endif
