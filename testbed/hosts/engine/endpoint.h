/* One rank's socket and all its trees: the interface that aggregation.py loads. */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include "flow.h"

struct endpoint;

/* Why endpoint_wait came back: a mask, or -errno. 0: look for signals, and wait again. */
enum { PROGRESS = 1, DEADLINE = 2, OTHER = 4 };

struct endpoint *endpoint_open(uint32_t address, double tick, int burst, int *error);
void endpoint_close(struct endpoint *endpoint);
int endpoint_descriptor(const struct endpoint *endpoint);
int endpoint_add(struct endpoint *endpoint, const struct role *role); /* index, or -errno */
int endpoint_push(struct endpoint *endpoint, int flow, int operation, int32_t *values,
                  uint64_t fragments);
uint64_t endpoint_done(const struct endpoint *endpoint, int flow);
const struct counters *endpoint_counters(const struct endpoint *endpoint, int flow);
const uint64_t *endpoint_float_sums(const struct endpoint *endpoint, int flow, uint64_t *count);
int endpoint_wait(struct endpoint *endpoint, double deadline, int other);

#endif
