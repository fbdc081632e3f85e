// Requests of the control plane to a switch, which requests.py writes. They are in native byte
// order, because both ends run on one machine.
#ifndef REQUESTS_H
#define REQUESTS_H

#include "pipeline.h"
#include "reply.h"

struct request {
    const uint8_t *at;
    size_t left;
};

enum { DONE, MALFORMED, NO_SUCH_INDEX, FULL, DUPLICATE };

static uint64_t take(struct request *r, unsigned n) {
    uint64_t x = 0;
    if (r->left < n) {
        r->left = 0;
        return 0;
    }
    memcpy(&x, r->at, n);
    r->at += n;
    r->left -= n;
    return x;
}

static const uint64_t *take_words(struct request *r, uint64_t *to, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        to[i] = take(r, 8);
    return to;
}

static uint32_t do_insert(struct request *r) {
    const uint64_t index = take(r, 2), action = take(r, 2);
    const int32_t priority = (int32_t)take(r, 4);
    if (index >= table_count)
        return NO_SUCH_INDEX;
    struct table *t = tables[index];
    if (r->left != 8 * (2 * t->key_words + t->data_words))
        return MALFORMED;
    uint64_t words[2 * t->key_words + t->data_words + 1];
    take_words(r, words, 2 * t->key_words + t->data_words);
    const int result = table_insert(t, (unsigned)action, priority, words, words + t->key_words,
                                    words + 2 * t->key_words);
    return result == TABLE_OK ? DONE : result == TABLE_FULL ? FULL : DUPLICATE;
}

static uint32_t do_default(struct request *r) {
    const uint64_t index = take(r, 2), action = take(r, 2);
    if (index >= table_count)
        return NO_SUCH_INDEX;
    if (r->left != 8 * tables[index]->data_words)
        return MALFORMED;
    uint64_t words[tables[index]->data_words + 1];
    table_set_miss(tables[index], (unsigned)action,
                   take_words(r, words, tables[index]->data_words));
    return DONE;
}

static uint32_t do_group(struct request *r) {
    const uint64_t index = take(r, 2), count = take(r, 2);
    if (r->left != 4 * count)
        return MALFORMED;
    struct group *g = allocate(sizeof *g + count * sizeof g->replicas[0]);
    g->count = (unsigned)count;
    for (unsigned i = 0; i < count; i++) {
        g->replicas[i].port = (uint16_t)take(r, 2);
        g->replicas[i].rid = (uint16_t)take(r, 2);
    }
    free(groups[index]);
    groups[index] = g;
    return DONE;
}

// Cells are big-endian in requests and replies.
static uint32_t do_register(struct request *r, char op) {
    const uint64_t index = take(r, 2), at = take(r, 4);
    if (index >= register_count || at >= registers[index].size)
        return NO_SUCH_INDEX;
    const struct registers *array = &registers[index];
    uint8_t *cell = (uint8_t *)array->cells + at * array->cell;
    if (op == 'Z') {
        memset(array->cells, 0, (size_t)array->size * array->cell);
    } else if (op == 'R') {
        if (array->cell == 8)
            reply_bytes(&(uint64_t){WIRE64(*(uint64_t *)(void *)cell)}, 8);
        else
            reply_bytes(cell, array->cell);
    } else if (r->left != array->cell) {
        return MALFORMED;
    } else if (array->cell == 8) {
        *(uint64_t *)(void *)cell = load64(r->at);
    } else {
        memcpy(cell, r->at, array->cell);
    }
    return DONE;
}

static uint32_t do_counter(struct request *r) {
    const uint64_t index = take(r, 2), at = take(r, 4);
    if (index >= counter_count)
        return NO_SUCH_INDEX;
    const struct counters *array = &counters[index];
    const struct entry *entry = array->table ? table_entry(array->table, at) : NULL;
    if (entry == NULL && at >= array->size)
        return NO_SUCH_INDEX;
    reply_u64(entry ? entry->packets : array->cells[at].packets);
    reply_u64(entry ? entry->bytes : array->cells[at].bytes);
    return DONE;
}

static uint32_t do_meter(struct request *r) {
    const uint64_t index = take(r, 2), at = take(r, 4);
    if (index >= meter_count)
        return NO_SUCH_INDEX;
    const struct meters *array = &meters[index];
    struct entry *entry = array->table ? table_entry(array->table, at) : NULL;
    if (entry == NULL && at >= array->size)
        return NO_SUCH_INDEX;
    if (r->left != 32)
        return MALFORMED;
    if (entry != NULL && entry->meter == NULL)
        entry->meter = allocate(sizeof *entry->meter);
    struct meter *m = entry ? entry->meter : &array->cells[at];
    struct bucket *const buckets[] = {&m->committed, &m->peak};
    for (unsigned i = 0; i < 2; i++) {
        double rate;
        memcpy(&rate, &(uint64_t){take(r, 8)}, 8);
        bucket_set(buckets[i], rate, take(r, 8));
    }
    m->set = true;
    return DONE;
}

// Where clones of a session go: a port, or a multicast group.
static uint32_t do_mirror(struct request *r) {
    const uint64_t session = take(r, 2), multicast = take(r, 2), to = take(r, 2);
#if PASSES
    if (session >= MAX_SESSIONS)
        return NO_SUCH_INDEX;
    mirrors[session] = (struct mirror){true, multicast != 0, (uint16_t)to};
    return DONE;
#else
    (void)session, (void)multicast, (void)to; // the program has no clones
    return DONE;
#endif
}

// Forgets its configuration and its counts, as a restart does.
static uint32_t do_restart(void) {
    for (unsigned i = 0; i < table_count; i++)
        table_clear(tables[i]);
    for (unsigned i = 0; i < sizeof groups / sizeof *groups; i++) {
        free(groups[i]);
        groups[i] = NULL;
    }
    for (unsigned i = 0; i < register_count; i++)
        memset(registers[i].cells, 0, (size_t)registers[i].size * registers[i].cell);
    for (unsigned i = 0; i < counter_count; i++)
        if (!counters[i].table)
            memset(counters[i].cells, 0, counters[i].size * sizeof *counters[i].cells);
    for (unsigned i = 0; i < meter_count; i++)
        if (!meters[i].table)
            memset(meters[i].cells, 0, meters[i].size * sizeof *meters[i].cells);
    install();
    return DONE;
}

static uint32_t answer(struct request r) {
    const char op = (char)take(&r, 1);
    switch (op) {
    case 'I':
        return do_insert(&r);
    case 'D':
        return do_default(&r);
    case 'G':
        return do_group(&r);
    case 'R':
    case 'W':
    case 'Z':
        return do_register(&r, op);
    case 'C':
        return do_counter(&r);
    case 'E':
        return do_meter(&r);
    case 'M':
        return do_mirror(&r);
    case 'X':
        return do_restart();
    default:
        return other_request(op, &r);
    }
}

#endif
