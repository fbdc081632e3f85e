/* Drives a rank's engine on the machine's clock and a UDP socket. */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include "engine.h"

struct endpoint;

/* Why endpoint_wait returned: a mask, or -errno. 0: check for signals, and wait again. */
enum { PROGRESS = 1, DEADLINE = 2, OTHER = 4 };

/* `tick`: seconds for which packets may gather after a wake-up before they are read. `burst`:
   number of packets that may leave back to back, as one long datagram. `pace`: seconds that pass on
   the engine's clock in a second. */
struct endpoint *endpoint_open(uint32_t address, uint16_t port, double tick, int burst, double pace,
                               int *error);
void endpoint_close(struct endpoint *endpoint);
struct engine *endpoint_engine(struct endpoint *endpoint);
int endpoint_descriptor(const struct endpoint *endpoint);
int endpoint_wait(struct endpoint *endpoint, double deadline, int other);

#endif
