#include "links.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

size_t link_bytes(uint32_t frames, uint32_t full)
{
    return sizeof(struct link) + frames * slot_bytes(full);
}

struct node *node_open(struct bell *bell, uint32_t frames, uint32_t full)
{
    struct node *node = calloc(1, sizeof *node);
    if (node)
        *node = (struct node){.bell = bell, .frames = frames, .full = full};
    return node;
}

void node_close(struct node *node)
{
    free(node->arriving);
    free(node->ways);
    free(node->readers);
    free(node->shared);
    free(node);
}

int node_hear(struct node *node, struct link *from)
{
    struct link **more =
        realloc(node->arriving, (node->arriving_count + 1) * sizeof *node->arriving);
    if (!more)
        return -1;
    node->arriving = more;
    node->arriving[node->arriving_count++] = from;
    return 0;
}

int node_reach(struct node *node, uint32_t address, struct link *link, struct bell *bell,
               bool to_host, const uint8_t *with_values, const uint8_t *without)
{
    struct way *more = realloc(node->ways, (node->ways_count + 1) * sizeof *node->ways);
    if (!more)
        return -1;
    node->ways = more;
    struct way *way = &node->ways[node->ways_count++];
    *way = (struct way){.address = address, .link = link, .bell = bell, .to_host = to_host};
    memcpy(way->headers[0], with_values, HEADERS);
    memcpy(way->headers[1], without, HEADERS);
    return 0;
}

int node_shares(struct node *node)
{
    const size_t slots = (size_t)node->ways_count * node->frames;
    node->readers = calloc(slots * node->ways_count + 1, sizeof *node->readers);
    node->shared = calloc(slots + 1, sizeof *node->shared);
    return node->readers && node->shared ? 0 : -1;
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *time)
{
    return syscall(SYS_futex, word, operation, value, time, NULL, 0);
}

void bell_ring(struct bell *bell)
{
    atomic_fetch_add(&bell->rung, 1);
    if (atomic_load(&bell->sleeps))
        futex(&bell->rung, FUTEX_WAKE, INT_MAX, NULL);
}

void node_publish(struct node *node)
{
    for (uint32_t i = 0; i < node->ways_count; i++) {
        struct way *way = &node->ways[i];
        if (atomic_load_explicit(&way->link->sent, memory_order_relaxed) == way->sent)
            continue;
        atomic_store(&way->link->sent, way->sent);
        way->rings = waiting(way->link) < node->frames / ENOUGH;
        if (!way->rings)
            bell_ring(way->bell);
    }
}

void node_ring(struct node *node)
{
    for (uint32_t i = 0; i < node->ways_count; i++) {
        if (node->ways[i].rings)
            bell_ring(node->ways[i].bell);
        node->ways[i].rings = false;
    }
}

static bool anything_waits(struct node *const *nodes, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t i = 0; i < nodes[n]->arriving_count; i++)
            if (waiting(nodes[n]->arriving[i]))
                return true;
    return false;
}

void bell_wait(struct bell *bell, struct node *const *nodes, uint32_t count, double seconds)
{
    for (uint32_t n = 0; n < count; n++)
        node_ring(nodes[n]);
    if (seconds <= 0)
        return;
    const uint32_t rung = atomic_load(&bell->rung);
    /* A sender that sends after the check below sees that the bell's owner sleeps. */
    atomic_store(&bell->sleeps, 1);
    if (!anything_waits(nodes, count)) {
        const struct timespec time = duration(seconds);
        futex(&bell->rung, FUTEX_WAIT, rung, &time);
    }
    atomic_store(&bell->sleeps, 0);
}
