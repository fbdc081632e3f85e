#include "capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "ring.h"

enum { LONGEST = 1 << 18, ETHERNET_LINKS = 1 };

struct pending {
    struct packet *packet;
    instant starts;
};

struct capture {
    struct network *network;
    const struct port *port;
    FILE *file;
    struct ring pending; /* packets whose transmission has not begun */
};

struct capture *capture_open(const struct port *port, const char *path)
{
    /* https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ */
    static const struct {
        uint32_t magic;
        uint16_t major, minor;
        uint32_t reserved[2], longest, link_type;
    } header = {0xa1b23c4d, 2, 4, {0, 0}, LONGEST, ETHERNET_LINKS};
    FILE *file = fopen(path, "wb");
    if (!file)
        return NULL;
    fwrite(&header, sizeof header, 1, file);
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        abort();
    capture->network = port->network;
    capture->port = port;
    capture->file = file;
    return capture;
}

const struct port *capture_port(const struct capture *capture)
{
    return capture->port;
}

/* Values that are counted but not carried, and the data of segments, are cut off, as by tcpdump's
   snapshot length. */
static void put_packet(struct capture *capture, const struct packet *packet, instant at)
{
    uint8_t headers[TCP_LONGEST];
    uint32_t size = UDP_HEADERS, length;
    if (packet->key.protocol == PROTOCOL_TCP) {
        size = length = (uint32_t)frame_segment(headers, packet);
    } else {
        length = packet->length;
        memcpy(headers, packet->data, UDP_HEADERS);
        if (packet->bytes > length)
            frame_lengthen(headers, packet->bytes - length);
    }
    const uint32_t record[] = {(uint32_t)(at / SECOND), (uint32_t)(at % SECOND / 1000), length,
                               packet->bytes};
    fwrite(record, sizeof record, 1, capture->file);
    fwrite(headers, size, 1, capture->file);
    if (length > size)
        fwrite(packet->data + size, length - size, 1, capture->file);
}

static void put_begun(struct capture *capture, instant now)
{
    struct ring *pending = &capture->pending;
    for (; !ring_is_empty(pending); pending->head++) {
        const struct pending *first = ring_at(pending, pending->head, sizeof *first);
        if (first->starts > now)
            return;
        put_packet(capture, first->packet, first->starts);
        packet_free(capture->network, first->packet);
    }
}

void capture_left(struct capture *capture, const struct packet *packet, instant starts, instant now)
{
    put_begun(capture, now);
    struct pending *added = ring_add(&capture->pending, sizeof *added, &capture->network->arena);
    *added = (struct pending){packet_copy(capture->network, packet), starts};
}

void capture_arrived(struct capture *capture, const struct packet *packet, instant now)
{
    put_begun(capture, now);
    put_packet(capture, packet, now);
}

int capture_close(struct capture *capture, instant now)
{
    put_begun(capture, now);
    errno = 0;
    int failed = ferror(capture->file) ? EIO : 0;
    if (fclose(capture->file))
        failed = errno ? errno : EIO;
    free(capture);
    return failed;
}
